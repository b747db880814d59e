//! Token classifiers in the form of BERT, and the pronunciations that one of them gives. See `README.md` beside this file.

mod config;
mod g2p;
mod model;

pub use config::Config;
pub use g2p::G2p;
pub use model::TokenClassifier;
