//! Keyterms: a trie of phrases that biases decoding towards names and jargon that the user expects.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::text::tokens::Vocabulary;

/// Bonuses, in logits, for a token that begins a keyterm and for each that continues one. The bonus for a beginning is
/// smaller, since most words begin like some keyterm.
const BEGIN: f32 = 1.0;
const CONTINUE: f32 = 2.5;

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
    /// A trie of `terms`, each as given and with a capital, or none without terms; and the terms that the model cannot
    /// write, which are left out.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOption`] when the tokenizer fails.
    pub fn new<'a>(terms: &'a [String], vocabulary: &Vocabulary) -> Result<(Option<Self>, Vec<&'a str>)> {
        let mut trie = Self { nodes: vec![Node::default()] };
        let mut left_out = Vec::new();
        for term in terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()) {
            match vocabulary.spelled(term)? {
                Some(tokens) => trie.insert(&tokens),
                None => left_out.push(term),
            }
            if let Some(tokens) = vocabulary.spelled(&capitalised(term))? {
                trie.insert(&tokens);
            }
        }
        Ok(((trie.nodes.len() > 1).then_some(trie), left_out))
    }

    fn insert(&mut self, tokens: &[u32]) {
        let mut at = 0;
        for token in tokens {
            at = match self.nodes[at].next.get(token) {
                Some(next) => *next,
                None => {
                    let depth = self.nodes[at].depth + 1;
                    self.nodes.push(Node { depth, ..Node::default() });
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
        self.nodes[0].next.keys().for_each(|token| consider(*token, BEGIN));
        for node in &bias.within {
            self.nodes[*node].next.keys().for_each(|token| consider(*token, CONTINUE));
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
        let earned = |node: &usize| BEGIN + CONTINUE * f32::from(self.nodes[*node].depth - 1);
        let best = bias.within.iter().map(earned).fold(0.0, f32::max);
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

fn capitalised(term: &str) -> String {
    let mut letters = term.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trie(phrases: &[&[u32]]) -> Keyterms {
        let mut trie = Keyterms { nodes: vec![Node::default()] };
        phrases.iter().for_each(|phrase| trie.insert(phrase));
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
    fn the_blank_is_never_chosen() {
        let terms = trie(&[&[0, 1]]);
        assert_eq!(terms.choose(&[9.0, 0.0, 0.1], 0, &mut Bias::default()), 2);
    }
}
