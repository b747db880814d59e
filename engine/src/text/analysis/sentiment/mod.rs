//! Sentiment of sentences, by VADER's lexicon and rules. English only.

mod lexicon;
mod valence;

use serde::Serialize;

pub use valence::{Valence, valence};

use crate::text::segments::Segment;

/// Compound scores below this, positive or negative, are neutral.
const NEUTRAL: f64 = 0.05;

/// Kind of a sentence's sentiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Sentiment {
    /// The speaker approves.
    Positive,
    /// Neither.
    Neutral,
    /// The speaker disapproves.
    Negative,
}

/// Sentiment of a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentenceSentiment {
    /// The sentence.
    pub text: String,
    /// First moment, ms.
    pub start: u64,
    /// Last moment, ms.
    pub end: u64,
    /// Its sentiment.
    pub sentiment: Sentiment,
    /// 0.5 where the score is that of the border to the next label, 1 where it is as far from it as it can be.
    pub confidence: f32,
    /// Label of the speaker, if known.
    pub speaker: Option<String>,
}

/// True if there is a lexicon for the language, `en` or `en_us` say.
#[must_use]
pub fn has_lexicon(language: &str) -> bool {
    crate::language::primary_subtag(language) == "en"
}

/// The sentiment of each sentence. For languages without a lexicon ([`has_lexicon`]) it has no meaning.
#[must_use]
pub fn sentiment(sentences: &[Segment<'_>]) -> Vec<SentenceSentiment> {
    sentences
        .iter()
        .map(|sentence| {
            let (sentiment, confidence) = label(valence(&sentence.plain_text()).compound);
            SentenceSentiment {
                text: sentence.text.clone(),
                start: sentence.start,
                end: sentence.end,
                sentiment,
                confidence,
                speaker: sentence.speaker().map(str::to_owned),
            }
        })
        .collect()
}

fn label(compound: f64) -> (Sentiment, f32) {
    let strength = compound.abs();
    let (sentiment, distance) = if compound >= NEUTRAL {
        (Sentiment::Positive, (strength - NEUTRAL) / (1.0 - NEUTRAL))
    } else if compound <= -NEUTRAL {
        (Sentiment::Negative, (strength - NEUTRAL) / (1.0 - NEUTRAL))
    } else {
        (Sentiment::Neutral, (NEUTRAL - strength) / NEUTRAL)
    };
    (sentiment, (0.5 + distance / 2.0) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_meet_at_the_borders() {
        assert_eq!(label(0.05), (Sentiment::Positive, 0.5));
        assert_eq!(label(-1.0), (Sentiment::Negative, 1.0));
        assert_eq!(label(0.0), (Sentiment::Neutral, 1.0));
        assert_eq!(label(-0.049).0, Sentiment::Neutral);
    }

    #[test]
    fn the_empty_text_and_scripts_without_spaces_have_no_valence() {
        assert_eq!(valence(""), Valence::default());
        assert_eq!(valence(" \u{3000} ").compound, 0.0);
        assert_eq!(valence("今日はとても良い天気です。").compound, 0.0);
    }

    #[test]
    fn json_has_the_fields_of_the_contract() {
        let row = SentenceSentiment {
            text: "Good.".into(),
            start: 1,
            end: 2,
            sentiment: Sentiment::Positive,
            confidence: 0.5,
            speaker: None,
        };
        let expected = r#"{"text":"Good.","start":1,"end":2,"sentiment":"POSITIVE","confidence":0.5,"speaker":null}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), expected);
    }
}
