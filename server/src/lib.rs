//! `auricle`: speech to text on your own machine, as a program and as a service.

mod api;
mod app;
mod auth;
mod billing;
mod cli;
mod clock;
mod config;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod hub;
mod ids;
mod jobs;
mod live;
mod net;
mod serve;
mod storage;
mod store;
mod webhooks;

pub use cli::main;
