//! The way of every request: route, authenticate, apply the rate limit, call the handler, log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Body as _;
use hyper::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
};
use hyper::{Method, Request, Version};
use tracing::Instrument as _;

use crate::auth::visitor::{FORM_TOKEN, Visitor, check_token};
use crate::auth::{Access, Identity};
use crate::compat;
use crate::context::{RequestContext, path_param};
use crate::dashboard::frame;
use crate::http::connection::RequestHandler;
use crate::http::rate_limits::{Client, RateLimitStatus};
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Response, Result};
use crate::ids;
use crate::routes::{RouteMatch, Router, Surface};
use crate::state::AppState;

/// Calls of pages.
const CALLS: &str = "/v1/realtime/calls";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers the requests of one listener.
#[derive(Clone)]
pub struct Dispatcher {
    state: Arc<AppState>,
    router: Arc<Router>,
}

impl Dispatcher {
    pub fn new(state: Arc<AppState>, surfaces: &'static [Surface]) -> Self {
        Self { state, router: Arc::new(Router::new(surfaces)) }
    }

    async fn respond(&self, matched: RouteMatch, peer: SocketAddr, request: Request<RequestBody>) -> Response {
        let AppState { authenticator, rate_limits, trusted_proxies, .. } = &*self.state;
        let shape = ErrorShape::of(&request, self.router.serves(Surface::Dashboard));
        let refuse = |limit: RateLimitStatus, error: ApiError| shape.refuse(limit, error);
        let address = Client::at(trusted_proxies.client(peer.ip(), request.headers()));
        if !names_one_host(&request) {
            let message = "Send one `Host` header, which HTTP/1.1 requires.";
            return refuse(rate_limits.count(&address), ApiError::invalid(message));
        }
        let (route, params) = match matched {
            RouteMatch::Route { route, params } => (route, params),
            // A missing path is reported without a key, too: it reveals nothing.
            other => {
                let account = authenticator.account(request.headers()).await;
                let client = account.map_or(address, |account| Client::Account(account.id));
                return refuse(rate_limits.count(&client), other.refusal());
            }
        };
        let mut new_cookie = None;
        let (identity, limit) = match route.access {
            // Monitoring asks without a key and is never refused for its rate.
            Access::Open => (Identity::Anonymous, rate_limits.peek(&address)),
            // Visitors of web pages hold these. They have a count of their own, so that they cannot use up the account's.
            Access::Signed(signed_for) => {
                let param = |name: &str| path_param(&params, name);
                let identity = authenticator.verify(signed_for, request.uri(), request.headers(), param).await;
                let limit = rate_limits.count(&identity.client(address.clone()));
                (identity, limit)
            }
            access @ (Access::Visitor | Access::SignedIn | Access::Script) => {
                let mut visitor = match authenticator.visitor(request.headers()).await {
                    Ok(visitor) => visitor,
                    Err(error) => return refuse(rate_limits.count(&address), error),
                };
                new_cookie = visitor.new_cookie.take();
                let admitted = self.admit(access, &visitor, &request);
                let identity = Identity::Visitor(visitor);
                let limit = rate_limits.count(&identity.client(address.clone()));
                match admitted {
                    Ok(Admitted::Yes) => (identity, limit),
                    Ok(Admitted::AfterSignIn) if !limit.exceeded => return frame::sign_in_first(&request),
                    Ok(Admitted::AfterSignIn) => return refuse(limit, ApiError::rate_limited(limit.reset_s)),
                    Err(error) => return refuse(limit, error),
                }
            }
            access @ (Access::ApiKey | Access::AnyApiKey | Access::KeyOrSecret) => {
                match authenticator.sender(access, request.headers()).await {
                    Ok(identity) => {
                        let limit = rate_limits.count(&identity.client(address.clone()));
                        (identity, limit)
                    }
                    Err(error) => return refuse(rate_limits.count(&address), error),
                }
            }
        };
        if limit.exceeded {
            return refuse(limit, ApiError::rate_limited(limit.reset_s));
        }
        if has_coding(&request) {
            return refuse(limit, ApiError::unsupported_coding());
        }
        let request = RequestContext::new(address, identity, params, request);
        let mut response = (route.handler)(&self.state, request).await.unwrap_or_else(|error| shape.response(&error));
        limit.write(response.headers_mut());
        if let Some(cookie) = new_cookie {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }

    /// Decides if a visitor may open a page or send a request of this kind. The token of a form is checked when the form is read.
    fn admit(&self, access: Access, visitor: &Visitor, request: &Request<RequestBody>) -> Result<Admitted> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if !reads {
            self.state.authenticator.cookies.check_origin(request.headers())?;
        }
        match access {
            Access::SignedIn if visitor.sign_in.is_none() => return Ok(Admitted::AfterSignIn),
            Access::Script => {
                visitor.signed_in()?;
                if !reads {
                    let token = request.headers().get(FORM_TOKEN).and_then(|token| token.to_str().ok());
                    check_token(token.unwrap_or_default(), &visitor.form_token)?;
                }
            }
            _ => {}
        }
        Ok(Admitted::Yes)
    }
}

/// The decision about a visitor.
enum Admitted {
    Yes,
    AfterSignIn,
}

impl RequestHandler for Dispatcher {
    async fn handle(&self, peer: SocketAddr, request: Request<RequestBody>) -> Response {
        let began = Instant::now();
        let id = request_id(request.headers());
        let method = request.method().clone();
        let matched = self.router.find(&method, request.uri().path());
        let route = matched.path();
        let span = tracing::info_span!("request", id = %id);
        let mut response = self.respond(matched, peer, request).instrument(span.clone()).await;
        if self.router.serves(Surface::Storage) || route == CALLS {
            // Any web page may upload files or call, and must be able to read the errors.
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        }
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        if self.router.serves(Surface::Dashboard) {
            self.state.dashboard.browser_rules.write(response.headers_mut());
        }
        response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        let status = response.status().as_u16();
        let took = began.elapsed();
        metrics::counter!("auricle_requests_total", "route" => route, "status" => status_class(status)).increment(1);
        metrics::histogram!("auricle_request_seconds", "route" => route).record(took);
        span.in_scope(|| tracing::info!(%method, route, status, ms = took.as_secs_f64() * 1e3, "answered"));
        response
    }
}

fn status_class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// Every request of HTTP/1.1 has one `Host` header. A proxy in between may understand another number in its own way.
fn names_one_host(request: &Request<RequestBody>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() != Version::HTTP_11)
}

/// True for a body in a coding, such as gzip.
fn has_coding(request: &Request<RequestBody>) -> bool {
    let mut codings = request.headers().get_all(CONTENT_ENCODING).iter();
    !request.body().is_end_stream() && codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The form of an error's body.
#[derive(Clone, Copy)]
enum ErrorShape {
    Service,
    /// Of the paths below `/v1`, whose clients expect it.
    OpenAi,
    /// Of another protocol.
    Compat(fn(&ApiError) -> Response),
    /// A page, for a browser that asks for one.
    Page,
}

impl ErrorShape {
    fn of(request: &Request<RequestBody>, is_dashboard: bool) -> Self {
        let accepts = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let path = request.uri().path().trim_start_matches("/try");
        if is_dashboard && accepts.contains("text/html") {
            Self::Page
        } else if let Some(write) = compat::error_response(path) {
            Self::Compat(write)
        } else if path.starts_with("/v1/") {
            Self::OpenAi
        } else {
            Self::Service
        }
    }

    fn response(self, error: &ApiError) -> Response {
        match self {
            Self::Service => error.response(),
            Self::OpenAi => error.openai_response(),
            Self::Compat(write) => write(error),
            Self::Page => frame::error_page(error),
        }
    }

    /// The response to a refused request. An exceeded rate limit comes before any other error.
    fn refuse(self, limit: RateLimitStatus, error: ApiError) -> Response {
        let error = if limit.exceeded { ApiError::rate_limited(limit.reset_s) } else { error };
        let mut response = self.response(&error);
        limit.write(response.headers_mut());
        response
    }
}

/// The client's request id if it can be logged, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    given.filter(usable).map_or_else(|| ids::fresh("req"), str::to_owned)
}
