//! What the measuring programs share.

/// The words of a text, lower-cased and without punctuation.
pub fn normalised(text: &str) -> Vec<String> {
    let spaced: String =
        text.to_lowercase().chars().map(|c| if c.is_alphanumeric() || c == '\'' { c } else { ' ' }).collect();
    spaced.split_whitespace().map(|word| word.trim_matches('\'').to_string()).filter(|word| !word.is_empty()).collect()
}

/// Edits between what was said and what was heard, in words.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordErrors {
    /// Words heard as others.
    pub substituted: usize,
    /// Words not heard.
    pub deleted: usize,
    /// Words heard that were not said.
    pub inserted: usize,
}

impl WordErrors {
    /// All of them.
    pub fn total(&self) -> usize {
        self.substituted + self.deleted + self.inserted
    }

    /// These and those.
    pub fn add(&mut self, other: &Self) {
        self.substituted += other.substituted;
        self.deleted += other.deleted;
        self.inserted += other.inserted;
    }

    /// The least edits that turn `reference` into `heard` (Levenshtein).
    pub fn between(reference: &[String], heard: &[String]) -> Self {
        let mut above: Vec<Self> = (0..=heard.len()).map(|n| Self { inserted: n, ..Self::default() }).collect();
        for (row, said) in reference.iter().enumerate() {
            let mut line = vec![Self { deleted: row + 1, ..Self::default() }];
            for (column, word) in heard.iter().enumerate() {
                let mut best = above[column];
                best.substituted += usize::from(said != word);
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
        above[heard.len()]
    }
}
