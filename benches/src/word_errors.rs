//! Substitutions, deletions and insertions between two texts.

/// The words of `text`, in lower case and without punctuation.
pub fn normalize(text: &str) -> Vec<String> {
    let spaced: String =
        text.to_lowercase().chars().map(|c| if c.is_alphanumeric() || c == '\'' { c } else { ' ' }).collect();
    spaced.split_whitespace().map(|word| word.trim_matches('\'').to_string()).filter(|word| !word.is_empty()).collect()
}

/// Word edits that turn a reference into a hypothesis.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordErrors {
    /// Words of the reference that became other words.
    pub substituted: usize,
    /// Words of the reference that are missing.
    pub deleted: usize,
    /// Words that the reference does not have.
    pub inserted: usize,
}

impl WordErrors {
    /// The number of edits.
    pub fn total(&self) -> usize {
        self.substituted + self.deleted + self.inserted
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.substituted += other.substituted;
        self.deleted += other.deleted;
        self.inserted += other.inserted;
    }

    /// Errors as a percentage of `words`, the words of the reference.
    pub fn percent_of(&self, words: usize) -> f64 {
        100.0 * self.total() as f64 / words.max(1) as f64
    }

    /// The fewest edits that turn `reference` into `hypothesis` (Levenshtein distance over words).
    pub fn between(reference: &[String], hypothesis: &[String]) -> Self {
        let mut above: Vec<Self> = (0..=hypothesis.len()).map(|n| Self { inserted: n, ..Self::default() }).collect();
        for (row, expected) in reference.iter().enumerate() {
            let mut line = vec![Self { deleted: row + 1, ..Self::default() }];
            for (column, word) in hypothesis.iter().enumerate() {
                let mut best = above[column];
                best.substituted += usize::from(expected != word);
                let deleted = Self { deleted: above[column + 1].deleted + 1, ..above[column + 1] };
                let inserted = Self { inserted: line[column].inserted + 1, ..line[column] };
                for other in [deleted, inserted] {
                    if other.total() < best.total() {
                        best = other;
                    }
                }
                line.push(best);
            }
            above = line;
        }
        above[hypothesis.len()]
    }
}
