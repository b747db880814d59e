//! What the black-box tests share.

mod optional;
mod oracle;
mod program;
mod published;

pub use optional::{devices, fixtures, skip};
pub use oracle::{Oracle, relative_error};
pub use program::{Run, auricle, binary, command, ended, models_with, models_with_detector, speech, tiny_models};
pub use published::write_published_size;
