//! Language codes of the API.

pub use auricle_engine::language::primary_subtag;

/// Codes that realtime sessions accept.
pub const REALTIME: [&str; 9] = ["en", "en_au", "en_uk", "en_us", "es", "de", "fr", "pt", "it"];

/// Languages with a medical vocabulary.
const MEDICAL: [&str; 4] = ["en", "es", "de", "fr"];

/// Tells if medical mode applies to a language. Without a code it does, because the model may find any language.
pub fn has_medical_mode(code: Option<&str>) -> bool {
    code.is_none_or(|code| MEDICAL.contains(&primary_subtag(code).as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medical_mode_follows_the_primary_subtag() {
        assert!([None, Some("en_US"), Some("de-AT")].into_iter().all(has_medical_mode));
        assert!(!has_medical_mode(Some("pt")));
    }
}
