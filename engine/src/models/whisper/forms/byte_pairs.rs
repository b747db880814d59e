//! A byte-level tokenizer from the bytes of its tokens alone.
//!
//! The number of a token is its rank: of all pairs of neighbours in a text, the pair whose joined token has the lowest one is joined
//! first. So the two tokens that a longer one is joined of are those that remain where only lower ranks are joined.

use std::collections::HashMap;

use rayon::prelude::*;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

use crate::text::byte_level;

/// Numbers of tokens by their bytes.
type Ranks<'a> = HashMap<&'a [u8], u32>;

/// A tokenizer of these tokens of text, and of others, which have the numbers after them.
///
/// # Errors
/// The fault of tokens that make no tokenizer.
pub fn tokenizer(text: &[Vec<u8>], special: &[String]) -> Result<Tokenizer, String> {
    let letters = byte_level::chars_of_bytes();
    let written = |bytes: &[u8]| bytes.iter().map(|byte| letters[usize::from(*byte)]).collect::<String>();
    // A token that is there twice has its lower number.
    let ranks: Ranks = text.iter().map(Vec::as_slice).zip(0..).collect::<Vec<_>>().into_iter().rev().collect();
    let merges = text.par_iter().zip(0..text.len() as u32).filter_map(|(token, rank)| {
        let at = parting(token, rank, &ranks)?;
        Some((written(&token[..at]), written(&token[at..])))
    });
    let merges: Vec<(String, String)> = merges.collect();
    let mut vocabulary: Vocab = ranks.iter().map(|(token, rank)| (written(token), *rank)).collect();
    vocabulary.extend(special.iter().cloned().zip(text.len() as u32..));
    let pairs = BPE::builder().vocab_and_merges(vocabulary, merges).build().map_err(|error| error.to_string())?;
    let mut tokenizer = Tokenizer::new(pairs);
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    let added = special.iter().map(|token| AddedToken::from(token.as_str(), true));
    tokenizer.add_special_tokens(added).map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The length of the first of the two tokens that a token is joined of; none for one that no join makes.
fn parting(token: &[u8], rank: u32, ranks: &Ranks) -> Option<usize> {
    const NEVER: u32 = u32::MAX;
    let joined = |from: usize, to: usize| ranks.get(&token[from..to]).copied().filter(|other| *other < rank);
    // The first byte of each piece, and the rank of it and the next one joined.
    let mut pieces: Vec<(usize, u32)> = (0..token.len())
        .map(|at| (at, (at + 2 <= token.len()).then(|| joined(at, at + 2)).flatten().unwrap_or(NEVER)))
        .collect();
    while pieces.len() > 2 {
        let (at, (_, lowest)) = pieces.iter().enumerate().min_by_key(|(_, (_, rank))| *rank)?;
        if *lowest == NEVER {
            return None;
        }
        pieces.remove(at + 1);
        let start = |at: usize| pieces.get(at).map_or(token.len(), |(start, _)| *start);
        let next = |at: usize| (at + 1 < pieces.len()).then(|| joined(start(at), start(at + 2))).flatten();
        let changed = [Some(at), at.checked_sub(1)].map(|at| at.map(|at| (at, next(at).unwrap_or(NEVER))));
        for (at, rank) in changed.into_iter().flatten() {
            pieces[at].1 = rank;
        }
    }
    pieces.get(1).map(|(start, _)| *start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &[&str]) -> Vec<Vec<u8>> {
        let bytes = (0..=255u8).map(|byte| vec![byte]);
        bytes.chain(text.iter().map(|text| text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_pair_of_a_lower_rank_is_joined_first() {
        // "abc" is "ab" and "c", as "ab" has a lower rank than "bc"; no join makes "xyz".
        let text = tokens(&["ab", "bc", "abc", "xyz", ""]);
        let special = ["<|endoftext|>".to_owned(), "<|startoftranscript|>".to_owned()];
        let tokenizer = tokenizer(&text, &special).unwrap();
        let ids = |text: &str| tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec();
        assert_eq!(ids("abc"), [258]);
        assert_eq!(ids("bca"), [257, u32::from(b'a')]);
        assert_eq!(ids("xyz"), [b'x', b'y', b'z'].map(u32::from));
        assert_eq!(tokenizer.token_to_id("<|startoftranscript|>"), Some(262));
        assert_eq!(tokenizer.id_to_token(260).as_deref(), Some(""));
    }

    #[test]
    fn a_token_parts_where_its_own_rank_leaves_it() {
        let text = tokens(&["in", "ing", "th", "thing"]);
        let ranks: Ranks = text.iter().map(Vec::as_slice).zip(0..).collect();
        let at = |word: &str| parting(word.as_bytes(), ranks[word.as_bytes()], &ranks);
        assert_eq!([at("in"), at("ing"), at("thing")], [Some(1), Some(2), Some(2)]);
        assert_eq!(parting(b"", 9, &ranks), None);
        assert_eq!(parting(b"a", 97, &ranks), None);
    }
}
