//! Options and words that files and live sessions have in common.

use auricle_engine::Word;
use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::parameters::Parameters;
use super::uuid;
use crate::billing::{Price, ProductKind};
use crate::http::response::{ApiError, Result};
use crate::sound_format::Encoding;

/// Families of the protocol's models, and what stands in for them: for files, and live. A name may have a domain behind its family.
const FAMILIES: [(&str, &str, &str); 5] = [
    ("nova", "svc-best", "svc-realtime-pro"),
    ("whisper", "svc-best", "svc-realtime-pro"),
    ("enhanced", "svc-fast", "svc-realtime"),
    ("base", "svc-fast", "svc-realtime"),
    ("general", "svc-fast", "svc-realtime"),
];

/// The architecture of a model, as answers name it.
const ARCHITECTURE: &str = "auricle";

/// The encodings of audio without a header.
pub const ENCODINGS: [(&str, Encoding); 3] =
    [("linear16", Encoding::Pcm), ("mulaw", Encoding::Mulaw), ("alaw", Encoding::Alaw)];

/// Options of files and live sessions.
pub struct Common {
    /// The service model.
    pub model: &'static str,
    pub medical: bool,
    /// None if it is to be found.
    pub language: Option<String>,
    /// Languages to choose among.
    pub languages: Vec<String>,
    pub keyterms: Vec<String>,
    /// All that makes text easy to read.
    pub smart_format: bool,
    /// Text is written with marks and capitals.
    pub punctuated: bool,
    /// Numbers are written in digits.
    pub numerals: bool,
    pub tags: Vec<String>,
    /// What the answer repeats to the client.
    pub extra: Map<String, Value>,
}

impl Common {
    /// # Errors
    /// 400 for a model that there is not, and for values that are not served.
    pub fn read(parameters: &mut Parameters, kind: ProductKind) -> Result<Self> {
        let name = parameters.text("model");
        let (model, medical) = model(name.as_deref(), kind)?;
        let language = parameters.text("language");
        let hints = parameters.texts("language_hint");
        let smart_format = parameters.flag("smart_format")?;
        let mut keyterms = parameters.texts("keyterm");
        for keyword in parameters.texts("keywords") {
            keyterms.push(boosted(&keyword)?);
        }
        parameters.choice("version", &[("latest", ())])?;
        // No request trains a model here.
        parameters.flag("mip_opt_out")?;
        let extra = parameters.texts("extra").into_iter().map(|pair| {
            let (name, value) = pair.split_once(':').unwrap_or((&pair, ""));
            (name.to_owned(), json!(value))
        });
        Ok(Self {
            model,
            medical,
            language: match language.as_deref() {
                Some("multi") => None,
                Some(code) => Some(language_code(code)),
                None => Some("en".into()),
            },
            languages: hints.iter().map(|code| language_code(code)).collect(),
            keyterms,
            smart_format,
            punctuated: parameters.flag("punctuate")? | smart_format,
            numerals: parameters.flag("numerals")? | smart_format,
            tags: parameters.texts("tag"),
            extra: extra.collect(),
        })
    }
}

/// The service model that a client names, and whether its terms are medical.
fn model(name: Option<&str>, kind: ProductKind) -> Result<(&'static str, bool)> {
    let Some(name) = name else { return Ok((Price::default_of(kind).model, false)) };
    if let Some(price) = Price::of(name, kind) {
        return Ok((price.model, false));
    }
    let family = name.split('-').next().unwrap_or_default();
    let found = FAMILIES.iter().find(|(known, ..)| *known == family).map(|(_, file, live)| match kind {
        ProductKind::Prerecorded => *file,
        _ => *live,
    });
    let found = found.ok_or_else(|| {
        let ours = Price::default_of(kind).model;
        ApiError::invalid(format!("There is no model {name:?}: take {ours}, or a name such as nova-3."))
    })?;
    Ok((found, name.ends_with("-medical")))
}

/// A language's code in the form of the models: `en-US` is `en_us`.
fn language_code(code: &str) -> String {
    let code = code.replace('-', "_").to_lowercase();
    if code == "en_gb" { "en_uk".into() } else { code }
}

/// The word of a keyword, behind which its weight may stand.
fn boosted(keyword: &str) -> Result<String> {
    let Some((word, weight)) = keyword.rsplit_once(':') else { return Ok(keyword.to_owned()) };
    match weight.parse::<f64>() {
        Ok(weight) if weight > 0.0 => Ok(word.to_owned()),
        _ => Err(ApiError::unsupported_option(format!(
            "`keywords` makes words likelier here, never less likely: {keyword:?} needs a weight above 0."
        ))),
    }
}

/// The model of an answer.
#[derive(Clone, Serialize)]
pub struct ModelInfo {
    pub name: String,
    pub version: &'static str,
    pub arch: &'static str,
}

impl ModelInfo {
    pub fn new(model: &str) -> Self {
        Self { name: model.to_owned(), version: env!("CARGO_PKG_VERSION"), arch: ARCHITECTURE }
    }

    /// An id that a model of this name and version has always.
    pub fn uuid(&self) -> String {
        let hash = Sha256::digest(format!("{} {}", self.name, self.version));
        let bits = hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
        uuid(bits, 8)
    }
}

/// The hash of audio, as answers write it.
pub fn hex(hash: Sha256) -> String {
    HEXLOWER.encode(&hash.finalize())
}

/// A word of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerWord {
    pub word: String,
    /// s, as `end`
    pub start: f64,
    pub end: f64,
    pub confidence: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub punctuated_word: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<usize>,
}

impl AnswerWord {
    pub fn new(word: &Word, punctuated: bool, diarized: bool) -> Self {
        Self {
            word: bare(&word.text),
            start: seconds(word.start),
            end: seconds(word.end),
            confidence: word.confidence,
            punctuated_word: punctuated.then(|| word.text.clone()),
            speaker: word.speaker.as_deref().filter(|_| diarized).map(speaker_number),
        }
    }
}

pub fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// The text of words without marks and capitals.
pub fn bare_text(words: &[Word]) -> String {
    words.iter().map(|word| bare(&word.text)).collect::<Vec<_>>().join(" ")
}

/// A word without marks and capitals; a mask stays whole.
fn bare(text: &str) -> String {
    let is_mark = |character: char| !character.is_alphanumeric() && !"$€£¥%°#@&+".contains(character);
    let bare = text.trim_matches(is_mark);
    if bare.is_empty() || text.starts_with('[') { text.to_owned() } else { bare.to_lowercase() }
}

/// The mean confidence of words; 0 without any.
pub fn confidence(words: &[Word]) -> f32 {
    words.iter().map(|word| word.confidence).sum::<f32>() / words.len().max(1) as f32
}

/// The number of a speaker's label: `A` is 0, `AA` is 26.
pub fn speaker_number(label: &str) -> usize {
    let letters = label.bytes().filter(u8::is_ascii_uppercase).map(|letter| usize::from(letter - b'A') + 1);
    letters.fold(0, |number, letter| number * 26 + letter).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_the_protocol_have_stand_ins() {
        for (name, file, live) in [
            ("nova-3", "svc-best", "svc-realtime-pro"),
            ("nova-2-phonecall", "svc-best", "svc-realtime-pro"),
            ("base", "svc-fast", "svc-realtime"),
        ] {
            assert_eq!(model(Some(name), ProductKind::Prerecorded).unwrap(), (file, false));
            assert_eq!(model(Some(name), ProductKind::Realtime).unwrap(), (live, false));
        }
        assert_eq!(model(Some("nova-3-medical"), ProductKind::Realtime).unwrap(), ("svc-realtime-pro", true));
        assert_eq!(model(Some("svc-fast"), ProductKind::Prerecorded).unwrap(), ("svc-fast", false));
        assert_eq!(model(None, ProductKind::Prerecorded).unwrap(), ("svc-best", false));
        for unknown in ["flux-general-en", "supernova", "svc-fast"] {
            assert!(model(Some(unknown), ProductKind::Realtime).is_err_and(|error| error.status == 400), "{unknown}");
        }
    }

    #[test]
    fn words_are_bared_of_their_marks() {
        for (text, expected) in [
            ("“Don't", "don't"),
            ("country.", "country"),
            ("$20.50,", "$20.50"),
            ("[PERSON_NAME]", "[PERSON_NAME]"),
            ("—", "—"),
        ] {
            assert_eq!(bare(text), expected);
        }
    }

    #[test]
    fn speakers_are_numbered() {
        assert_eq!(["A", "B", "Z", "AA", "BA"].map(speaker_number), [0, 1, 25, 26, 52]);
    }

    #[test]
    fn keywords_may_have_a_weight() {
        assert_eq!(boosted("snuffle:1.5").unwrap(), "snuffle");
        assert_eq!(boosted("snuffle").unwrap(), "snuffle");
        for refused in ["snuffle:-3", "snuffle:0", "snuffle:much"] {
            assert_eq!(boosted(refused).unwrap_err().code, "unsupported_option");
        }
    }
}
