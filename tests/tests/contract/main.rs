//! The service through its listeners, as a client sees it: HTTP, WebSockets, webhooks, billing, stores, crashes.

use std::sync::OnceLock;

use auricle_tests::Postgres;

mod analysis;
mod arrows;
mod attempts;
mod auth;
mod billing;
mod cloned_voices;
mod compat;
mod compat_assemblyai;
mod connections;
mod credit;
mod dashboard;
mod dashboard_mail;
mod dashboard_openid;
mod dashboard_operator;
mod dashboard_reference;
mod dashboard_share;
mod dashboard_team;
mod dashboard_transcript;
mod dashboard_webhooks;
mod deepgram;
mod edits;
mod errors;
mod failover;
mod fairness;
mod faults;
mod forms;
mod http;
mod jobs;
mod known_speakers;
mod language;
mod lengths;
mod library;
mod limits;
mod mcp;
mod numbers;
mod openai;
mod openapi;
mod realtime;
mod realtime_frameworks;
mod realtime_openai;
mod realtime_openai_calls;
mod realtime_openai_conversations;
mod search;
mod serve;
mod sources;
mod speakers;
mod speech;
mod storage_limits;
mod store;
mod stripe;
mod subtitles;
mod telephony;
mod transcripts;
mod understanding_long;
mod understanding_stream;
mod unlimited;
mod uploads;
mod voice_agent;
mod walkthrough;
mod webhook_signatures;
mod webhooks;
mod wording;
mod wyoming;

/// The PostgreSQL server that the tests share, each with a database of its own; none where the machine lacks PostgreSQL.
fn postgres() -> Option<&'static Postgres> {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    SERVER.get_or_init(Postgres::start).as_ref()
}
