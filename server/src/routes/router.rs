//! Finds the route of a path and method.

use std::sync::LazyLock;

use hyper::Method;

use super::route::{Route, Surface, undocumented};
use super::table::ROUTES;
use crate::auth::Access;
use crate::context::PathParams;
use crate::http::response::ApiError;

/// The routes of the API once more, below `/try` of the dashboard, where the script of the reference sends requests as the visitor.
static TRIED: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let takes_key = |route: &&Route| matches!(route.access, Access::ApiKey | Access::AnyApiKey);
    let tried = ROUTES.iter().filter(|route| route.doc.is_some()).filter(takes_key);
    let routes = tried.map(|route| {
        let path = format!("/try{}", route.path).leak();
        undocumented(Surface::Dashboard, route.method.clone(), path, Access::Script, route.handler)
    });
    routes.collect()
});

/// The routes of a listener, by path.
pub struct Router {
    surfaces: &'static [Surface],
    paths: matchit::Router<Vec<&'static Route>>,
}

/// The match of a path and method.
pub enum RouteMatch {
    Route {
        route: &'static Route,
        params: PathParams,
    },
    /// The path exists, with these methods.
    OtherMethods(Vec<&'static Route>),
    NotFound,
}

impl Router {
    pub fn new(surfaces: &'static [Surface]) -> Self {
        let mut by_path: Vec<(&str, Vec<&'static Route>)> = Vec::new();
        for route in ROUTES.iter().chain(&*TRIED).filter(|route| surfaces.contains(&route.surface)) {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, routes)) => routes.push(route),
                None => by_path.push((route.path, vec![route])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            if let Err(error) = paths.insert(path, routes) {
                // A test covers the whole table.
                tracing::error!(path, %error, "a route conflicts with another");
            }
        }
        Self { surfaces, paths }
    }

    pub fn serves(&self, surface: Surface) -> bool {
        self.surfaces.contains(&surface)
    }

    /// Finds a route. HEAD uses the route of GET; the connection drops the body.
    pub fn find(&self, method: &Method, path: &str) -> RouteMatch {
        let Ok(matched) = self.paths.at(path) else { return RouteMatch::NotFound };
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        match matched.value.iter().find(|route| route.method == wanted) {
            None => RouteMatch::OtherMethods(matched.value.clone()),
            Some(route) => {
                let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
                let params: PathParams =
                    matched.params.iter().map(|(key, value)| (key.to_owned(), decode(value))).collect();
                // No id contains a null character, and PostgreSQL refuses queries with one.
                if params.iter().any(|(_, value)| value.contains('\0')) {
                    return RouteMatch::NotFound;
                }
                RouteMatch::Route { route, params }
            }
        }
    }
}

impl RouteMatch {
    /// The path in the table, for logs and metrics.
    pub fn path(&self) -> &'static str {
        match self {
            Self::Route { route, .. } => route.path,
            Self::OtherMethods(routes) => routes.first().map_or("none", |route| route.path),
            Self::NotFound => "none",
        }
    }

    /// The error for a request without a route: 404 or 405.
    pub fn refusal(&self) -> ApiError {
        let Self::OtherMethods(routes) = self else { return ApiError::no_such_path() };
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
        let routers =
            [Router::new(&[Surface::Api, Surface::Health]), Router::new(&[Surface::Storage, Surface::Dashboard])];
        for route in ROUTES {
            let path = route.path.replace(['{', '}'], "");
            let router = routers.iter().find(|router| router.serves(route.surface)).unwrap();
            let RouteMatch::Route { route: found, .. } = router.find(&route.method, &path) else {
                panic!("{path} is not found");
            };
            assert!(std::ptr::eq(found, route), "{path}");
        }
    }

    #[test]
    fn unknown_methods_and_paths_have_no_route() {
        let router = Router::new(&[Surface::Api]);
        let found = router.find(&Method::PUT, "/v2/transcripts/tr_1");
        assert_eq!(found.refusal().message, "This path takes GET, PATCH, DELETE, HEAD.");
        for path in [
            "/",
            "/v2",
            "/v2/transcripts/",
            "/v2/transcripts/a/b",
            "/V2/models",
            "/v2//models",
            "/uploads/u",
            "/metrics",
        ] {
            assert!(matches!(router.find(&Method::GET, path), RouteMatch::NotFound), "{path}");
        }
        let RouteMatch::Route { params, .. } = router.find(&Method::HEAD, "/v2/transcripts/%2e%2e%2fx") else {
            panic!("HEAD uses the route of GET");
        };
        assert_eq!(params, [("transcript_id".into(), "../x".into())]);
    }
}
