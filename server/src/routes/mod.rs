//! The routing table: every path and method of the service, its access rule, its handler and its documentation.

mod route;
mod router;
mod table;

pub use route::{OperationDoc, ResponseContent, Route, Surface};
pub use router::{RouteMatch, Router};
pub use table::ROUTES;
