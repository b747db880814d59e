//! The common part of all pages: the frame with its navigation, the rules for browsers, errors, and the way to the sign-in.

use askama::Template;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::assets::Assets;
use super::shown;
use super::words::{EN, Words};
use super::{DashboardState, rendered};
use crate::billing::dollars;
use crate::context::RequestContext;
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Response, Result, see_other, text};

/// A part of the dashboard that the navigation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Transcripts,
    Playground,
    Keys,
    Usage,
    Billing,
    Team,
    Webhooks,
    Reference,
    Operator,
}

/// The frame of a page.
pub struct Frame {
    pub words: &'static Words,
    pub assets: &'static Assets,
    pub title: String,
    /// The token of the page's forms; empty on pages without one.
    pub form_token: String,
    /// None before the sign-in.
    pub signed_in: Option<Navigation>,
}

/// The navigation of somebody who has signed in.
pub struct Navigation {
    pub email: String,
    pub section: Section,
    /// The credit that is left.
    pub credit: String,
    pub subscribed: bool,
    /// Members do not see billing.
    pub is_owner: bool,
    /// The operator has a page of the whole service.
    pub is_operator: bool,
}

impl Navigation {
    /// The state of a link to a section, for those who do not see it.
    pub fn current(&self, name: &str) -> &'static str {
        let section = match self.section {
            Section::Transcripts => "transcripts",
            Section::Playground => "playground",
            Section::Keys => "keys",
            Section::Usage => "usage",
            Section::Billing => "billing",
            Section::Team => "team",
            Section::Webhooks => "webhooks",
            Section::Reference => "reference",
            Section::Operator => "operator",
        };
        if section == name { "page" } else { "false" }
    }
}

impl Frame {
    /// The frame of a page without navigation.
    pub fn plain(title: &str, form_token: &str) -> Self {
        Self {
            words: &EN,
            assets: Assets::get(),
            title: title.to_owned(),
            form_token: form_token.to_owned(),
            signed_in: None,
        }
    }

    /// The frame of a page for somebody who has signed in.
    ///
    /// # Errors
    /// 401 for others.
    pub async fn new(state: &DashboardState, request: &RequestContext, section: Section, title: &str) -> Result<Self> {
        let visitor = request.visitor()?;
        let sign_in = visitor.signed_in()?;
        let allowance = state.store.allowance(&sign_in.account.id).await?;
        let navigation = Navigation {
            email: sign_in.email.clone(),
            section,
            credit: dollars(allowance.balance),
            subscribed: allowance.subscribed,
            is_owner: sign_in.account.by_owner,
            is_operator: state.operation.is_operator(sign_in),
        };
        Ok(Self { signed_in: Some(navigation), ..Self::plain(title, &visitor.form_token) })
    }

    /// A drawing of the icon of this name, which follows the colour of the text.
    pub fn icon(&self, name: &str) -> &'static str {
        shown::icon(name)
    }

    /// The words that the script uses, as JSON.
    pub fn script_words(&self) -> String {
        self.words.of_script()
    }
}

/// A page. Browsers do not keep it: it belongs to one person.
pub fn page(template: &impl Template) -> Result<Response> {
    Ok(private(text("text/html; charset=utf-8", rendered(template.render())?)))
}

/// A page that says why a form was not accepted.
pub fn refused(template: &impl Template) -> Result<Response> {
    let mut response = page(template)?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}

/// A response that no cache keeps.
pub fn private(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: Frame,
    status: u16,
    message: &'a str,
}

/// An error as a page.
pub fn error_page(error: &ApiError) -> Response {
    let status = error.status.as_u16();
    let title = if status == 404 { EN.error_not_found } else { EN.error_title };
    let html = ErrorPage { frame: Frame::plain(title, ""), status, message: &error.message }.render();
    match html {
        Ok(html) => private(error.page(html)),
        Err(_) => error.response(),
    }
}

/// Sends a browser to the sign-in, and from there back to the page.
pub fn sign_in_first(request: &Request<RequestBody>) -> Response {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    match (request.method(), path) {
        (&Method::GET | &Method::HEAD, path) if path != "/" => {
            private(see_other(&format!("/login?next={}", utf8_percent_encode(path, NON_ALPHANUMERIC))))
        }
        _ => private(see_other("/login")),
    }
}

/// `GET /`
pub async fn home(_: RequestContext) -> Result<Response> {
    Ok(private(see_other("/transcripts")))
}

/// Headers of every response, which tell a browser what a page may do.
pub struct BrowserRules(Vec<(HeaderName, HeaderValue)>);

impl BrowserRules {
    /// `storage` is where signed uploads go, and `api` where live sessions are.
    pub fn new(api: &Url, storage: &str) -> Self {
        let mut live = api.clone();
        let _ = live.set_scheme(if api.scheme() == "https" { "wss" } else { "ws" });
        let live = origin(&live);
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'none'; \
             connect-src 'self' {storage} {live}; media-src 'self' blob: https: http:; worker-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        let rules = [
            ("content-security-policy", policy.as_str()),
            ("x-frame-options", "DENY"),
            // Forms need the origin of their page.
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("permissions-policy", "microphone=(self), camera=(), geolocation=(), payment=(), usb=()"),
        ];
        let header = |(name, value): (&'static str, &str)| {
            Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
        };
        Self(rules.into_iter().filter_map(header).collect())
    }

    /// Adds the headers that a response has not set itself.
    pub fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

/// Scheme, host and port of a URL; `url` calls that of a WebSocket opaque.
fn origin(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_allows_no_inline_script_and_names_the_live_address() {
        let rules = BrowserRules::new(&Url::parse("https://api.example.com:9000/x").unwrap(), "http://127.0.0.1:8081");
        let mut headers = HeaderMap::new();
        rules.write(&mut headers);
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("connect-src 'self' http://127.0.0.1:8081 wss://api.example.com:9000;"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers.len(), 6);
    }
}
