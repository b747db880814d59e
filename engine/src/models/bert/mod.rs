//! Token classifiers in the form of BERT: pronunciations and personal words. See `README.md` beside this file.

mod config;
mod g2p;
mod model;
mod tagger;
mod windows;

pub use config::Config;
pub use g2p::G2p;
pub use model::{Token, TokenClassifier};
pub use tagger::BertTagger;
