//! What a live session hides of its text, by the passes over the transcripts of files.

use std::sync::Arc;

use auricle_engine::analysis::{self, Passes, Tagger, analyze, profanity};
use auricle_engine::{Caption, Engine, LiveEvent, Result};

use crate::http::response::{ApiError, Result as ApiResult};
use crate::jobs::passes;
use crate::store::JobOptions;

/// Checks that what the options hide is known in the language of a session.
///
/// # Errors
/// 422 for another language, or none.
pub fn check_language(options: &JobOptions, language: Option<&str>) -> ApiResult<()> {
    if options.pii_redaction {
        analysis::check_redaction(language).map_err(|error| {
            ApiError::validation(format!("`pii_redaction` cannot be served: {error}. Set `language_code`."))
        })?;
    }
    if options.profanity_filter && !language.is_some_and(profanity::has_language) {
        return Err(ApiError::validation("`profanity_filter` needs a `language_code` that has a list of such words."));
    }
    Ok(())
}

/// Hides words of a session.
pub struct Screen {
    passes: Passes,
    tagger: Option<Arc<dyn Tagger>>,
    language: Option<String>,
}

impl Screen {
    /// None if nothing is to be hidden.
    ///
    /// # Errors
    /// If the tagger cannot be loaded: what was to be hidden is not shown.
    pub async fn open(engine: &Engine, options: &JobOptions, language: Option<&str>) -> Result<Option<Self>> {
        let passes = passes(options).map_err(auricle_engine::Error::InvalidOption)?;
        if passes.is_empty() {
            return Ok(None);
        }
        let tagger = if passes.ask_for_entities() { engine.tagger().await? } else { None };
        Ok(Some(Self { passes, tagger, language: language.map(str::to_owned) }))
    }

    /// The events that the client gets of one. With redaction no words go out before the turn is over: the next ones may make
    /// them a finding. The final text is the formatted one then, in which more is found.
    ///
    /// # Errors
    /// As [`analyze`].
    pub fn show(&self, event: LiveEvent) -> Result<Vec<LiveEvent>> {
        let redacts = self.passes.redaction.is_some();
        Ok(match event {
            LiveEvent::Partial(_) | LiveEvent::Final(_) if redacts => Vec::new(),
            LiveEvent::Formatted(caption) if redacts => {
                let caption = self.hide(caption)?;
                vec![LiveEvent::Final(caption.clone()), LiveEvent::Formatted(caption)]
            }
            LiveEvent::Partial(caption) => vec![LiveEvent::Partial(self.hide(caption)?)],
            LiveEvent::Final(caption) => vec![LiveEvent::Final(self.hide(caption)?)],
            LiveEvent::Formatted(caption) => vec![LiveEvent::Formatted(self.hide(caption)?)],
        })
    }

    fn hide(&self, Caption { text, words }: Caption) -> Result<Caption> {
        let hidden = analyze(words, self.language.as_deref(), &self.passes, self.tagger.as_deref())?;
        Ok(Caption { text: hidden.text.unwrap_or(text), words: hidden.words })
    }
}

#[cfg(test)]
mod tests {
    use auricle_engine::Word;

    use super::*;

    fn screen(options: JobOptions) -> Screen {
        Screen { passes: passes(&options).unwrap(), tagger: None, language: Some("en_us".into()) }
    }

    fn caption(text: &str) -> Caption {
        let word = |(at, text): (usize, &str)| Word {
            text: text.into(),
            start: at as u64 * 100,
            end: at as u64 * 100 + 80,
            confidence: 0.9,
            speaker: None,
            speaker_name: None,
            channel: None,
        };
        Caption { text: text.into(), words: text.split(' ').enumerate().map(word).collect() }
    }

    fn shown(screen: &Screen, event: LiveEvent) -> Vec<(char, String)> {
        let text = |event| match event {
            LiveEvent::Partial(caption) => ('p', caption.text),
            LiveEvent::Final(caption) => ('f', caption.text),
            LiveEvent::Formatted(caption) => ('w', caption.text),
        };
        screen.show(event).unwrap().into_iter().map(text).collect()
    }

    #[test]
    fn nothing_of_a_turn_that_is_redacted_goes_out_before_its_end() {
        let screen = screen(JobOptions { pii_redaction: true, ..JobOptions::default() });
        assert_eq!(shown(&screen, LiveEvent::Partial(caption("call me at 415"))), []);
        assert_eq!(shown(&screen, LiveEvent::Final(caption("call me at 415 555 0132"))), []);
        let hidden = "Call me at [PHONE_NUMBER].".to_owned();
        assert_eq!(
            shown(&screen, LiveEvent::Formatted(caption("Call me at 415-555-0132."))),
            [('f', hidden.clone()), ('w', hidden)]
        );
    }

    #[test]
    fn profanity_is_masked_in_every_text() {
        let screen = screen(JobOptions { profanity_filter: true, ..JobOptions::default() });
        for (event, expected) in [
            (LiveEvent::Partial(caption("what a shit")), ('p', "what a s***")),
            (LiveEvent::Final(caption("what a shit day")), ('f', "what a s*** day")),
            (LiveEvent::Formatted(caption("What a shit day.")), ('w', "What a s*** day.")),
        ] {
            assert_eq!(shown(&screen, event), [(expected.0, expected.1.to_owned())]);
        }
        assert_eq!(shown(&screen, LiveEvent::Partial(Caption::default())), [('p', String::new())]);
    }

    #[test]
    fn what_is_hidden_needs_a_language_that_is_known() {
        let redacts = JobOptions { pii_redaction: true, ..JobOptions::default() };
        let filters = JobOptions { profanity_filter: true, ..JobOptions::default() };
        for (options, language, is_served) in [
            (&redacts, Some("en_uk"), true),
            (&redacts, Some("fr"), false),
            (&redacts, None, false),
            (&filters, Some("en"), true),
            (&filters, None, false),
            (&JobOptions::default(), None, true),
        ] {
            assert_eq!(check_language(options, language).is_ok(), is_served, "{options:?} {language:?}");
        }
    }
}
