//! Words with valence, degree words and negations of VADER's lexicon, and its descriptions of emoji.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The amount that a degree word adds to the valence after it.
pub(super) const BOOST: f64 = 0.293;

const INTENSIFIERS: &str = "absolutely amazingly awfully completely considerable considerably decidedly deeply effing enormous \
    enormously entirely especially exceptional exceptionally extreme extremely fabulously flipping flippin frackin fracking \
    fricking frickin frigging friggin fully fuckin fucking fuggin fugging greatly hella highly hugely incredible incredibly \
    intensely major majorly more most particularly purely quite really remarkably so substantially thoroughly total totally \
    tremendous tremendously uber unbelievably unusually utter utterly very";

const DAMPENERS: &str = "almost barely hardly kinda kindof kind-of less little marginal marginally occasional occasionally partly \
    scarce scarcely slight slightly somewhat sorta sortof sort-of";

/// Negations without "n't".
const NEGATIONS: &str = "aint arent cannot cant couldnt darent didnt doesnt dont hadnt hasnt havent isnt mightnt mustnt neither \
    neednt never none nope nor not nothing nowhere oughtnt shant shouldnt uhuh wasnt werent uh-uh without wont wouldnt rarely \
    seldom despite";

/// The effect of a word on the sentiment of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// Valence, -4 to 4.
    pub(super) valence: Option<f64>,
    /// The amount that it adds to a valence that follows; 0 if it is no degree word.
    pub(super) boost: f64,
    /// True if it negates what follows.
    pub(super) negates: bool,
}

static WORDS: LazyLock<HashMap<&str, Entry>> = LazyLock::new(|| {
    let mut words: HashMap<&str, Entry> = HashMap::new();
    for (word, valence) in rows(include_str!("lexicon.tsv")) {
        words.entry(word).or_default().valence = valence.parse().ok();
    }
    for (list, boost) in [(INTENSIFIERS, BOOST), (DAMPENERS, -BOOST)] {
        list.split_whitespace().for_each(|word| words.entry(word).or_default().boost = boost);
    }
    NEGATIONS.split_whitespace().for_each(|word| words.entry(word).or_default().negates = true);
    words
});

static EMOJI: LazyLock<HashMap<char, &str>> = LazyLock::new(|| {
    rows(include_str!("emoji.tsv")).filter_map(|(emoji, text)| Some((emoji.chars().next()?, text))).collect()
});

fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.lines().filter_map(|line| line.split_once('\t'))
}

/// The entry of a word or an emoticon in lower case.
pub(super) fn entry(word: &str) -> Entry {
    let mut entry = WORDS.get(word).copied().unwrap_or_default();
    entry.negates |= word.contains("n't");
    entry
}

/// Description of an emoji.
pub(super) fn description(emoji: char) -> Option<&'static str> {
    // The letters and marks of ASCII need no search.
    (!emoji.is_ascii()).then(|| EMOJI.get(&emoji).copied()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let valences = WORDS.values().filter_map(|entry| entry.valence);
        assert_eq!(valences.clone().count(), include_str!("lexicon.tsv").lines().count());
        assert!(valences.into_iter().all(|valence| valence.abs() <= 4.0));
        assert_eq!(EMOJI.len(), include_str!("emoji.tsv").lines().count());
        assert_eq!(entry("good"), Entry { valence: Some(1.9), ..Entry::default() });
        assert_eq!(entry("very").boost, BOOST);
        assert!(entry("couldn't").negates && entry("nor").negates);
        assert_eq!(description('\u{1f498}'), Some("heart with arrow"));
    }
}
