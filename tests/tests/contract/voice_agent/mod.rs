//! Voice agents: interface sections 4.7 and 6.3.

mod billing;
mod conversations;
mod frames;
mod tokens;

pub use conversations::{mulaw, sentence, upstream, weather};

use std::sync::OnceLock;

use auricle_tests::{Service, Setup};

/// On the starters with a voice of random weights, without a language model.
fn talking() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().talking().start())
}
