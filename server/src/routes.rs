//! The routing table: every path and method of the service, who may call it, and what its document says.

use hyper::Method;

use crate::api::{billing, health, models, transcripts, uploads};
use crate::billing::stripe;
use crate::dashboard::checkout;
use crate::http::response::ApiError;
use crate::http::{Answer, RequestContext, Surface};
use crate::live::realtime;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever has an API key.
    Key,
    /// Whoever has a URL that we signed, from any web page.
    Signed(Signed),
    /// Anybody.
    Open,
}

/// What was signed, and for whom: requests count for that account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    Upload,
    Session,
    Checkout,
}

/// What the API's document says of a route. Names of schemas are those of `openapi.json`.
pub struct Doc {
    pub tag: &'static str,
    pub summary: &'static str,
    pub request: Option<&'static str>,
    /// Whether all of the body may be left out.
    pub request_may_be_absent: bool,
    pub response: Shape,
    /// Names of query and header parameters.
    pub parameters: &'static [&'static str],
    /// Error statuses of its own, beyond those of every route.
    pub errors: &'static [u16],
}

/// What a route answers with when all is well.
#[derive(Clone, Copy)]
pub enum Shape {
    Json(&'static str),
    Text(&'static str),
    Nothing,
    /// The connection becomes a WebSocket.
    Upgrade,
}

/// One row of the table.
pub struct Route {
    pub surface: Surface,
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub handler: fn(RequestContext) -> Answer,
    /// None for what is no part of the API: pages, notices of the payment provider.
    pub doc: Option<Doc>,
}

macro_rules! handler {
    ($function:path) => {
        |call| Box::pin($function(call))
    };
}

const fn doc(tag: &'static str, summary: &'static str, response: Shape) -> Doc {
    Doc { tag, summary, request: None, request_may_be_absent: false, response, parameters: &[], errors: &[] }
}

impl Doc {
    const fn takes(mut self, schema: &'static str) -> Self {
        self.request = Some(schema);
        self
    }

    const fn may_take(mut self, schema: &'static str) -> Self {
        self.request_may_be_absent = true;
        self.takes(schema)
    }

    const fn with(mut self, parameters: &'static [&'static str]) -> Self {
        self.parameters = parameters;
        self
    }

    const fn fails(mut self, errors: &'static [u16]) -> Self {
        self.errors = errors;
        self
    }
}

const fn api(method: Method, path: &'static str, handler: fn(RequestContext) -> Answer, doc: Doc) -> Route {
    Route { surface: Surface::Api, method, path, access: Access::Key, handler, doc: Some(doc) }
}

const fn open(path: &'static str, handler: fn(RequestContext) -> Answer, doc: Doc) -> Route {
    Route { surface: Surface::Api, method: Method::GET, path, access: Access::Open, handler, doc: Some(doc) }
}

const fn page(
    surface: Surface,
    method: Method,
    path: &'static str,
    access: Access,
    handler: fn(RequestContext) -> Answer,
) -> Route {
    Route { surface, method, path, access, handler, doc: None }
}

const UPLOAD: Access = Access::Signed(Signed::Upload);
const CHECKOUT: Access = Access::Signed(Signed::Checkout);

/// The table.
pub static ROUTES: &[Route] = &[
    api(
        Method::POST,
        "/v2/transcripts",
        handler!(transcripts::create),
        doc("transcripts", "Create a transcript", Shape::Json("Transcript"))
            .takes("CreateTranscript")
            .with(&["Idempotency-Key"])
            .fails(&[402, 404, 409, 413, 415, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts",
        handler!(transcripts::list),
        doc("transcripts", "List transcripts, newest first", Shape::Json("TranscriptList"))
            .with(&["limit", "offset", "status"])
            .fails(&[422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}",
        handler!(transcripts::get),
        doc("transcripts", "Get a transcript", Shape::Json("Transcript")).fails(&[404]),
    ),
    api(
        Method::DELETE,
        "/v2/transcripts/{transcript_id}",
        handler!(transcripts::delete),
        doc("transcripts", "Delete a transcript for good", Shape::Nothing).fails(&[404]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/sentences",
        handler!(transcripts::sentences),
        doc("transcripts", "Timed sentences", Shape::Json("Sentences")).fails(&[404, 409]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/paragraphs",
        handler!(transcripts::paragraphs),
        doc("transcripts", "Timed paragraphs", Shape::Json("Paragraphs")).fails(&[404, 409]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/word-search",
        handler!(transcripts::word_search),
        doc("transcripts", "Where words and phrases occur", Shape::Json("WordSearch"))
            .with(&["words"])
            .fails(&[400, 404, 409]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/srt",
        handler!(transcripts::srt),
        doc("transcripts", "SubRip subtitles", Shape::Text("application/x-subrip"))
            .with(&["chars_per_caption"])
            .fails(&[404, 409, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/vtt",
        handler!(transcripts::vtt),
        doc("transcripts", "WebVTT subtitles", Shape::Text("text/vtt"))
            .with(&["chars_per_caption"])
            .fails(&[404, 409, 422]),
    ),
    api(
        Method::POST,
        "/v2/uploads/sign",
        handler!(uploads::sign),
        doc("uploads", "Get a URL to put a file to", Shape::Json("SignedUpload"))
            .takes("SignUpload")
            .fails(&[413, 415, 422]),
    ),
    api(
        Method::POST,
        "/v2/uploads/{upload_id}/complete",
        handler!(uploads::complete),
        doc("uploads", "Confirm that the bytes have arrived", Shape::Json("Upload")).fails(&[404, 409]),
    ),
    api(
        Method::GET,
        "/v2/models",
        handler!(models::list),
        doc("models", "Models, their units and rates", Shape::Json("ModelList")),
    ),
    api(
        Method::GET,
        "/v2/pricing",
        handler!(models::list),
        doc("models", "The same catalog, for billing pages", Shape::Json("ModelList")),
    ),
    api(
        Method::GET,
        "/v2/credits",
        handler!(billing::credits),
        doc("billing", "Credit and what was spent", Shape::Json("Credits")),
    ),
    api(
        Method::GET,
        "/v2/usage",
        handler!(billing::usage),
        doc("billing", "Usage events, newest first", Shape::Json("UsageList")).with(&["limit", "offset"]).fails(&[422]),
    ),
    api(
        Method::GET,
        "/v2/usage/summary",
        handler!(billing::summary),
        doc("billing", "Credit and usage by model", Shape::Json("UsageSummary")),
    ),
    api(
        Method::POST,
        "/v2/billing/checkout",
        handler!(billing::checkout),
        doc("billing", "Get the address of a page to add a payment method on", Shape::Json("Checkout")).fails(&[409]),
    ),
    api(
        Method::POST,
        "/v2/realtime/token",
        handler!(realtime::mint),
        doc("realtime", "Mint a token for a live session", Shape::Json("RealtimeToken"))
            .may_take("MintRealtimeToken")
            .fails(&[400, 402, 413, 415, 422]),
    ),
    Route {
        surface: Surface::Api,
        method: Method::GET,
        path: realtime::PATH,
        access: Access::Signed(Signed::Session),
        handler: handler!(realtime::connect),
        doc: Some(
            doc("realtime", "Transcribe live, over a WebSocket", Shape::Upgrade)
                .with(&["token", "model", "sample_rate", "language_code", "medical_mode"])
                .fails(&[400, 426]),
        ),
    },
    open("/health/live", handler!(health::live), doc("service", "Whether the process runs", Shape::Json("Health"))),
    open(
        "/health/ready",
        handler!(health::ready),
        doc("service", "Whether it can take work", Shape::Json("Health")).fails(&[503]),
    ),
    open("/metrics", handler!(health::metrics), doc("service", "Figures for Prometheus", Shape::Text("text/plain"))),
    open("/openapi.json", handler!(health::openapi), doc("service", "This document", Shape::Json("Document"))),
    page(Surface::Storage, Method::PUT, "/uploads/{upload_id}", UPLOAD, handler!(uploads::put)),
    page(Surface::Storage, Method::OPTIONS, "/uploads/{upload_id}", Access::Open, handler!(uploads::preflight)),
    page(Surface::Dashboard, Method::GET, "/billing/checkout", CHECKOUT, handler!(checkout::page)),
    page(Surface::Dashboard, Method::POST, "/billing/checkout", CHECKOUT, handler!(checkout::confirm)),
    page(Surface::Dashboard, Method::POST, "/billing/stripe", Access::Open, handler!(stripe::notice)),
];

/// The table of one surface, by path.
pub struct Router {
    surface: Surface,
    paths: matchit::Router<Vec<&'static Route>>,
}

/// What a path and method lead to.
pub enum Found {
    Route {
        route: &'static Route,
        params: Vec<(String, String)>,
    },
    /// The path is there, with these methods.
    Allowed(Vec<&'static Route>),
    Nothing,
}

impl Router {
    pub fn new(surface: Surface) -> Self {
        let mut by_path: Vec<(&str, Vec<&'static Route>)> = Vec::new();
        for route in ROUTES.iter().filter(|route| route.surface == surface) {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, routes)) => routes.push(route),
                None => by_path.push((route.path, vec![route])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            if let Err(error) = paths.insert(path, routes) {
                // A test goes through the whole table.
                tracing::error!(path, %error, "a route clashes with another");
            }
        }
        Self { surface, paths }
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// HEAD goes where GET goes; the connection leaves the body out.
    pub fn find(&self, method: &Method, path: &str) -> Found {
        let Ok(matched) = self.paths.at(path) else { return Found::Nothing };
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        match matched.value.iter().find(|route| route.method == wanted) {
            None => Found::Allowed(matched.value.clone()),
            Some(route) => {
                let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
                let params: Vec<(String, String)> =
                    matched.params.iter().map(|(key, value)| (key.to_owned(), decode(value))).collect();
                // No id holds one, and PostgreSQL would not even take the question.
                if params.iter().any(|(_, value)| value.contains('\0')) {
                    return Found::Nothing;
                }
                Found::Route { route, params }
            }
        }
    }
}

impl Found {
    /// The path of the table, for logs and figures.
    pub fn route(&self) -> &'static str {
        match self {
            Self::Route { route, .. } => route.path,
            Self::Allowed(routes) => routes.first().map_or("none", |route| route.path),
            Self::Nothing => "none",
        }
    }

    /// The refusal of a method that the path does not take.
    pub fn not_allowed(&self) -> ApiError {
        let Self::Allowed(routes) = self else { return ApiError::not_found("There is nothing at this path.") };
        let mut allow: Vec<&str> = routes.iter().map(|route| route.method.as_str()).collect();
        if allow.contains(&"GET") {
            allow.push("HEAD");
        }
        ApiError::method_not_allowed(&allow.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found() {
        for route in ROUTES {
            let path = route.path.replace(['{', '}'], "");
            let Found::Route { route: found, .. } = Router::new(route.surface).find(&route.method, &path) else {
                panic!("{path} is not found");
            };
            assert!(std::ptr::eq(found, route), "{path}");
        }
    }

    #[test]
    fn methods_and_paths_that_are_not_there() {
        let router = Router::new(Surface::Api);
        let found = router.find(&Method::PATCH, "/v2/transcripts/tr_1");
        assert_eq!(found.not_allowed().message, "This path takes GET, DELETE, HEAD.");
        for path in ["/", "/v2", "/v2/transcripts/", "/v2/transcripts/a/b", "/V2/models", "/v2//models", "/uploads/u"] {
            assert!(matches!(router.find(&Method::GET, path), Found::Nothing), "{path}");
        }
        let Found::Route { params, .. } = router.find(&Method::HEAD, "/v2/transcripts/%2e%2e%2fx") else {
            panic!("HEAD goes where GET goes");
        };
        assert_eq!(params, [("transcript_id".into(), "../x".into())]);
    }
}
