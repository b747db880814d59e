//! Trie of the spellings of words, with the probability of each beginning.

/// No word ends here.
const NONE: u32 = u32::MAX;

/// A trie of words over the bytes of their spelling.
#[derive(Debug)]
pub struct Lexicon {
    /// The root first; children lie side by side, by byte.
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Its first child.
    first: u32,
    children: u16,
    /// The last byte of the spelling.
    byte: u8,
    /// The word that ends here, or [`NONE`].
    word: u32,
    /// ln of the summed probability of the words that begin like this, over that of all words.
    log_mass: f32,
}

/// A place in a [`Lexicon`]: letters that some word begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Lexicon {
    /// The trie of words with their numbers and log probabilities. Of two with one spelling, the first counts.
    pub fn new<'a>(words: impl Iterator<Item = (&'a str, u32, f32)>) -> Self {
        let mut words: Vec<(&[u8], u32, f32)> = words.map(|(word, id, log)| (word.as_bytes(), id, log)).collect();
        words.sort_by_key(|(spelling, ..)| *spelling);
        words.dedup_by_key(|(spelling, ..)| *spelling);
        let mass = |words: &[(&[u8], u32, f32)]| words.iter().map(|(.., log)| f64::from(*log).exp()).sum::<f64>();
        let total = mass(&words).ln();
        let node = |byte, log_mass| Node { first: 0, children: 0, byte, word: NONE, log_mass };
        let mut nodes = vec![node(0, 0.0)];
        // For every node the words below it; breadth first, so that children lie side by side.
        let mut below = vec![(0..words.len(), 0usize)];
        let mut at = 0;
        while at < nodes.len() {
            let (mut range, depth) = below[at].clone();
            if range.start < range.end && words[range.start].0.len() == depth {
                nodes[at].word = words[range.start].1;
                range.start += 1;
            }
            nodes[at].first = nodes.len() as u32;
            while range.start < range.end {
                let byte = words[range.start].0[depth];
                let length = words[range.clone()].partition_point(|(spelling, ..)| spelling[depth] == byte);
                let here = range.start..range.start + length;
                nodes.push(node(byte, (mass(&words[here.clone()]).ln() - total) as f32));
                below.push((here.clone(), depth + 1));
                nodes[at].children += 1;
                range.start = here.end;
            }
            at += 1;
        }
        Self { nodes }
    }

    /// The empty beginning, which all words share.
    pub fn root(&self) -> Place {
        Place(0)
    }

    /// The place after one more byte, if some word continues with it.
    pub fn step(&self, place: Place, byte: u8) -> Option<Place> {
        let node = self.nodes[place.0 as usize];
        let children = &self.nodes[node.first as usize..][..usize::from(node.children)];
        children.binary_search_by_key(&byte, |child| child.byte).ok().map(|at| Place(node.first + at as u32))
    }

    /// The word spelled so far, if it is one.
    pub fn word(&self, place: Place) -> Option<u32> {
        Some(self.nodes[place.0 as usize].word).filter(|word| *word != NONE)
    }

    /// ln P(a word begins with these letters), by the words' probabilities alone.
    pub fn log_mass(&self, place: Place) -> f32 {
        self.nodes[place.0 as usize].log_mass
    }

    /// The number of a word.
    pub fn find(&self, word: &str) -> Option<u32> {
        word.bytes().try_fold(self.root(), |place, byte| self.step(place, byte)).and_then(|place| self.word(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_lead_to_words_and_to_the_mass_of_those_that_begin_so() {
        let log = |p: f32| p.ln();
        let words = [("the", 7, log(0.5)), ("then", 8, log(0.25)), ("a", 9, log(0.25)), ("th", 3, log(1.0))];
        let lexicon = Lexicon::new(words[..3].iter().copied());
        assert_eq!(
            ["the", "then", "a", "th", "", "thenx"].map(|word| lexicon.find(word)),
            [Some(7), Some(8), Some(9), None, None, None]
        );
        let mass = |letters: &str| {
            letters
                .bytes()
                .try_fold(lexicon.root(), |place, byte| lexicon.step(place, byte))
                .map(|place| lexicon.log_mass(place).exp())
        };
        for (letters, wanted) in [("", 1.0), ("t", 0.75), ("the", 0.75), ("then", 0.25), ("a", 0.25)] {
            assert!((mass(letters).unwrap() - wanted).abs() < 1e-6, "{letters}");
        }
        assert_eq!(mass("b"), None);
        assert_eq!(Lexicon::new(words.into_iter()).find("th"), Some(3));
        assert_eq!(Lexicon::new(std::iter::empty()).find("a"), None);
    }
}
