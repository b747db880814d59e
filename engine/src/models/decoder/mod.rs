//! Decoder-only language models: Llama and SmolLM2, Qwen2 and Qwen2.5, Qwen3.

mod config;
mod gpu;
mod model;
mod network;
mod pages;
mod source;
mod step_scores;
mod template;
mod tokenizer;

pub use config::{Config, Family, generation_ends};
pub use gpu::GpuNetwork;
pub use model::ChatModel;
pub use network::{Embedded, Network, Piece};
pub use pages::{CardPages, PageArena, PageList};
pub use template::{ChatTemplate, TemplateCall, TemplateFunction, TemplateMessage};
pub use tokenizer::ChatTokenizer;
