//! VADER's rules: scores of a text from the valence of its words, what stands before them, and its marks.
//!
//! Hutto and Gilbert (2014), as the package `vaderSentiment` 3.3.2 computes them, to every decimal.

use std::cmp::Ordering;

use super::lexicon::{BOOST, Entry, description, entry};

/// The amount that capitals add, in a text that is not all capitals.
const CAPITALS: f64 = 0.733;

/// Factor of a negated valence.
const NEGATION: f64 = -0.74;

/// The square of the sum of valences at which the compound score is the square root of one half.
const NORMALISATION: f64 = 15.0;

/// Phrases whose valence is not that of their words.
const PHRASES: [(&str, f64); 8] = [
    ("the shit", 3.0),
    ("the bomb", 3.0),
    ("bad ass", 1.5),
    ("bus stop", 0.0),
    ("yeah right", -2.0),
    ("kiss of death", -1.5),
    ("to die for", 3.0),
    ("beating heart", 3.5),
];

/// Scores of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Valence {
    /// The whole in one number: -1 (negative) to 1 (positive).
    pub compound: f64,
    /// Share of positive words, 0 to 1.
    pub positive: f64,
    /// Share of words without valence, 0 to 1.
    pub neutral: f64,
    /// Share of negative words, 0 to 1.
    pub negative: f64,
}

/// Scores a text.
#[must_use]
pub fn valence(text: &str) -> Valence {
    let text = with_described_emoji(text);
    let text = text.trim_matches(is_space);
    let tokens: Vec<Token> = text.split(is_space).filter(|token| !token.is_empty()).map(Token::new).collect();
    if tokens.is_empty() {
        return Valence::default();
    }
    let capitals = tokens.iter().filter(|token| token.is_capitals).count();
    let tokens = Tokens { shouts: (1..tokens.len()).contains(&capitals), tokens };
    let mut valences: Vec<f64> = (0..tokens.tokens.len()).map(|at| tokens.valence(at)).collect();
    if let Some(but) = tokens.tokens.iter().position(|token| token.lower == "but") {
        weigh_around(but, &mut valences);
    }
    total(&valences, emphasis(text))
}

/// Python's idea of white space.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn with_described_emoji(text: &str) -> String {
    let mut described = String::with_capacity(text.len());
    let mut after_space = true;
    for character in text.chars() {
        if let Some(description) = description(character) {
            if !after_space {
                described.push(' ');
            }
            described.push_str(description);
            after_space = false;
        } else {
            described.push(character);
            after_space = character == ' ';
        }
    }
    described
}

/// The amount that the marks of a text add to its sum.
fn emphasis(text: &str) -> f64 {
    let count = |mark| text.bytes().filter(|byte| *byte == mark).count();
    let questions = match count(b'?') {
        0 | 1 => 0.0,
        few @ 2..=3 => few as f64 * 0.18,
        _ => 0.96,
    };
    count(b'!').min(4) as f64 * 0.292 + questions
}

struct Token {
    lower: String,
    entry: Entry,
    /// True if it has letters and all are capitals.
    is_capitals: bool,
}

impl Token {
    fn new(token: &str) -> Self {
        let bare = token.trim_matches(|character: char| character.is_ascii_punctuation());
        // The rest of an emoticon is short.
        let text = if bare.chars().nth(2).is_none() { token } else { bare };
        let lower = text.to_lowercase();
        Self {
            entry: entry(&lower),
            is_capitals: text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
            lower,
        }
    }

    fn is(&self, words: &[&str]) -> bool {
        words.contains(&self.lower.as_str())
    }
}

struct Tokens {
    tokens: Vec<Token>,
    /// True if some tokens, not all, are in capitals.
    shouts: bool,
}

impl Tokens {
    /// The token `back` before `at`.
    fn before(&self, at: usize, back: usize) -> Option<&Token> {
        self.tokens.get(at.checked_sub(back)?)
    }

    fn is_before(&self, at: usize, back: usize, words: &[&str]) -> bool {
        self.before(at, back).is_some_and(|token| token.is(words))
    }

    /// True if the words of `phrase` follow each other from `first` on.
    fn reads(&self, first: usize, phrase: &str) -> bool {
        let mut tokens = self.tokens[first..].iter();
        phrase.split(' ').all(|word| tokens.next().is_some_and(|token| token.lower == word))
    }

    /// Valence of a token where it stands.
    fn valence(&self, at: usize) -> f64 {
        let token = &self.tokens[at];
        let next = self.tokens.get(at + 1);
        let hedges = token.lower == "kind" && next.is_some_and(|next| next.lower == "of");
        let Some(own) = token.entry.valence.filter(|_| token.entry.boost == 0.0 && !hedges) else { return 0.0 };
        let mut valence = own;
        if token.lower == "no" && next.is_some_and(|next| next.entry.valence.is_some()) {
            // It negates the next word and has no valence of its own.
            valence = 0.0;
        }
        if self.is_before(at, 1, &["no"])
            || self.is_before(at, 2, &["no"])
            || (self.is_before(at, 3, &["no"]) && self.is_before(at, 1, &["or", "nor"]))
        {
            valence = own * NEGATION;
        }
        if token.is_capitals && self.shouts {
            valence += if valence > 0.0 { CAPITALS } else { -CAPITALS };
        }
        for (back, damping) in [(1, 1.0), (2, 0.95), (3, 0.9)] {
            let Some(before) = self.before(at, back).filter(|before| before.entry.valence.is_none()) else { continue };
            valence += self.boost(before, valence) * damping;
            valence = self.negated(valence, at, back);
            if back == 3 {
                valence = self.phrase(valence, at);
            }
        }
        let least = self.before(at, 1).is_some_and(|before| before.lower == "least" && before.entry.valence.is_none());
        if least && !self.is_before(at, 2, &["at", "very"]) { valence * NEGATION } else { valence }
    }

    /// The amount that a degree word adds to the valence of the token after it.
    fn boost(&self, word: &Token, valence: f64) -> f64 {
        if word.entry.boost == 0.0 {
            return 0.0;
        }
        let capitals = if word.is_capitals && self.shouts { CAPITALS } else { 0.0 };
        let boost = if valence < 0.0 { -word.entry.boost } else { word.entry.boost };
        if valence > 0.0 { boost + capitals } else { boost - capitals }
    }

    /// The valence after the token `back` before `at` was looked at for a negation.
    fn negated(&self, valence: f64, at: usize, back: usize) -> f64 {
        let so = |back| self.is_before(at, back, &["so", "this"]);
        let never = self.is_before(at, back, &["never"]);
        let without = self.is_before(at, back, &["without"]);
        let doubt = |back| self.is_before(at, back, &["doubt"]);
        let (stressed, certain) = match back {
            2 => (never && so(1), without && doubt(1)),
            3 => ((never && so(2)) || so(1), without && (doubt(2) || doubt(1))),
            _ => (false, false),
        };
        if stressed {
            valence * 1.25
        } else if !certain && self.before(at, back).is_some_and(|before| before.entry.negates) {
            valence * NEGATION
        } else {
            valence
        }
    }

    /// The valence of a phrase with the token at `at`, if there is one; `at` is at least 3.
    fn phrase(&self, valence: f64, at: usize) -> f64 {
        let words = |phrase: &str| phrase.split(' ').count();
        let phrase_at = |first: usize, length: usize| {
            PHRASES.iter().find(|(phrase, _)| words(phrase) == length && self.reads(first, phrase)).map(|found| found.1)
        };
        let mut valence = [(1, 2), (2, 3), (2, 2), (3, 3), (3, 2)]
            .into_iter()
            .find_map(|(back, length)| phrase_at(at - back, length))
            .unwrap_or(valence);
        for length in [2, 3] {
            valence = phrase_at(at, length).unwrap_or(valence);
        }
        for back in [3, 2] {
            let hedges = ["just enough", "kind of", "sort of"].iter().any(|hedge| self.reads(at - back, hedge));
            if hedges {
                valence -= BOOST;
            }
        }
        valence
    }
}

/// Halves what stands before "but" and adds half to what stands after it.
///
/// The package finds a valence's place by its value, so where two are equal the first is weighed twice.
fn weigh_around(but: usize, valences: &mut [f64]) {
    for at in 0..valences.len() {
        let Some(first) = valences.iter().position(|valence| *valence == valences[at]) else { continue };
        match first.cmp(&but) {
            Ordering::Less => valences[first] *= 0.5,
            Ordering::Greater => valences[first] *= 1.5,
            Ordering::Equal => {}
        }
    }
}

fn total(valences: &[f64], emphasis: f64) -> Valence {
    let sum: f64 = valences.iter().sum();
    let stressed = |sum: f64, positive: bool| if positive { sum + emphasis } else { sum - emphasis };
    let compound = if sum == 0.0 { 0.0 } else { stressed(sum, sum > 0.0) };
    // A word without valence counts as one, so a word with valence counts as one more.
    let mut positive: f64 = valences.iter().filter(|valence| **valence > 0.0).map(|valence| valence + 1.0).sum();
    let mut negative: f64 = valences.iter().filter(|valence| **valence < 0.0).map(|valence| valence - 1.0).sum();
    let neutral = valences.iter().filter(|valence| **valence == 0.0).count() as f64;
    if positive > negative.abs() {
        positive = stressed(positive, true);
    } else if positive < negative.abs() {
        negative = stressed(negative, false);
    }
    let all = positive + negative.abs() + neutral;
    Valence {
        compound: (compound / (compound * compound + NORMALISATION).sqrt()).clamp(-1.0, 1.0),
        positive: positive / all,
        neutral: neutral / all,
        negative: (negative / all).abs(),
    }
}
