//! Keyterms: a trie of phrases that leans greedy decoding towards names and jargon the user expects.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::text::tokens::Vocabulary;

/// Added to the score of a token that begins a keyterm, and to each that continues one. Logits: a token as good as the
/// best but for a factor of e^2 wins. Beginnings get less, since most words begin like some keyterm.
const BEGIN: f32 = 1.0;
const CONTINUE: f32 = 2.5;

/// Phrases as paths of tokens. Which phrases a stream is within is its [`Bias`].
#[derive(Clone, Debug, Default)]
pub struct Keyterms {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    next: BTreeMap<u32, usize>,
}

/// The phrases that a stream has begun: nodes below the root.
#[derive(Clone, Debug, Default)]
pub struct Bias {
    within: Vec<usize>,
}

impl Keyterms {
    /// A trie of `terms`, each as written and with a capital; none where there are no terms.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOption`] when the model cannot write a term.
    pub fn new(terms: &[String], vocabulary: &Vocabulary) -> Result<Option<Self>> {
        let mut trie = Self { nodes: vec![Node::default()] };
        for term in terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()) {
            trie.insert(&vocabulary.encode(term)?);
            trie.insert(&vocabulary.encode(&capitalised(term))?);
        }
        Ok((trie.nodes.len() > 1).then_some(trie))
    }

    fn insert(&mut self, tokens: &[u32]) {
        let mut at = 0;
        for token in tokens {
            at = match self.nodes[at].next.get(token) {
                Some(next) => *next,
                None => {
                    self.nodes.push(Node::default());
                    let next = self.nodes.len() - 1;
                    self.nodes[at].next.insert(*token, next);
                    next
                }
            };
        }
    }

    /// The best token that is not blank, phrases counted in; moves `bias` on by it.
    ///
    /// Whether there is a token at all is decided without phrases, so that they never make words out of silence.
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
        let token = best.1;
        let from = std::mem::take(&mut bias.within);
        bias.within =
            from.into_iter().chain([0]).filter_map(|node| self.nodes[node].next.get(&token).copied()).collect();
        token
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
    fn the_blank_is_never_chosen() {
        let terms = trie(&[&[0, 1]]);
        assert_eq!(terms.choose(&[9.0, 0.0, 0.1], 0, &mut Bias::default()), 2);
    }
}
