//! Model families: one folder each.

pub mod fastconformer;
