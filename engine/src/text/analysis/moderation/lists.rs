//! The word lists of moderation, by stems.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

/// Weight of a phrase of a list for its label; [`FLAGGED`](super::FLAGGED) is enough.
const STRONG: f64 = 2.0;
const WEAK: f64 = 1.0;

/// A word is in a context that lies within this number of words.
const CONTEXT_WORDS: usize = 5;

/// A phrase, without its first stem.
struct Phrase {
    rest: Vec<String>,
    /// Label and weight; none for a harmless phrase.
    label: Option<(&'static str, f64)>,
}

/// The lists for one language.
pub(super) struct Lists {
    stemmer: Stemmer,
    /// Phrases by their first stem, longer ones first.
    phrases: HashMap<String, Vec<Phrase>>,
    /// The stems that make a stem harmless.
    contexts: HashMap<String, HashSet<String>>,
}

/// A phrase of a label in a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hit {
    pub(super) label: &'static str,
    pub(super) weight: f64,
    /// Its stems, so that a repeated word counts once.
    pub(super) phrase: String,
}

pub(super) static ENGLISH: LazyLock<Lists> = LazyLock::new(|| Lists::read(include_str!("lists.txt")));

impl Lists {
    fn read(text: &'static str) -> Self {
        let mut lists =
            Self { stemmer: Stemmer::create(Algorithm::English), phrases: HashMap::new(), contexts: HashMap::new() };
        let mut section = "";
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
            } else if let Some((key, values)) = line.split_once(':') {
                lists.add(section, key, values.split(',').map(str::trim));
            }
        }
        lists.phrases.values_mut().for_each(|phrases| phrases.sort_by_key(|phrase| usize::MAX - phrase.rest.len()));
        lists
    }

    fn add(&mut self, section: &'static str, key: &str, values: impl Iterator<Item = &'static str>) {
        if section == "context" {
            let words = values.map(|word| self.stem(word)).collect();
            self.contexts.insert(self.stem(key), words);
            return;
        }
        let label = match (section, key) {
            ("harmless", _) => None,
            (_, "strong") => Some((section, STRONG)),
            _ => Some((section, WEAK)),
        };
        for value in values {
            let mut stems = value.split(' ').map(|word| self.stem(word)).collect::<Vec<_>>().into_iter();
            if let Some(first) = stems.next() {
                self.phrases.entry(first).or_default().push(Phrase { rest: stems.collect(), label });
            }
        }
    }

    /// The stem of a word, without the marks around it.
    pub(super) fn stem(&self, word: &str) -> String {
        let bare = word.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
        let bare = bare.split('\'').next().unwrap_or_default();
        self.stemmer.stem(bare).into_owned()
    }

    /// The phrases in a sentence of stems. The longest phrase at a place counts; words of a harmless one count for
    /// nothing else.
    pub(super) fn hits(&self, stems: &[String]) -> Vec<Hit> {
        let mut hits: Vec<Hit> = Vec::new();
        let mut at = 0;
        while at < stems.len() {
            let reads = |phrase: &&Phrase| stems[at + 1..].iter().take(phrase.rest.len()).eq(phrase.rest.iter());
            let found: Vec<&Phrase> = self.phrases.get(&stems[at]).into_iter().flatten().filter(reads).collect();
            let Some(longest) = found.first().map(|phrase| phrase.rest.len()) else {
                at += 1;
                continue;
            };
            let longest_ones = || found.iter().filter(|phrase| phrase.rest.len() == longest);
            let is_harmless = longest_ones().any(|phrase| phrase.label.is_none());
            if !(is_harmless || (longest == 0 && self.is_in_context(stems, at))) {
                for (label, weight) in longest_ones().filter_map(|phrase| phrase.label) {
                    let phrase = stems[at..=at + longest].join(" ");
                    if !hits.iter().any(|hit| hit.label == label && hit.phrase == phrase) {
                        hits.push(Hit { label, weight, phrase });
                    }
                }
            }
            at += longest + 1;
        }
        hits
    }

    /// True if a stem stands in a context that makes it harmless.
    fn is_in_context(&self, stems: &[String], at: usize) -> bool {
        self.contexts.get(&stems[at]).is_some_and(|context| {
            let near = at.saturating_sub(CONTEXT_WORDS)..stems.len().min(at + CONTEXT_WORDS + 1);
            stems[near].iter().any(|stem| context.contains(stem))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_phrase_counts_and_a_harmless_one_for_nothing() {
        let of = |text: &str| {
            let stems: Vec<String> = text.split(' ').map(|word| ENGLISH.stem(word)).collect();
            ENGLISH.hits(&stems).into_iter().map(|hit| (hit.label, hit.weight)).collect::<Vec<_>>()
        };
        assert_eq!(of("a car crash"), [("accidents", STRONG)]);
        assert_eq!(of("a crash course"), []);
        assert_eq!(of("kill that process"), []);
        assert_eq!(of("kill that man"), [("crime_violence", WEAK)]);
        assert_eq!(of("Rifles, rifle."), [("weapons", STRONG)]);
    }
}
