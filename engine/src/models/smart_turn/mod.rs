//! Smart Turn: detects whether a speaker has finished. See `README.md` beside this file.

mod config;
mod model;
mod onnx;

pub use config::Config;
pub use model::SmartTurn;
