//! Other texts of what is heard.

/// Another text that a turn may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The text, unformatted.
    pub text: String,
    /// By how many nats it is less likely than the caption's text.
    pub gap: f32,
}
