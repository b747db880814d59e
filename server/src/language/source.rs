//! The words of a transcript as passages with speakers and times.

use auricle_engine::extractive::Passage;
use auricle_engine::{Word, segments};

/// The unit that passages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Sentence,
    Paragraph,
}

/// The passages of a transcript's words, which are stored as a JSON array. A change of the speaker ends a passage.
///
/// # Errors
/// If the words are not such an array.
pub fn passages(words: &str, unit: Unit) -> serde_json::Result<Vec<Passage>> {
    let words: Vec<Word> = serde_json::from_str(words)?;
    let segments = match unit {
        Unit::Sentence => segments::sentences(&words),
        Unit::Paragraph => segments::paragraphs(&words),
    };
    let passage = |segment: segments::Segment<'_>| Passage {
        speaker: segment.words.first().and_then(Word::shown_speaker).map(str::to_owned),
        start_ms: segment.start,
        text: segment.text,
    };
    Ok(segments.into_iter().map(passage).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_end_with_their_speaker() {
        let words = r#"[{"text":"Yes,","start":0,"end":9,"confidence":1.0,"speaker":"A"},
            {"text":"no.","start":1000,"end":1009,"confidence":1.0,"speaker":"B"},
            {"text":"Why?","start":2000,"end":2009,"confidence":1.0,"speaker":"B"}]"#;
        let sentences = passages(words, Unit::Sentence).unwrap();
        let quotes: Vec<String> = sentences.iter().map(Passage::quote).collect();
        assert_eq!(quotes, ["[A 00:00] Yes,", "[B 00:01] no.", "[B 00:02] Why?"]);
        assert_eq!(passages(words, Unit::Paragraph).unwrap().len(), 2);
        let plain = passages(r#"[{"text":"a","start":0,"end":9,"confidence":1.0}]"#, Unit::Sentence).unwrap();
        assert_eq!(plain[0].quote(), "[00:00] a");
        assert!(passages("{}", Unit::Sentence).is_err());
    }
}
