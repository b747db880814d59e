//! BM25 over the passages of a transcript.

use std::collections::{HashMap, HashSet};

use super::terms::{Term, TermReader};

/// How fast repetitions of a term stop counting, and how far long passages are held back.
const K1: f64 = 1.2;
const B: f64 = 0.4;

/// A term of a query, with the stems that may stand for it.
#[derive(Clone, Debug)]
pub struct QueryTerm {
    pub stem: String,
    /// Stems of related words, which count less.
    pub related: Vec<String>,
    /// The importance of the term within its query, 1 for an ordinary one.
    pub weight: f64,
}

/// The share of a term's weight that a related word has.
const RELATED: f64 = 0.6;

/// The match of a passage with a query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Match {
    /// The BM25 score.
    pub score: f64,
    /// The share of the query's weight that the passage holds, 0 to 1.
    pub coverage: f64,
}

/// The passages' terms, and how many passages hold each.
pub struct Index {
    pub terms: Vec<Vec<Term>>,
    counts: Vec<HashMap<String, usize>>,
    frequency: HashMap<String, usize>,
    mean_length: f64,
}

impl Index {
    pub fn new<'a>(reader: &TermReader, passages: impl Iterator<Item = &'a str>) -> Self {
        let terms: Vec<Vec<Term>> = passages.map(|text| reader.terms(text)).collect();
        let mut frequency: HashMap<String, usize> = HashMap::new();
        let mut counts = Vec::with_capacity(terms.len());
        for passage in &terms {
            let mut count: HashMap<String, usize> = HashMap::new();
            for term in passage {
                *count.entry(term.stem.clone()).or_default() += 1;
            }
            for stem in count.keys() {
                *frequency.entry(stem.clone()).or_default() += 1;
            }
            counts.push(count);
        }
        let words: usize = terms.iter().map(Vec::len).sum();
        Self { mean_length: words as f64 / terms.len().max(1) as f64, terms, counts, frequency }
    }

    /// The inverse document frequency of a stem: high for a rare one, highest for one that the transcript lacks.
    pub fn rarity(&self, stem: &str) -> f64 {
        let (all, holding) = (self.terms.len() as f64, self.frequency.get(stem).copied().unwrap_or(0) as f64);
        (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln()
    }

    pub fn has(&self, stem: &str) -> bool {
        self.frequency.contains_key(stem)
    }

    /// The rarity of a query's term: that of the stem, or of the related word that the transcript has instead.
    fn query_rarity(&self, term: &QueryTerm) -> f64 {
        if self.has(&term.stem) {
            return self.rarity(&term.stem);
        }
        let related = term.related.iter().filter(|stem| self.has(stem)).map(|stem| self.rarity(stem));
        related
            .fold(None, |least: Option<f64>, rarity| Some(least.map_or(rarity, |least| least.min(rarity))))
            .unwrap_or_else(|| self.rarity(&term.stem))
    }

    /// The match of every passage. A passage also counts, in part, what its neighbours hold and it does not: a subject is named
    /// once and then meant.
    pub fn matches(&self, query: &[QueryTerm], neighbour: f64) -> Vec<Match> {
        let total: f64 = query.iter().map(|term| term.weight * self.query_rarity(term)).sum();
        if total <= 0.0 {
            return vec![Match::default(); self.terms.len()];
        }
        // The strength of each term in each passage.
        let strengths: Vec<Vec<f64>> =
            (0..self.terms.len()).map(|at| query.iter().map(|term| self.strength(term, at)).collect()).collect();
        let own = |at: usize, term: usize| strengths.get(at).map_or(0.0, |passage| passage[term]);
        (0..self.terms.len())
            .map(|at| {
                let mut found = Match::default();
                for (number, term) in query.iter().enumerate() {
                    let weight = term.weight * self.query_rarity(term);
                    let strength = own(at, number);
                    if strength > 0.0 {
                        found.score += weight * strength;
                        found.coverage += weight * self.share(term, at);
                        continue;
                    }
                    let before = at.checked_sub(1).map_or(0.0, |before| own(before, number));
                    let near = before.max(own(at + 1, number));
                    found.score += weight * near * neighbour;
                    if near > 0.0 {
                        found.coverage += weight * neighbour;
                    }
                }
                found.coverage /= total;
                found
            })
            .collect()
    }

    /// 1 if the passage holds the term itself, less for a related word.
    fn share(&self, term: &QueryTerm, at: usize) -> f64 {
        if self.counts[at].contains_key(&term.stem) { 1.0 } else { RELATED }
    }

    /// BM25's weight of a term in a passage.
    fn strength(&self, term: &QueryTerm, at: usize) -> f64 {
        let count = |stem: &String| self.counts[at].get(stem).copied().unwrap_or(0) as f64;
        let related = term.related.iter().map(count).fold(0.0, f64::max);
        let count = count(&term.stem).max(RELATED * related);
        let length = self.terms[at].len() as f64 / self.mean_length.max(1.0);
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length))
    }

    /// Passages that say most of what the whole says, the best first: by the rarity-weighted frequency of their content words, each
    /// next one without what the ones before have said.
    pub fn central(&self, most: usize) -> Vec<usize> {
        let mut weights: HashMap<&str, f64> = HashMap::new();
        for term in self.terms.iter().flatten().filter(|term| !term.is_stop && !term.is_number) {
            let frequency = self.frequency.get(&term.stem).copied().unwrap_or(1) as f64;
            weights.entry(&term.stem).or_insert_with(|| frequency.sqrt() * if term.is_name { 1.3 } else { 1.0 });
        }
        let mut said: HashSet<&str> = HashSet::new();
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < most {
            let score = |at: usize| {
                let stems: HashSet<&str> =
                    self.terms[at].iter().filter(|term| !term.is_stop).map(|term| term.stem.as_str()).collect();
                // A greeting has few content words, and a long passage must not win by its length.
                if stems.len() < 3 {
                    return 0.0;
                }
                let new = stems.iter().filter(|stem| !said.contains(*stem));
                let sum: f64 = new.map(|stem| weights.get(stem).copied().unwrap_or(0.0)).sum();
                sum / (stems.len() as f64 + 4.0)
            };
            let best = (0..self.terms.len()).filter(|at| !chosen.contains(at)).map(|at| (at, score(at))).fold(
                None,
                |best: Option<(usize, f64)>, next| match best {
                    Some(best) if best.1 >= next.1 => Some(best),
                    _ => Some(next),
                },
            );
            let Some((best, _)) = best.filter(|(_, score)| *score > 0.0) else { break };
            said.extend(self.terms[best].iter().map(|term| term.stem.as_str()));
            chosen.push(best);
        }
        chosen
    }
}
