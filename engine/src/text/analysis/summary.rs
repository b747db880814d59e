//! Summaries of the most central sentences of a transcript, little repetition among them.

use super::central_sentences::{central_sentences, readable};
use super::chapters::Chapter;
use super::phrases::best_phrases;
use super::terms::Terms;
use crate::text::segments::Segment;

/// Most words of a summary.
const WORDS: usize = 150;

/// Form of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SummaryForm {
    /// Lines that begin with `- `, a sentence each.
    #[default]
    Bullets,
    /// A phrase.
    Gist,
    /// A few phrases.
    Headline,
    /// The sentences, one after another.
    Paragraph,
}

impl std::str::FromStr for SummaryForm {
    type Err = ();

    /// `bullets`, `gist`, `headline` or `paragraph`.
    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "bullets" => Ok(Self::Bullets),
            "gist" => Ok(Self::Gist),
            "headline" => Ok(Self::Headline),
            "paragraph" => Ok(Self::Paragraph),
            _ => Err(()),
        }
    }
}

/// A summary of a transcript, or none if it has nothing to say. Of each chapter the sentences begin anew, so each has a
/// part in the summary.
#[must_use]
pub fn summarise(sentences: &[Segment<'_>], chapters: &[Chapter], language: &str, form: SummaryForm) -> Option<String> {
    let terms = Terms::new(sentences, language);
    let phrases = |count| {
        let phrases = best_phrases(sentences, &terms, 0..sentences.len(), count);
        (!phrases.is_empty()).then(|| phrases.join(", "))
    };
    let chosen = || {
        let starts =
            chapters.iter().map(|chapter| sentences.partition_point(|sentence| sentence.start < chapter.start));
        let chosen = central_sentences(sentences, &terms, 0..sentences.len(), &starts.collect::<Vec<_>>(), WORDS);
        let texts = chosen.into_iter().map(|at| readable(&sentences[at], language)).filter(|text| !text.is_empty());
        texts.collect::<Vec<String>>()
    };
    let joined = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join("\n"));
    match form {
        SummaryForm::Gist => phrases(1),
        SummaryForm::Headline => phrases(3),
        SummaryForm::Bullets => joined(chosen().into_iter().map(|text| format!("- {text}")).collect()),
        SummaryForm::Paragraph => joined(chosen()).map(|text| text.replace('\n', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Word;
    use crate::text::segments::sentences;

    fn summary(text: &str, language: &str, form: SummaryForm) -> Option<String> {
        let words: Vec<Word> = text
            .split_whitespace()
            .enumerate()
            .map(|(at, text)| Word {
                text: text.into(),
                start: at as u64 * 300,
                end: at as u64 * 300 + 250,
                confidence: 0.9,
                speaker: None,
                speaker_name: None,
                channel: None,
            })
            .collect();
        summarise(&sentences(&words), &[], language, form)
    }

    const TALK: &str = "Um, the harbour board agreed to build a new ferry terminal beside the old fish market. Yeah. Lunch \
        was served at noon and somebody told a joke about parrots. The ferry terminal will cost nine million and the harbour \
        board will pay half. So the terminal opens in May. The harbour board agreed to build a new ferry terminal beside the \
        old fish market. Nobody brought an umbrella to the picnic last weekend with the cousins. The ferry company wants more \
        berths at the terminal for the summer season.";

    #[test]
    fn the_central_sentences_are_told_once_without_fillers() {
        let bullets = summary(TALK, "en", SummaryForm::Bullets).unwrap();
        assert!(bullets.lines().all(|line| line.starts_with("- ")), "{bullets}");
        assert!(bullets.starts_with("- The harbour board agreed to build a new ferry terminal"), "{bullets}");
        assert_eq!(bullets.matches("fish market").count(), 1, "{bullets}");
        assert!(!bullets.contains("parrots") && !bullets.contains("umbrella"), "{bullets}");
        let paragraph = summary(TALK, "en", SummaryForm::Paragraph).unwrap();
        assert_eq!(paragraph, bullets.trim_start_matches("- ").replace("\n- ", " "));
    }

    #[test]
    fn gist_and_headline_are_phrases_of_the_text() {
        let gist = summary(TALK, "en", SummaryForm::Gist).unwrap();
        assert!(gist == "Ferry terminal" || gist == "Harbour board", "{gist}");
        let headline = summary(TALK, "en", SummaryForm::Headline).unwrap();
        assert!(headline.starts_with(&gist) && headline.contains(", "), "{headline}");
    }

    #[test]
    fn nothing_has_no_summary_and_one_sentence_is_its_own() {
        for form in [SummaryForm::Bullets, SummaryForm::Gist, SummaryForm::Headline, SummaryForm::Paragraph] {
            assert_eq!(summary("", "en", form), None);
            assert_eq!(summary("um yeah okay", "en", form), None);
        }
        assert_eq!(summary("Terminal.", "en", SummaryForm::Bullets).unwrap(), "- Terminal.");
        assert_eq!(summary("Der Hafen wird gebaut.", "de", SummaryForm::Paragraph).unwrap(), "Der Hafen wird gebaut.");
        assert!(summary("今日はとても良い天気です。 明日は雨です。", "ja", SummaryForm::Bullets).is_some());
        assert!(summary("القطار السريع وصل إلى المحطة.", "ar", SummaryForm::Bullets).is_some());
    }

    #[test]
    fn masked_words_are_no_topics() {
        let text = "[PERSON_NAME] met [PERSON_NAME] about the ferry. [PERSON_NAME] paid for the s*** ferry.";
        assert_eq!(summary(text, "en", SummaryForm::Gist).unwrap(), "Ferry");
    }

    #[test]
    fn forms_have_names() {
        assert_eq!("headline".parse(), Ok(SummaryForm::Headline));
        assert_eq!("Bullets".parse::<SummaryForm>(), Err(()));
    }
}
