//! `auricle`: speech to text on your own machine, as a program and as a service.
//!
//! # Layout
//!
//! A module uses modules below it in this list, never above. A test holds this order.
//!
//! - `cli`: one module per command; `fuzz`: entry points of the fuzz targets
//! - `serve`: starts and stops the service: assembly of its parts, housekeeping
//! - `dispatch`: the way of every request: route, authenticate, limit, handle, log
//! - `openapi`: the OpenAPI document, built from the routes
//! - `routes`: the routing table, the one module that knows all handlers
//! - `state`: the state, one part per resource
//! - `compat`: protocols of other programs
//! - `api`, `live`, `dashboard`: handlers: the resources of `/v2`, WebSocket sessions, pages and payment events
//! - `context`: a request with its parameters and its sender
//! - `auth`: API keys, signed URLs, session tokens, credit
//! - `jobs`, `webhook_outbox`, `mail`, `usage_reports`, `metering`: background work: transcription, webhooks, letters, reports
//!   to the payment provider, time of live sessions
//! - `http`: connections, bodies, queries, responses, rate limits
//! - `billing`: prices, payment providers; `language`: language models and prompts over transcripts; `checkpoints`: what serves each
//!   model, and pulls of published checkpoints; `speakers`: people whom transcripts name; `cloned_voices`: voices of recordings;
//!   `webhook_secrets`: signatures of webhooks
//! - `storage`: the object store; `outbound`: requests to URLs of users; `model_hub`: checkpoints from a model hub
//! - `store`: the database; SQL lives here alone
//! - `config`: settings; `languages`: language codes
//! - `starter_models`: the starter models within the program
//! - `notify`, `backoff`, `sharing`, `sound_format`, `sealing`, `visible`, `prometheus`: signals between tasks, retry delays, shares of
//!   accounts, formats of speech, encryption of secrets, characters that readers do not see, metrics
//! - `ids`, `clock`: identifiers, time

mod api;
mod auth;
mod backoff;
mod billing;
mod checkpoints;
mod cli;
mod clock;
mod cloned_voices;
mod compat;
mod config;
mod context;
mod dashboard;
mod dispatch;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod ids;
mod jobs;
mod language;
mod languages;
mod live;
mod mail;
mod metering;
mod model_hub;
mod notify;
mod openapi;
mod outbound;
mod prometheus;
mod routes;
mod sealing;
mod serve;
mod sharing;
mod sound_format;
mod speakers;
mod starter_models;
mod state;
mod storage;
mod store;
mod usage_reports;
mod visible;
mod webhook_outbox;
mod webhook_secrets;

pub use cli::main;
