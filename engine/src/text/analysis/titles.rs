//! Titles of address, which are no part of a name.

use super::Finding;
use super::label::Label;
use super::reading::{Break, Reading, Token};
use crate::text::word_list::words;

/// Titles that are hardly ever names themselves; "dean" and "major" are.
const TITLES: &[&str] = words!(
    "mr mrs ms mx miss mister missus dr doctor prof professor sir madam ma'am dame captain lieutenant sergeant colonel \
     general admiral commander corporal constable detective inspector officer sheriff senator governor mayor president \
     minister councillor ambassador reverend father sister brother mother pastor rabbi imam nurse coach herr frau \
     fraulein familie monsieur madame mademoiselle mme mlle sig sig.ra sra don dona \
     senor senora senorita signor signora princess queen duchess lady son \
     daughter wife husband aunt auntie aunty uncle cousin grandma grandpa grandmother grandfather granny grandad nanna \
     nonna baby little old poor dear"
);

/// True for a title.
pub fn is_title(word: &str) -> bool {
    TITLES.contains(&word)
}

/// Takes the titles off the fronts of names: "Captain" and "Frau" tell of nobody, alone before a name neither.
pub fn cut(reading: &Reading<'_>, found: &mut Vec<Finding>) {
    for finding in found.iter_mut().filter(|finding| finding.label == Label::PersonName) {
        let words = &mut finding.words;
        while words.len() > 1
            && reading.tokens[words.start].after == Break::None
            && TITLES.contains(&reading.lower(words.start))
        {
            words.start += 1;
        }
    }
    found.retain(|finding| {
        let end = finding.words.end;
        let is_title = || TITLES.contains(&reading.lower(end - 1));
        let is_before_name = || {
            let joined = reading.tokens[end - 1].after == Break::None && reading.cased;
            let is_name = |next: &Token<'_>| next.text.contains("[PERSON_NAME]") || joined && next.capital;
            reading.tokens.get(end).is_some_and(is_name)
        };
        finding.label != Label::PersonName || finding.words.len() > 1 || !is_before_name() || !is_title()
    });
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Turn};
    use super::*;

    #[test]
    fn a_name_begins_after_its_titles() {
        let name_in = |text: &str| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let name =
                Finding { words: 0..turns.len(), label: Label::PersonName, confidence: 0.9, source: Source::Tagger };
            let mut found = vec![name];
            cut(&Reading::new(&turns), &mut found);
            found[0].words.start
        };
        assert_eq!(name_in("Captain Okonjo-Vale"), 1);
        assert_eq!(name_in("señora Tocaven"), 1);
        assert_eq!(name_in("poor old auntie maren"), 3);
        assert_eq!(name_in("princess maren"), 1);
        assert_eq!(name_in("Dean Ostrander"), 0);
        assert_eq!(name_in("Father"), 0);
        assert_eq!(name_in("Father, Tobias"), 0);
    }

    #[test]
    fn a_title_before_a_hidden_name_is_no_name() {
        let kept = |text: &str| {
            let turns: Vec<Turn<'_>> = text.split(' ').map(|text| Turn { text, ends: false }).collect();
            let mut found =
                vec![Finding { words: 0..1, label: Label::PersonName, confidence: 0.9, source: Source::List }];
            cut(&Reading::new(&turns), &mut found);
            !found.is_empty()
        };
        assert!(!kept("Señora [PERSON_NAME] called."));
        assert!(!kept("Mx. Quillfeather called."));
        assert!(kept("Señora called."));
        assert!(kept("Zorblax [PERSON_NAME] called."));
    }
}
