//! Language codes of the API.

pub use auricle_engine::language::primary_subtag;

/// Codes that realtime sessions accept.
pub const REALTIME: [&str; 9] = ["en", "en_au", "en_uk", "en_us", "es", "de", "fr", "pt", "it"];
