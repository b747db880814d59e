//! `auricle`: speech to text on your own machine, as a program and as a service.

mod api;
mod auth;
mod billing;
mod cli;
mod clock;
mod config;
mod dashboard;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod ids;
mod jobs;
mod live;
mod metering;
mod model_hub;
mod openapi;
mod outbound;
mod routes;
mod serve;
mod state;
mod storage;
mod store;
mod webhook_outbox;

pub use cli::main;
