//! Letters to phones.

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use serde::Deserialize;

use super::model::{Token, TokenClassifier};
use crate::error::{Error, Result};
use crate::text::speech::{GraphemeToPhoneme, Phone};

/// Most words of a batch.
const BATCH: usize = 32;

/// Pronounces words that no dictionary has: a classifier of letters, read by CTC.
#[derive(Clone, Debug)]
pub struct G2p {
    network: TokenClassifier,
    /// Scores of a letter are those of so many decisions.
    slots: usize,
    /// The letter of each token.
    letters: Vec<String>,
    /// The phones behind the blank.
    phones: Vec<Phone>,
}

#[derive(Deserialize)]
struct File {
    slots: usize,
    letters: Vec<String>,
    phones: Vec<String>,
}

impl G2p {
    /// Loads the folder of an export.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path) -> Result<Self> {
        let network = TokenClassifier::load(dir, Precision::F32)?;
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let File { slots, letters, phones } =
            serde_json::from_str(&text).map_err(|e| bad(format!("no letters-to-phones model: {e}")))?;
        let phones = phones
            .iter()
            .map(|name| Phone::from_name(name).ok_or_else(|| bad(format!("{name} is no phone"))))
            .collect::<Result<Vec<_>>>()?;
        let labels = network.config().labels();
        if slots == 0 || slots.checked_mul(1 + phones.len()) != Some(labels) {
            let count = phones.len();
            return Err(bad(format!("{labels} labels are not {slots} times the blank and {count} phones")));
        }
        if letters.len() != network.config().vocab_size {
            return Err(bad(format!("{} letters in a vocabulary of {}", letters.len(), network.config().vocab_size)));
        }
        Ok(Self { network, slots, letters, phones })
    }

    /// The tokens of a word; letters that the model does not know are left out.
    fn tokens(&self, word: &str) -> Vec<Token> {
        let mut buffer = [0; 4];
        let known = word.chars().filter_map(|letter| {
            let letter: &str = letter.encode_utf8(&mut buffer);
            Some(Token { id: self.letters.iter().position(|known| known == letter)?, kind: 0 })
        });
        known.take(self.network.config().max_position_embeddings).collect()
    }

    /// Greedy CTC over the decisions of a word: repeats are merged, then blanks removed.
    fn read(&self, scores: &[f32]) -> Vec<Phone> {
        let mut found = Vec::new();
        let mut before = 0;
        for decision in scores.chunks_exact(1 + self.phones.len()) {
            let mut best = 0;
            for (at, score) in decision.iter().enumerate() {
                if *score > decision[best] {
                    best = at;
                }
            }
            if best > 0 && best != before {
                found.extend(self.phones.get(best - 1));
            }
            before = best;
        }
        found
    }
}

impl GraphemeToPhoneme for G2p {
    fn pronounce(&self, words: &[&str]) -> Result<Vec<Vec<Phone>>> {
        let mut found = Vec::with_capacity(words.len());
        let labels = self.slots * (1 + self.phones.len());
        for words in words.chunks(BATCH) {
            let all: Vec<_> = words.iter().map(|word| self.tokens(word)).collect();
            let rows: Vec<_> = all.iter().filter(|row| !row.is_empty()).cloned().collect();
            let scores = self.network.forward(&rows)?;
            let mut rest = scores.as_slice();
            for row in all {
                let (own, after) = rest.split_at(row.len() * labels);
                found.push(self.read(own));
                rest = after;
            }
        }
        Ok(found)
    }
}
