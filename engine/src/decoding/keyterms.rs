//! Keyterms: a trie of phrases that biases decoding towards names and jargon that the user expects.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::text::medical;
use crate::text::tokens::Vocabulary;

/// Bonuses, in logits, for a token that begins a keyterm and for each that continues one. The bonus for a beginning is
/// smaller, since most words begin like some keyterm.
const BEGIN: f32 = 1.0;
const CONTINUE: f32 = 2.5;

/// Bonus for a token of a medical term, from the third on: there are so many terms that every word begins like some.
const MEDICAL: f32 = 1.0;
const MEDICAL_FROM: u16 = 3;

/// Medical terms are given with this number of letters at least: shorter words are those of ordinary speech too.
const MEDICAL_LETTERS: usize = 6;

/// A name, word or phrase that recognition expects.
///
/// ```
/// use auricle_engine::{Keyterm, ListenOptions};
///
/// let options = ListenOptions::default().keyterms([Keyterm::from("Auricle"), Keyterm::from("right").weight(0.5)]);
/// assert_eq!(options.keyterms[0].weight, 1.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Keyterm {
    /// The term, as it is written.
    pub text: String,
    /// How strongly it is expected, from 0 on: names take 1, an ordinary word less, or it is heard where nobody says it. Whisper
    /// and Qwen3-ASR checkpoints, which read their terms, do not look at it.
    pub weight: f32,
}

impl Keyterm {
    /// Sets how strongly it is expected.
    #[must_use]
    pub fn weight(mut self, weight: f32) -> Self {
        self.weight = weight;
        self
    }
}

impl From<String> for Keyterm {
    fn from(text: String) -> Self {
        Self { text, weight: 1.0 }
    }
}

impl From<&str> for Keyterm {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The terms that recognition expects.
#[derive(Clone, Debug, Default)]
pub struct ExpectedTerms<'a> {
    /// Keyterms of the user.
    pub keyterms: &'a [Keyterm],
    /// Terms of medical mode.
    pub medical: Vec<&'static str>,
}

impl<'a> ExpectedTerms<'a> {
    /// Keyterms, and with medical mode the medical terms of a language, or of all where it is not known.
    pub fn new(keyterms: &'a [Keyterm], medical_mode: bool, language: Option<&str>) -> Self {
        let medical: Vec<&'static str> = match language {
            _ if !medical_mode => Vec::new(),
            Some(language) => medical::terms(language).into_iter().flatten().collect(),
            None => medical::all_terms().collect(),
        };
        Self { keyterms, medical: medical.into_iter().filter(|term| term.chars().count() >= MEDICAL_LETTERS).collect() }
    }

    /// All words of keyterms, and the long ones of medical terms.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let medical = self.medical.iter().flat_map(|term| term.split_whitespace());
        let medical = medical.filter(|word| word.chars().count() >= MEDICAL_LETTERS);
        self.keyterms.iter().flat_map(|term| term.text.split_whitespace()).chain(medical)
    }
}

/// Phrases as paths of tokens. The [`Bias`] of a stream has the phrases that it has begun.
#[derive(Clone, Debug, Default)]
pub struct Keyterms {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    next: BTreeMap<u32, usize>,
    /// Tokens from the root.
    depth: u16,
    /// Bonus of its token, logits.
    bonus: f32,
    /// Bonuses from the root to here.
    earned: f32,
    /// True if a phrase ends here.
    ends: bool,
}

/// The phrases that a stream has begun: nodes below the root.
#[derive(Clone, Debug, Default)]
pub struct Bias {
    within: Vec<usize>,
    /// Bonus of incomplete phrases in beam search: subtracted if they break off.
    pending_bonus: f32,
}

impl Keyterms {
    /// A trie of the terms, each as given and with a capital, or none without terms; and the keyterms that the model
    /// cannot write, which are left out.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a weight below 0 and when the tokenizer fails.
    pub fn new<'a>(terms: &ExpectedTerms<'a>, vocabulary: &Vocabulary) -> Result<(Option<Self>, Vec<&'a str>)> {
        let mut trie = Self { nodes: vec![Node::default()] };
        let mut left_out = Vec::new();
        // A node keeps the bonus of its first phrase: the weightiest come first, and medical terms after the user's.
        let mut keyterms: Vec<&Keyterm> = terms.keyterms.iter().filter(|term| !term.text.trim().is_empty()).collect();
        keyterms.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        for term in keyterms {
            if !(term.weight >= 0.0 && term.weight.is_finite()) {
                let message =
                    format!("the weight of the keyterm {:?} must be 0 or more, not {}", term.text, term.weight);
                return Err(Error::InvalidOption(message));
            }
            let (text, bonus) = (term.text.trim(), |depth| term.weight * user_bonus(depth));
            match vocabulary.spelled(text)? {
                Some(tokens) => trie.insert(&tokens, bonus),
                None => left_out.push(text),
            }
            if let Some(tokens) = vocabulary.spelled(&capitalised(text))? {
                trie.insert(&tokens, bonus);
            }
        }
        for term in &terms.medical {
            for term in [(*term).to_owned(), capitalised(term)] {
                if let Some(tokens) = vocabulary.spelled(&term)? {
                    trie.insert(&tokens, medical_bonus);
                }
            }
        }
        Ok(((trie.nodes.len() > 1).then_some(trie), left_out))
    }

    fn insert(&mut self, tokens: &[u32], bonus: impl Fn(u16) -> f32) {
        let mut at = 0;
        for token in tokens {
            at = match self.nodes[at].next.get(token) {
                Some(next) => *next,
                None => {
                    let depth = self.nodes[at].depth + 1;
                    let (bonus, earned) = (bonus(depth), self.nodes[at].earned + bonus(depth));
                    self.nodes.push(Node { depth, bonus, earned, ..Node::default() });
                    let next = self.nodes.len() - 1;
                    self.nodes[at].next.insert(*token, next);
                    next
                }
            };
        }
        self.nodes[at].ends = true;
    }

    /// The best token that is not blank, with the bonuses of phrases; moves `bias` on by it.
    ///
    /// The choice between blank and token is made without bonuses, so that phrases never make words out of silence.
    pub fn choose(&self, scores: &[f32], blank: u32, bias: &mut Bias) -> u32 {
        let mut best = (f32::NEG_INFINITY, 0u32);
        let mut consider = |token: u32, bonus: f32| {
            if let Some(score) = scores.get(token as usize)
                && token != blank
                && score + bonus > best.0
            {
                best = (score + bonus, token);
            }
        };
        (0..scores.len() as u32).for_each(|token| consider(token, 0.0));
        for node in bias.within.iter().chain([&0]) {
            self.nodes[*node].next.iter().for_each(|(token, next)| consider(*token, self.nodes[*next].bonus));
        }
        self.advance(bias, best.1);
        best.1
    }

    /// Score that a token adds to a prefix in beam search; moves `bias` on by it. A phrase gets the bonuses of
    /// [`choose`], and loses them if it breaks off.
    ///
    /// [`choose`]: Self::choose
    pub fn score(&self, bias: &mut Bias, token: u32) -> f32 {
        self.advance(bias, token);
        let best = bias.within.iter().map(|node| self.nodes[*node].earned).fold(0.0, f32::max);
        let change = best - bias.pending_bonus;
        bias.pending_bonus = best;
        if bias.within.iter().any(|node| self.nodes[*node].ends) {
            // A complete phrase keeps its bonus; the next one starts from zero.
            *bias = Bias::default();
        }
        change
    }

    fn advance(&self, bias: &mut Bias, token: u32) {
        let from = std::mem::take(&mut bias.within);
        bias.within =
            from.into_iter().chain([0]).filter_map(|node| self.nodes[node].next.get(&token).copied()).collect();
    }
}

/// Bonus of the token number `depth` of a keyterm, from 1.
fn user_bonus(depth: u16) -> f32 {
    if depth == 1 { BEGIN } else { CONTINUE }
}

/// The same of a medical term.
fn medical_bonus(depth: u16) -> f32 {
    if depth < MEDICAL_FROM { 0.0 } else { MEDICAL }
}

fn capitalised(term: &str) -> String {
    let mut letters = term.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::path::PathBuf;

    use super::*;

    fn trie(phrases: &[&[u32]]) -> Keyterms {
        let mut trie = Keyterms { nodes: vec![Node::default()] };
        phrases.iter().for_each(|phrase| trie.insert(phrase, user_bonus));
        trie
    }

    #[test]
    fn a_phrase_wins_over_a_slightly_better_token_and_not_over_a_much_better_one() {
        let terms = trie(&[&[1, 2]]);
        let mut bias = Bias::default();
        assert_eq!(terms.choose(&[9.0, 0.5, 0.0, 1.0], 0, &mut bias), 1, "begins the phrase");
        assert_eq!(terms.choose(&[9.0, 0.0, 0.0, 2.0], 0, &mut bias), 2, "continues it");
        assert_eq!(terms.choose(&[9.0, 0.0, 0.0, 2.0], 0, &mut bias), 3, "the phrase is over");
        assert_eq!(terms.choose(&[9.0, 0.0, 0.0, 5.0], 0, &mut bias), 3, "far better without");
    }

    #[test]
    fn in_beam_search_a_broken_off_phrase_gives_back_what_it_earned() {
        let terms = trie(&[&[1, 2, 3]]);
        let scores = |tokens: &[u32]| {
            let mut bias = Bias::default();
            tokens.iter().map(|token| terms.score(&mut bias, *token)).collect::<Vec<f32>>()
        };
        assert_eq!(scores(&[1, 2, 3, 3]), [BEGIN, CONTINUE, CONTINUE, 0.0]);
        assert_eq!(scores(&[1, 2, 9, 9]), [BEGIN, CONTINUE, -BEGIN - CONTINUE, 0.0]);
        assert_eq!(scores(&[1, 2, 1]), [BEGIN, CONTINUE, -CONTINUE]);
    }

    #[test]
    fn a_weight_scales_what_a_term_earns_and_never_lowers_another_one() {
        let starter = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../models/starter/asr-en");
        let vocabulary = Vocabulary::read(&starter, 383).unwrap();
        let scores = |keyterms: &[Keyterm], text: &str| {
            let terms = ExpectedTerms { keyterms, medical: Vec::new() };
            let (trie, left_out) = Keyterms::new(&terms, &vocabulary).unwrap();
            assert!(left_out.is_empty());
            let (trie, mut bias) = (trie.unwrap(), Bias::default());
            let tokens = vocabulary.spelled(text).unwrap().unwrap();
            tokens.iter().map(|token| trie.score(&mut bias, *token)).sum::<f32>()
        };
        let [whole, half] = [Keyterm::from("right"), Keyterm::from("right").weight(0.5)];
        let one = scores(&[whole], "right");
        assert!(one >= BEGIN, "{one}");
        assert_eq!(scores(std::slice::from_ref(&half), "right"), 0.5 * one);
        assert_eq!(scores(&[half, Keyterm::from("rightly")], "right"), one, "both begin alike");
        let invalid = [Keyterm::from("right").weight(f32::NAN)];
        let terms = ExpectedTerms { keyterms: &invalid, medical: Vec::new() };
        assert!(matches!(Keyterms::new(&terms, &vocabulary), Err(Error::InvalidOption(_))));
    }

    #[test]
    fn a_medical_term_counts_from_its_third_token_and_never_lowers_a_keyterm() {
        let mut terms = trie(&[&[1, 2]]);
        terms.insert(&[1, 2, 3, 4], medical_bonus);
        terms.insert(&[5, 6, 7], medical_bonus);
        let scores = |tokens: &[u32]| {
            let mut bias = Bias::default();
            tokens.iter().map(|token| terms.score(&mut bias, *token)).collect::<Vec<f32>>()
        };
        assert_eq!(scores(&[5, 6, 7]), [0.0, 0.0, MEDICAL]);
        assert_eq!(scores(&[5, 6, 9]), [0.0, 0.0, 0.0]);
        assert_eq!(scores(&[1, 2]), [BEGIN, CONTINUE]);
        let mut bias = Bias::default();
        assert_eq!(terms.choose(&[0.0, -5.0, 0.0, 0.0, 0.0, 0.5, 0.6, 0.0], 0, &mut bias), 6, "no bonus to begin");
    }

    #[test]
    fn medical_terms_are_those_of_the_language_and_long() {
        let of = |language| ExpectedTerms::new(&[], true, language).medical;
        assert!(of(Some("en_us")).contains(&"lisinopril") && !of(Some("en")).contains(&"lisinoprilo"));
        assert!(of(Some("pt")).is_empty());
        assert!(of(None).len() > 2000 && of(None).contains(&"Vorhofflimmern"));
        assert!(of(None).iter().all(|term| term.chars().count() >= MEDICAL_LETTERS));
        assert!(ExpectedTerms::new(&[], false, Some("en")).medical.is_empty());
    }

    #[test]
    fn the_blank_is_never_chosen() {
        let terms = trie(&[&[0, 1]]);
        assert_eq!(terms.choose(&[9.0, 0.0, 0.1], 0, &mut Bias::default()), 2);
    }
}
