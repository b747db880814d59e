//! One row of the table: path and method, access rule, handler, documentation.

use std::future::Future;
use std::pin::Pin;

use hyper::Method;

use crate::auth::Access;
use crate::context::RequestContext;
use crate::http::response::{Response, Result};
use crate::state::AppState;

/// One of the addresses that the service listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    Api,
    /// Health checks and metrics: on the API's address, or on one of their own.
    Health,
    Storage,
    Dashboard,
}

/// The response of a handler, once it is ready.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;

/// A handler, with the part of the state that it gets.
pub type Handler = fn(&AppState, RequestContext) -> HandlerFuture;

/// The documentation of a route. Schemas and parameters are named as in `openapi/components.json`.
pub struct OperationDoc {
    pub tag: &'static str,
    pub summary: &'static str,
    pub request: Option<&'static str>,
    /// The content type of the body.
    pub request_type: &'static str,
    /// The schema of a body that is a form, beside that in JSON.
    pub form: Option<&'static str>,
    /// True if the body may be left out.
    pub request_is_optional: bool,
    pub response: ResponseContent,
    /// Names of query and header parameters.
    pub parameters: &'static [&'static str],
    /// Error statuses beyond those of every route.
    pub errors: &'static [u16],
    /// The schema of errors.
    pub error: &'static str,
}

/// The content of a successful response.
#[derive(Clone, Copy)]
pub enum ResponseContent {
    /// JSON of this schema.
    Json(&'static str),
    /// JSON of this schema, or no content for a message that has no answer.
    JsonOrAccepted(&'static str),
    /// JSON of this schema, or server-sent events if the request asks for a stream.
    JsonOrEvents(&'static str),
    /// Text of this content type.
    Text(&'static str),
    /// Sound of one of these content types.
    Sound(&'static [&'static str]),
    Empty,
    /// 201 with text of this content type.
    #[cfg(feature = "webrtc")]
    CreatedText(&'static str),
    /// The connection becomes a WebSocket.
    Upgrade,
}

/// One row of the table.
pub struct Route {
    pub surface: Surface,
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub handler: Handler,
    /// None for pages and payment events, which are not part of the API.
    pub doc: Option<OperationDoc>,
}

macro_rules! handler {
    ($function:path) => {
        |_, request| Box::pin($function(request))
    };
    ($function:path, $part:ident) => {
        |state, request| Box::pin($function(state.$part.clone(), request))
    };
}
pub(super) use handler;

pub(super) const fn doc(tag: &'static str, summary: &'static str, response: ResponseContent) -> OperationDoc {
    OperationDoc {
        tag,
        summary,
        request: None,
        request_type: "application/json",
        form: None,
        request_is_optional: false,
        response,
        parameters: &[],
        errors: &[],
        error: "Error",
    }
}

impl OperationDoc {
    pub(super) const fn takes(mut self, schema: &'static str) -> Self {
        self.request = Some(schema);
        self
    }

    pub(super) const fn takes_form(mut self, schema: &'static str) -> Self {
        self.request_type = "multipart/form-data";
        self.takes(schema)
    }

    pub(super) const fn takes_bytes(mut self, schema: &'static str) -> Self {
        self.request_type = "application/octet-stream";
        self.takes(schema)
    }

    #[cfg(feature = "webrtc")]
    pub(super) const fn takes_sdp(mut self, schema: &'static str) -> Self {
        self.request_type = "application/sdp";
        self.takes(schema)
    }

    pub(super) const fn or_form(mut self, schema: &'static str) -> Self {
        self.form = Some(schema);
        self
    }

    pub(super) const fn may_take(mut self, schema: &'static str) -> Self {
        self.request_is_optional = true;
        self.takes(schema)
    }

    pub(super) const fn with(mut self, parameters: &'static [&'static str]) -> Self {
        self.parameters = parameters;
        self
    }

    pub(super) const fn fails(mut self, errors: &'static [u16]) -> Self {
        self.errors = errors;
        self
    }

    pub(super) const fn fails_as(mut self, schema: &'static str) -> Self {
        self.error = schema;
        self
    }
}

pub(super) const fn api(method: Method, path: &'static str, handler: Handler, doc: OperationDoc) -> Route {
    Route { surface: Surface::Api, method, path, access: Access::ApiKey, handler, doc: Some(doc) }
}

/// A route of another protocol, whose clients send their key in forms of their own.
pub(super) const fn compat(method: Method, path: &'static str, handler: Handler, doc: OperationDoc) -> Route {
    Route { surface: Surface::Api, method, path, access: Access::AnyApiKey, handler, doc: Some(doc) }
}

pub(super) const fn open(surface: Surface, path: &'static str, handler: Handler, doc: OperationDoc) -> Route {
    Route { surface, method: Method::GET, path, access: Access::Open, handler, doc: Some(doc) }
}

pub(super) const fn undocumented(
    surface: Surface,
    method: Method,
    path: &'static str,
    access: Access,
    handler: Handler,
) -> Route {
    Route { surface, method, path, access, handler, doc: None }
}

pub(super) const fn assemblyai(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Api, method, path, Access::AnyApiKey, handler)
}

pub(super) const fn visitor(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Dashboard, method, path, Access::Visitor, handler)
}

pub(super) const fn page(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Dashboard, method, path, Access::SignedIn, handler)
}

pub(super) const fn script(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Dashboard, method, path, Access::Script, handler)
}
