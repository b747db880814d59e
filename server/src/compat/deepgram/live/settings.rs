//! The settings of a live session: its query.

use auricle_engine::SAMPLE_RATES;
use hyper::Uri;

use super::super::common::{Common, ENCODINGS};
use super::super::parameters::Parameters;
use crate::billing::ProductKind;
use crate::http::query;
use crate::http::response::{ApiError, Result};
use crate::languages;
use crate::live::codec::Encoding;

/// The most channels, which are mixed.
const MAX_CHANNELS: usize = 8;
/// The longest silence that may end speech or an utterance, ms.
const MAX_SILENCE_MS: u32 = 60_000;
/// The shortest silence of `utterance_end_ms`, ms.
const MIN_UTTERANCE_MS: u32 = 1_000;

/// The settings of a session.
pub struct Settings {
    /// The service model.
    pub model: &'static str,
    pub medical: bool,
    pub language: Option<String>,
    pub languages: Vec<String>,
    pub keyterms: Vec<String>,
    pub punctuated: bool,
    pub numerals: bool,
    pub encoding: Encoding,
    /// In hertz.
    pub rate: u32,
    pub channels: usize,
    pub interim_results: bool,
    /// Silence that ends speech, ms.
    pub silence_ms: u32,
    /// Results say where speech has ended.
    pub endpointing: bool,
    /// Silence after which an utterance is reported as ended, ms.
    pub utterance_end_ms: Option<u32>,
    pub vad_events: bool,
}

impl Settings {
    /// # Errors
    /// 400 for what is not served.
    pub fn read(uri: &Uri, silence_ms: u32) -> Result<Self> {
        let mut parameters = Parameters::of(uri)?;
        let common = Common::read(&mut parameters, ProductKind::Realtime)?;
        let encoding = parameters.choice("encoding", &ENCODINGS)?.ok_or_else(|| {
            ApiError::unsupported_option(
                "`encoding` is missing: linear16, mulaw or alaw. Audio in a container is not read live.",
            )
        })?;
        let rate = parameters
            .number("sample_rate", &SAMPLE_RATES)?
            .ok_or_else(|| ApiError::invalid("`sample_rate` is missing, which this `encoding` needs."))?;
        let channels = parameters.number("channels", &(1..=MAX_CHANNELS))?.unwrap_or(1);
        if parameters.flag("multichannel")? && channels > 1 {
            return Err(ApiError::unsupported_option(
                "`multichannel` is not served live: open a session for each channel, or let the channels be mixed.",
            ));
        }
        let endpointing = parameters.text("endpointing");
        let (endpointing, silence_ms) = match endpointing.as_deref().map(|text| (text, query::truth(text))) {
            None | Some(("true", _)) => (true, silence_ms),
            Some(("false", _)) => (false, silence_ms),
            Some((text, _)) => {
                let ms = text.parse().ok().filter(|ms| *ms <= MAX_SILENCE_MS);
                let wrong = || {
                    let message = format!("`endpointing` must be false, or 0 to {MAX_SILENCE_MS} ms; it is {text:?}.");
                    ApiError::validation(message)
                };
                (true, ms.ok_or_else(wrong)?)
            }
        };
        let interim_results = parameters.flag("interim_results")?;
        let utterance_end_ms = parameters.number("utterance_end_ms", &(MIN_UTTERANCE_MS..=MAX_SILENCE_MS))?;
        if utterance_end_ms.is_some() && !interim_results {
            return Err(ApiError::invalid("`utterance_end_ms` needs `interim_results=true`."));
        }
        let vad_events = parameters.flag("vad_events")?;
        parameters.finish()?;
        let spoken = |code: String| {
            if languages::REALTIME.contains(&code.as_str()) { code } else { languages::primary_subtag(&code) }
        };
        Ok(Self {
            model: common.model,
            medical: common.medical,
            language: common.language.map(spoken),
            languages: common.languages.into_iter().map(spoken).collect(),
            keyterms: common.keyterms,
            punctuated: common.punctuated,
            numerals: common.numerals,
            encoding,
            rate,
            channels,
            interim_results,
            silence_ms,
            endpointing,
            utterance_end_ms,
            vad_events,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Settings> {
        let uri = format!("/v1/listen?model=nova-3&encoding=linear16&sample_rate=16000&{query}");
        Settings::read(&uri.parse().unwrap(), 700)
    }

    #[test]
    fn a_query_becomes_settings() {
        let plain = read("").unwrap();
        assert_eq!((plain.model, plain.rate, plain.channels), ("svc-realtime-pro", 16_000, 1));
        assert_eq!((plain.endpointing, plain.silence_ms, plain.language.as_deref()), (true, 700, Some("en")));
        let full = read("endpointing=300&interim_results=true&utterance_end_ms=1000&vad_events=true&language=pt-BR");
        let full = full.unwrap();
        assert_eq!((full.silence_ms, full.utterance_end_ms, full.vad_events), (300, Some(1_000), true));
        assert_eq!(full.language.as_deref(), Some("pt"));
        assert!(!read("endpointing=false").unwrap().endpointing);
        assert_eq!(read("language=en-GB").unwrap().language.as_deref(), Some("en_uk"));
        assert_eq!(read("language=multi&language_hint=de").unwrap().languages, ["de"]);
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        for (query, name) in [
            ("diarize=true", "diarize"),
            ("diarize_model=latest", "diarize_model"),
            ("redact=pci", "redact"),
            ("profanity_filter=true", "profanity_filter"),
            ("detect_entities=true", "detect_entities"),
            ("search=x", "search"),
            ("replace=a:b", "replace"),
            ("callback=http://x", "callback"),
            ("dictation=true", "dictation"),
            ("channels=2&multichannel=true", "multichannel"),
            ("channels=9", "channels"),
            ("endpointing=soon", "endpointing"),
            ("utterance_end_ms=1000", "interim_results"),
            ("interim_results=true&utterance_end_ms=10", "utterance_end_ms"),
        ] {
            let refused = read(query).err().unwrap();
            assert!(refused.message.contains(&format!("`{name}")), "{query}: {}", refused.message);
        }
        for query in ["model=nova-3", "encoding=opus&sample_rate=48000", "encoding=mulaw"] {
            assert!(Settings::read(&format!("/v1/listen?{query}").parse().unwrap(), 700).is_err(), "{query}");
        }
    }
}
