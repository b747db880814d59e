//! The settings of a session: those of the query, and what the client may change.

use std::time::Duration;

use auricle_engine::{EndpointingRules, ListenOptions, SAMPLE_RATES};

use super::pauses::Rules;
use crate::compat::assemblyai::refuse_others;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::live::LiveState;
use crate::live::codec::{AudioFormat, Encoding};
use crate::live::realtime::check_language;

/// The most terms, and the length of each.
const MAX_TERMS: usize = 100;
const MAX_TERM_CHARS: usize = 100;
/// The most languages.
const MAX_LANGUAGES: usize = 20;
/// The longest silence within a turn that may be asked for, ms.
const MAX_SILENCE_MS: i64 = 30_000;
/// The least silence of the engine's own rule, ms: those of the session end turns before.
const ENGINE_SILENCE_MS: u32 = 4_000;

/// The settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The model that is billed.
    pub model: &'static str,
    pub format: AudioFormat,
    languages: Vec<String>,
    is_medical: bool,
    keyterms: Vec<String>,
    pub formats_turns: bool,
    pub rules: Rules,
    /// The longest time without audio, where the client asks for a shorter one than the service's.
    pub idle: Option<Duration>,
}

impl Settings {
    /// # Errors
    /// 400 and 422, with the name of the parameter.
    pub fn of_query(fields: &mut Fields, state: &LiveState) -> Result<Self> {
        let (model, is_multilingual) = match fields.string("speech_model")?.as_deref() {
            None => ("svc-realtime-pro", false),
            Some("universal-streaming-english") => ("svc-realtime", false),
            Some("universal-streaming-multilingual" | "whisper-rt") => ("svc-realtime", true),
            Some(name) if name.starts_with("u3-") || name.starts_with("universal-3") => ("svc-realtime-pro", true),
            Some(name) => {
                let message = format!(
                    "`speech_model` must be universal-streaming-english, universal-streaming-multilingual, u3-rt-pro or whisper-rt; it is {name:?}."
                );
                return Err(ApiError::unsupported_option(message));
            }
        };
        let rates = i64::from(*SAMPLE_RATES.start())..=i64::from(*SAMPLE_RATES.end());
        let rate = fields.integer("sample_rate", rates)?.and_then(|rate| u32::try_from(rate).ok()).unwrap_or(16_000);
        let encoding = match fields.string("encoding")?.as_deref() {
            None | Some("pcm_s16le") => Encoding::Pcm,
            Some("pcm_mulaw") => Encoding::Mulaw,
            Some(name) => {
                let message = format!("`encoding` must be pcm_s16le or pcm_mulaw here; it is {name:?}.");
                return Err(ApiError::unsupported_option(message));
            }
        };
        let domain = fields.string("domain")?;
        if let Some(domain) = domain.as_deref().filter(|domain| *domain != "medical-v1") {
            return Err(ApiError::unsupported_option(format!("`domain` may be medical-v1 here, not {domain:?}.")));
        }
        let idle = fields.integer("inactivity_timeout", 5..=3600)?;
        let mut settings = Self {
            model,
            format: AudioFormat { encoding, rate },
            languages: languages(fields, is_multilingual)?,
            is_medical: domain.is_some(),
            keyterms: Vec::new(),
            formats_turns: false,
            rules: Rules { min_silence_ms: 400, max_silence_ms: 1_280, threshold: 0.4 },
            idle: idle.map(|seconds| Duration::from_secs(seconds.unsigned_abs())),
        };
        for code in &settings.languages {
            check_language(state, model, code)
                .map_err(|reason| ApiError::validation(format!("This language cannot be served: {reason}.")))?;
        }
        settings.update(fields)?;
        Ok(settings)
    }

    /// Takes the settings that a client may change, and refuses others.
    ///
    /// # Errors
    /// What is wrong with them. The settings may be changed in part then.
    pub fn update(&mut self, fields: &mut Fields) -> Result<()> {
        if let Some(formats_turns) = fields.optional_flag("format_turns")? {
            self.formats_turns = formats_turns;
        }
        if let Some(terms) = fields.strings("keyterms_prompt", MAX_TERMS, MAX_TERM_CHARS)? {
            self.keyterms = terms;
        }
        if let Some(threshold) = fields.number("end_of_turn_confidence_threshold", 0.0..=1.0)? {
            self.rules.threshold = threshold as f32;
        }
        let mut silence = |name: &str| -> Result<Option<u32>> {
            Ok(fields.integer(name, 0..=MAX_SILENCE_MS)?.and_then(|ms| u32::try_from(ms).ok()))
        };
        // The older name of the same.
        let old_min = silence("min_end_of_turn_silence_when_confident")?;
        if let Some(ms) = silence("min_turn_silence")?.or(old_min) {
            self.rules.min_silence_ms = ms;
        }
        if let Some(ms) = silence("max_turn_silence")? {
            self.rules.max_silence_ms = ms;
        }
        refuse_others(fields)
    }

    /// Silence after which the engine ends a turn by itself, ms. Without a detector no rule of the session can end it.
    fn engine_silence_ms(&self, has_detector: bool) -> u32 {
        let least = if has_detector { ENGINE_SILENCE_MS } else { 0 };
        self.rules.max_silence_ms.max(least)
    }

    /// True if a session with the engine of one may go on with the other.
    pub fn has_same_recognition(&self, other: &Self, has_detector: bool) -> bool {
        self.keyterms == other.keyterms && self.engine_silence_ms(has_detector) == other.engine_silence_ms(has_detector)
    }

    /// The options of a session with the engine.
    pub fn options(&self, state: &LiveState) -> ListenOptions {
        let silence_ms = self.engine_silence_ms(state.catalog.detector().is_some());
        let mut options = state
            .settings
            .listen_options(self.model, self.format.rate)
            .medical_mode(self.is_medical)
            .keyterms(self.keyterms.clone())
            .turns(EndpointingRules::default().silence_ms(silence_ms));
        match self.languages.as_slice() {
            [] => {}
            [only] => options.language = Some(only.clone()),
            several => options.languages = several.to_vec(),
        }
        options
    }
}

/// The languages of the session; none are all.
fn languages(fields: &mut Fields, is_multilingual: bool) -> Result<Vec<String>> {
    let mut codes = fields.strings("language_codes", MAX_LANGUAGES, MAX_TERM_CHARS)?.unwrap_or_default();
    codes.extend(fields.string("language_code")?);
    match fields.string("language")?.as_deref() {
        Some("multi") => {}
        Some("en") => codes.push("en".into()),
        Some(name) => {
            return Err(ApiError::unsupported_option(format!("`language` must be en or multi; it is {name:?}.")));
        }
        None if codes.is_empty() && !is_multilingual => codes.push("en".into()),
        None => {}
    }
    Ok(codes)
}
