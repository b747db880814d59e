//! The CMU dictionary as a packed table: the first pronunciation of each word. The recipe's `dictionary.py` writes it and
//! describes the format; its licence is `cmudict.LICENSE`.

use std::cmp::Ordering;
use std::sync::LazyLock;

use super::phone::{Phone, genitive};

/// Longest code, bits.
const MAX_CODE_BITS: usize = 24;

/// The end of a word or of its phones.
const END: usize = 0;

/// The letters of words, in the order of their codes' symbols, which begin at 1.
const LETTERS: &[u8] = b"'abcdefghijklmnopqrstuvwxyz";

static CMUDICT: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::parse(include_bytes!("cmudict.bin")).unwrap_or_default());

/// A packed dictionary.
#[derive(Clone, Debug, Default)]
pub struct Lexicon {
    words: usize,
    words_a_block: usize,
    starts: Vec<usize>,
    blocks: &'static [u8],
    shared: Code,
    letters: Code,
    phones: Code,
}

impl Lexicon {
    /// The CMU dictionary.
    pub fn cmudict() -> &'static Self {
        &CMUDICT
    }

    /// Reads a packed dictionary; none for other bytes.
    pub fn parse(bytes: &'static [u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(b"CMUD")?;
        let mut number = || {
            let (head, tail) = rest.split_first_chunk::<4>()?;
            rest = tail;
            Some(u32::from_le_bytes(*head) as usize)
        };
        let (words, words_a_block, length) = (number()?, number()?, number()?);
        let mut code = || {
            let (count, tail) = rest.split_first()?;
            let (lengths, tail) = tail.split_at_checked(usize::from(*count))?;
            rest = tail;
            Code::new(lengths)
        };
        let (shared, letters, phones) = (code()?, code()?, code()?);
        let (starts, blocks) = rest.split_at_checked(4 * words.div_ceil(words_a_block.max(1)))?;
        let starts = starts.as_chunks::<4>().0.iter().map(|start| u32::from_le_bytes(*start) as usize).collect();
        (blocks.len() == length).then_some(Self { words, words_a_block, starts, blocks, shared, letters, phones })
    }

    /// The phones of a word in lower case: its entry, or that of the word whose genitive it is.
    pub fn phones(&self, word: &str) -> Option<Vec<Phone>> {
        if let Some(phones) = self.entry(word) {
            return Some(phones);
        }
        let mut phones = self.phones(word.strip_suffix("'s")?)?;
        phones.extend(genitive(*phones.last()?));
        Some(phones)
    }

    /// The phones of a word's own entry.
    pub fn entry(&self, word: &str) -> Option<Vec<Phone>> {
        let mut found = Vec::new();
        // The block before the first one that begins behind the word.
        let block = self.starts.partition_point(|start| {
            self.read_letters(&mut Bits::at(self.blocks, *start), &mut found).is_some()
                && found.as_slice() <= word.as_bytes()
        });
        let first = block.checked_sub(1)?;
        let mut bits = Bits::at(self.blocks, *self.starts.get(first)?);
        found.clear();
        let count = self.words_a_block.min(self.words - first * self.words_a_block);
        for _ in 0..count {
            self.read_letters(&mut bits, &mut found)?;
            let order = found.as_slice().cmp(word.as_bytes());
            if order == Ordering::Greater {
                return None;
            }
            let mut phones = Vec::new();
            loop {
                match self.phones.read(&mut bits)? {
                    END => break,
                    symbol => phones.push(Phone::from_index(symbol - 1)?),
                }
            }
            if order == Ordering::Equal {
                return Some(phones);
            }
        }
        None
    }

    /// Reads a word in place of the one before it.
    fn read_letters(&self, bits: &mut Bits, word: &mut Vec<u8>) -> Option<()> {
        word.truncate(self.shared.read(bits)?);
        loop {
            match self.letters.read(bits)? {
                END => return Some(()),
                symbol => word.push(*LETTERS.get(symbol - 1)?),
            }
        }
    }
}

/// A canonical Huffman code.
#[derive(Clone, Debug, Default)]
struct Code {
    /// The number of codes of each length.
    counts: Vec<u32>,
    /// Symbols in the order of their codes.
    symbols: Vec<usize>,
}

impl Code {
    /// From the code length of each symbol, 0 for symbols that do not occur.
    fn new(lengths: &[u8]) -> Option<Self> {
        let mut counts = vec![0; MAX_CODE_BITS + 1];
        for length in lengths {
            *counts.get_mut(usize::from(*length))? += 1;
        }
        counts[0] = 0;
        let mut symbols: Vec<usize> = (0..lengths.len()).filter(|symbol| lengths[*symbol] > 0).collect();
        symbols.sort_by_key(|symbol| (lengths[*symbol], *symbol));
        Some(Self { counts, symbols })
    }

    fn read(&self, bits: &mut Bits) -> Option<usize> {
        let (mut code, mut first, mut index) = (0u32, 0u32, 0u32);
        for count in self.counts.iter().skip(1) {
            code |= bits.next()?;
            if code < first + count {
                return self.symbols.get((index + code.checked_sub(first)?) as usize).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

/// Bits of a byte string, from the highest of each byte on.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn at(bytes: &'a [u8], byte: usize) -> Self {
        Self { bytes, at: 8 * byte }
    }

    fn next(&mut self) -> Option<u32> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u32::from(bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> Option<String> {
        let phones = Lexicon::cmudict().phones(word)?;
        Some(phones.into_iter().map(Phone::name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_have_their_first_pronunciation() {
        assert_eq!(said("a").as_deref(), Some("AH0"));
        assert_eq!(said("aaa").as_deref(), Some("T R IH2 P AH0 L EY1"));
        assert_eq!(said("hello").as_deref(), Some("HH AH0 L OW1"));
        assert_eq!(said("zywicki").as_deref(), Some("Z IH0 W IH1 K IY0"));
        assert_eq!(said("don't").as_deref(), Some("D OW1 N T"));
    }

    #[test]
    fn genitives_follow_their_word() {
        assert_eq!(said("hello's").as_deref(), Some("HH AH0 L OW1 Z"));
        assert_eq!(said("wish's").as_deref(), Some("W IH1 SH IH0 Z"));
        assert_eq!(said("cat's").as_deref(), Some("K AE1 T S"));
        assert_eq!(said("hello's's").as_deref(), Some("HH AH0 L OW1 Z IH0 Z"));
    }

    #[test]
    fn other_words_have_no_entry() {
        for word in ["", "'", "'s", "zzzzzz", "auricles's", "Hello", "né", "a b", "\u{0}", "~"] {
            assert_eq!(said(word), None, "{word:?}");
        }
    }

    #[test]
    fn a_broken_table_is_none() {
        assert!(Lexicon::parse(b"CMUD").is_none() && Lexicon::parse(b"").is_none());
        assert!(Lexicon::parse(b"CMUD\x01\0\0\0\0\0\0\0\0\0\0\0\x01\xff\0\0").is_none());
        assert!(Lexicon::default().phones("a").is_none());
    }
}
