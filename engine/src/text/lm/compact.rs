//! The compact form of a language model, as `models/recipes/lm.py` writes it.
//!
//! Integers are LEB128: seven bits a byte, low ones first, the top bit set on all but the last byte.
//!
//! 1. The bytes `AURLM001`, then the longest n-grams' length and the number of n-grams of each length.
//! 2. The words in the order of their numbers: length in bytes, UTF-8.
//! 3. For each length, a codebook of log probabilities and, but for the last, one of backoffs: a count of up to 256, then
//!    little-endian f32, natural logarithms.
//! 4. For each length, the n-grams, sorted by what they continue and then by their last word. Each is its last word (as the
//!    difference to that of the n-gram before it, where that continues the same; left out for words alone), a byte for its
//!    log probability and, but for the last length, how many n-grams continue it and, if any, a byte for its backoff.

use std::io::BufRead;

use super::Parsed;
use super::ngram::{Entry, check_counts};

/// First bytes of a file in the compact form.
pub(super) const MAGIC: &[u8] = b"AURLM001";

/// Longest word, bytes.
const MAX_WORD: usize = 1 << 10;

struct Bytes<R>(R);

impl<R: BufRead> Bytes<R> {
    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(|e| format!("cut off: {e}"))?;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, String> {
        let [byte] = self.exactly()?;
        Ok(byte)
    }

    fn integer(&mut self) -> Result<usize, String> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long".into())
    }

    fn word(&mut self) -> Result<String, String> {
        let length = self.integer()?;
        if length > MAX_WORD {
            return Err(format!("a word of {length} bytes"));
        }
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).map_err(|e| format!("cut off: {e}"))?;
        String::from_utf8(bytes).map_err(|_| "a word is not UTF-8".into())
    }

    fn codebook(&mut self) -> Result<Vec<f32>, String> {
        let count = self.integer()?;
        let values = (0..count.min(257)).map(|_| self.exactly().map(f32::from_le_bytes));
        let values = values.collect::<Result<Vec<f32>, String>>()?;
        let fine = values.len() <= 256 && values.iter().all(|value| value.is_finite());
        if fine { Ok(values) } else { Err("a codebook is damaged".into()) }
    }

    fn coded(&mut self, codebook: &[f32]) -> Result<f32, String> {
        let code = usize::from(self.byte()?);
        codebook.get(code).copied().ok_or_else(|| format!("code {code} of a codebook of {}", codebook.len()))
    }
}

/// Reads a model.
pub(super) fn read(input: impl BufRead) -> Result<Parsed, String> {
    let mut bytes = Bytes(input);
    bytes.exactly::<8>()?;
    let order = bytes.integer()?;
    // The count of lengths is checked before any memory depends on it.
    check_counts(&vec![1; order.min(256)])?;
    let counts = (0..order).map(|_| bytes.integer()).collect::<Result<Vec<usize>, String>>()?;
    check_counts(&counts)?;
    let mut parsed = Parsed::default();
    for _ in 0..counts[0] {
        parsed.words.push(bytes.word()?);
    }
    let mut books = Vec::new();
    for length in 1..=order {
        let log_probs = bytes.codebook()?;
        books.push((log_probs, if length < order { bytes.codebook()? } else { Vec::new() }));
    }
    // Number of continuations of each n-gram of the level before, which at first is the empty n-gram.
    let mut children = vec![counts[0]];
    for (level, (log_probs, backoffs)) in books.iter().enumerate() {
        let (mut entries, mut next) = (Vec::new(), Vec::new());
        for (parent, &count) in children.iter().enumerate() {
            let mut word = 0usize;
            for at in 0..count {
                word = match (level, at) {
                    (0, at) => at,
                    _ => word.saturating_add(bytes.integer()?),
                };
                if word >= counts[0]
                    || (level > 0 && at > 0 && entries.last().is_some_and(|e: &Entry| e.word as usize >= word))
                {
                    return Err("its n-grams are out of order".into());
                }
                let log_prob = bytes.coded(log_probs)?;
                let continued = if level + 1 < order { bytes.integer()? } else { 0 };
                next.push(continued);
                let backoff = if continued > 0 { bytes.coded(backoffs)? } else { 0.0 };
                entries.push(Entry { parent: parent as u32, word: word as u32, log_prob, backoff });
                if entries.len() > counts[level] {
                    return Err(format!(
                        "more than the {} n-grams of {} words that it announces",
                        counts[level],
                        level + 1
                    ));
                }
            }
        }
        if entries.len() != counts[level] {
            return Err(format!(
                "{} n-grams of {} words where it announces {}",
                entries.len(),
                level + 1,
                counts[level]
            ));
        }
        parsed.ngram.push_level(entries);
        children = next;
    }
    if bytes.0.fill_buf().is_ok_and(|rest| !rest.is_empty()) {
        return Err("bytes follow its last n-gram".into());
    }
    parsed.ngram.finish(parsed.words.iter().position(|word| word == "<s>").map(|at| at as u32));
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "a" and "b"; "a b".
    const GOOD: &[u8] = &[
        b'A', b'U', b'R', b'L', b'M', b'0', b'0', b'1', 2, 2, 1, 1, b'a', 1, b'b', // words
        2, 0, 0, 0x80, 0xbf, 0, 0, 0, 0xc0, 1, 0, 0, 0, 0xbf, // -1 and -2; -0.5
        1, 0, 0, 0x80, 0xbe, // -0.25
        0, 1, 0, 1, 0, // a, which one n-gram continues; b
        1, 0, // b after a
    ];

    #[test]
    fn a_model_is_read() {
        let parsed = read(GOOD).unwrap();
        assert_eq!(parsed.words, ["a", "b"]);
        let (a, context) = parsed.ngram.score(&parsed.ngram.start(), 0);
        assert_eq!([a, parsed.ngram.score(&context, 1).0, parsed.ngram.score(&context, 0).0], [-1.0, -0.25, -1.5]);
    }

    #[test]
    fn damage_is_an_error() {
        for length in 8..GOOD.len() {
            assert!(read(&GOOD[..length]).is_err(), "cut at {length}");
        }
        for at in 8..GOOD.len() {
            for value in [0, 1, 2, 3, 0x7f, 0x80, 0xff] {
                let mut bytes = GOOD.to_vec();
                bytes[at] = value;
                // Some changes give another model; none may do worse than that.
                if let Ok(parsed) = read(bytes.as_slice()) {
                    assert_eq!(parsed.ngram.counts()[0], parsed.words.len());
                }
            }
        }
        assert!(read([GOOD, &[0]].concat().as_slice()).is_err(), "something after the end");
    }
}
