//! A backoff n-gram model as a trie of sorted arrays, one a level.

/// Largest order of a model.
pub const MAX_ORDER: usize = 6;

/// Most n-grams of all lengths together, and most words: bounds the memory that a file can take.
pub const MAX_NGRAMS: usize = 1 << 25;

/// Marks a missing node or word.
pub(super) const NONE: u32 = u32::MAX;

/// A backoff n-gram model over word numbers. Probabilities are natural logarithms.
#[derive(Clone, Debug, Default)]
pub struct Ngram {
    /// Levels by length of n-gram, unigrams first; the place in the unigram level is the word.
    levels: Vec<Level>,
    /// The word `<s>`, if there is one.
    begin: Option<u32>,
}

/// The n-grams of one length, sorted by the n-gram that they continue, then by their last word.
#[derive(Clone, Debug, Default)]
struct Level {
    /// The last word of each; empty in the first level.
    words: Vec<u32>,
    log_probs: Vec<f32>,
    /// Empty in the last level.
    backoffs: Vec<f32>,
    /// Start of the continuations of each n-gram in the next level, and the end of the last ones. Empty in the last
    /// level.
    first: Vec<u32>,
}

/// One n-gram before it is added to a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Place of the n-gram without its last word, in the level before; 0 for unigrams.
    pub parent: u32,
    /// The last word.
    pub word: u32,
    /// ln P(last word | the others)
    pub log_prob: f32,
    /// ln of the backoff weight; 0 where there is none.
    pub backoff: f32,
}

/// State of the model after the words so far: the place of the n-gram of the last 1, 2, ... words, or `NONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context([u32; MAX_ORDER - 1]);

impl Ngram {
    /// Adds the next level and sorts its entries; of two entries for the same n-gram the likelier stays.
    pub(super) fn push_level(&mut self, mut entries: Vec<Entry>) {
        entries.sort_unstable_by(|a, b| {
            (a.parent, a.word).cmp(&(b.parent, b.word)).then(b.log_prob.total_cmp(&a.log_prob))
        });
        entries.dedup_by_key(|entry| (entry.parent, entry.word));
        if let Some(above) = self.levels.last_mut() {
            let mut at = 0;
            above.first = (0..=above.log_probs.len() as u32)
                .map(|parent| {
                    at += entries[at..].iter().take_while(|entry| entry.parent < parent).count();
                    at as u32
                })
                .collect();
        }
        self.levels.push(Level {
            words: if self.levels.is_empty() { Vec::new() } else { entries.iter().map(|e| e.word).collect() },
            log_probs: entries.iter().map(|e| e.log_prob).collect(),
            backoffs: entries.iter().map(|e| e.backoff).collect(),
            first: Vec::new(),
        });
    }

    /// Completes the model after the last level; `begin` is the word `<s>`.
    pub(super) fn finish(&mut self, begin: Option<u32>) {
        self.begin = begin;
        if let Some(last) = self.levels.last_mut() {
            last.backoffs = Vec::new();
        }
    }

    /// The place of an n-gram of at least one word, in the level of its length.
    pub(super) fn find(&self, words: &[u32]) -> Option<u32> {
        let (first, rest) = words.split_first()?;
        rest.iter().enumerate().try_fold(*first, |node, (level, word)| self.child(level, node, *word))
    }

    /// Length of the longest n-grams.
    pub fn order(&self) -> usize {
        self.levels.len()
    }

    /// Number of n-grams of each length.
    pub fn counts(&self) -> Vec<usize> {
        self.levels.iter().map(|level| level.log_probs.len()).collect()
    }

    /// ln P(word) without context.
    pub fn unigram(&self, word: u32) -> f32 {
        self.levels[0].log_probs[word as usize]
    }

    /// The context at the beginning of a text.
    pub fn start(&self) -> Context {
        self.begin.map_or(self.empty(), |begin| self.score(&self.empty(), begin).1)
    }

    /// The empty context.
    pub fn empty(&self) -> Context {
        Context([NONE; MAX_ORDER - 1])
    }

    /// ln P(word | context), and the context after it.
    pub fn score(&self, context: &Context, word: u32) -> (f32, Context) {
        let mut next = Context([NONE; MAX_ORDER - 1]);
        next.0[0] = word;
        // From short to long: the longest known n-gram gives the probability, longer contexts give their backoff.
        let mut log_prob = self.unigram(word);
        for (level, &node) in context.0.iter().enumerate().take(self.levels.len().saturating_sub(1)) {
            if node == NONE {
                continue;
            }
            match self.child(level, node, word) {
                Some(child) => {
                    log_prob = self.levels[level + 1].log_probs[child as usize];
                    if let Some(place) = next.0.get_mut(level + 1) {
                        *place = child;
                    }
                }
                None => log_prob += self.levels[level].backoffs[node as usize],
            }
        }
        (log_prob, next)
    }

    /// The n-gram that continues `node` of `level` by a word.
    fn child(&self, level: usize, node: u32, word: u32) -> Option<u32> {
        let first = &self.levels[level].first;
        let (from, to) = (*first.get(node as usize)?, *first.get(node as usize + 1)?);
        let words = &self.levels[level + 1].words[from as usize..to as usize];
        words.binary_search(&word).ok().map(|at| from + at as u32)
    }
}

/// Checks the numbers of n-grams that a file announces.
pub(super) fn check_counts(counts: &[usize]) -> Result<(), String> {
    if counts.is_empty() || counts.len() > MAX_ORDER {
        return Err(format!("n-grams of 1 to {MAX_ORDER} words can be read, not of {}", counts.len()));
    }
    let total = counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
    if total > MAX_NGRAMS {
        return Err(format!("{total} n-grams are more than the {MAX_NGRAMS} that can be held"));
    }
    if counts[0] == 0 {
        return Err("there are no words in it".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(parent: u32, word: u32, log_prob: f32, backoff: f32) -> Entry {
        Entry { parent, word, log_prob, backoff }
    }

    /// Words 0 to 2; "0 1" and "1 2"; "0 1 2".
    fn model() -> Ngram {
        let mut model = Ngram::default();
        model.push_level(vec![entry(0, 0, -1.0, -0.5), entry(0, 1, -2.0, -0.25), entry(0, 2, -3.0, 0.0)]);
        model.push_level(vec![entry(1, 2, -0.75, 0.0), entry(0, 1, -0.5, -0.125)]);
        model.push_level(vec![entry(0, 2, -0.0625, 0.0)]);
        model.finish(None);
        model
    }

    fn scores(model: &Ngram, words: &[u32]) -> Vec<f32> {
        let mut context = model.start();
        let mut scores = Vec::new();
        for word in words {
            let (score, next) = model.score(&context, *word);
            scores.push(score);
            context = next;
        }
        scores
    }

    #[test]
    fn the_longest_known_n_gram_counts_and_longer_contexts_back_off() {
        let model = model();
        assert_eq!(model.counts(), [3, 2, 1]);
        assert_eq!(scores(&model, &[0, 1, 2]), [-1.0, -0.5, -0.0625]);
        assert_eq!(scores(&model, &[1, 2]), [-2.0, -0.75]);
        // "0 1 0": backoffs of "1" and of "0 1", then the word alone.
        assert_eq!(scores(&model, &[0, 1, 0]), [-1.0, -0.5, -1.0 - 0.25 - 0.125]);
        assert_eq!(scores(&model, &[0, 2]), [-1.0, -3.5]);
    }

    #[test]
    fn too_many_or_too_long_n_grams_are_refused() {
        assert!(check_counts(&[5, 4, 3]).is_ok());
        assert!(check_counts(&[]).is_err());
        assert!(check_counts(&[1; MAX_ORDER + 1]).is_err());
        assert!(check_counts(&[usize::MAX, 7]).is_err());
    }
}
