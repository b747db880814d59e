//! Tokens with times to words with times.

use std::path::Path;

use tokenizers::Tokenizer;

use super::Word;
use super::word_list::words;
use crate::error::{Error, Result};

/// SentencePiece mark of the start of a word.
pub const WORD_START: char = '\u{2581}';

/// A checkpoint's tokenizer.
pub struct Vocabulary {
    tokenizer: Tokenizer,
    /// By token id.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    text: String,
    kind: PieceKind,
}

/// An emitted token with its place in the audio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Id in the checkpoint's vocabulary.
    pub id: u32,
    /// Encoder frame at which it was emitted, from the utterance's first.
    pub frame: usize,
    /// Frames that it spans: the predicted duration (TDT), the run of equal frames (CTC), else 1.
    pub span: usize,
    /// 1 - H(p) / ln(n): one minus the entropy of the token distribution over that of an even one, 0 to 1.
    pub confidence: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceKind {
    /// A part of the text.
    Text,
    /// A language tag such as `<en-US>`.
    Language,
    /// Blank, padding, unknown: never shown.
    Hidden,
}

/// Text of a token sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spoken {
    /// The words, in order.
    pub words: Vec<Word>,
    /// The words' text with the tokenizer's spacing.
    pub text: String,
    /// The language tag, if the model wrote one: `en-US`.
    pub language: Option<String>,
}

impl Spoken {
    /// Mean confidence of the words; none without words.
    pub fn confidence(&self) -> Option<f32> {
        mean_confidence(&self.words)
    }
}

/// Mean confidence of words; none without words.
pub fn mean_confidence(words: &[Word]) -> Option<f32> {
    let sum: f32 = words.iter().map(|word| word.confidence).sum();
    (!words.is_empty()).then(|| sum / words.len() as f32)
}

/// The text of words, with spaces between them except in scripts without spaces.
pub fn joined(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        let beside = [text.chars().next_back(), word.text.chars().next()];
        if !text.is_empty() && !beside.into_iter().flatten().any(is_wide) {
            text.push(' ');
        }
        text.push_str(&word.text);
    }
    text
}

/// Scripts without spaces between words, and their punctuation.
pub(crate) fn is_wide(c: char) -> bool {
    is_unspaced(c)
        || matches!(c, '\u{0E80}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{3000}'..='\u{303F}' | '\u{FF00}'..='\u{FFEF}')
}

impl Vocabulary {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing or malformed.
    pub fn read(dir: &Path, blank: u32) -> Result<Self> {
        let path = dir.join("tokenizer.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let tokenizer = Tokenizer::from_file(&path).map_err(|e| bad(e.to_string()))?;
        let size = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        let special: std::collections::BTreeSet<u32> =
            tokenizer.get_added_tokens_decoder().into_iter().filter(|(_, t)| t.special).map(|(id, _)| id).collect();
        let pieces = (0..size as u32).map(|id| {
            let text = tokenizer.id_to_token(id).unwrap_or_default();
            // The model's blank takes precedence over the tokenizer's piece with that id.
            let kind = if id == blank {
                PieceKind::Hidden
            } else if is_language_tag(&text) {
                PieceKind::Language
            } else if special.contains(&id) {
                PieceKind::Hidden
            } else {
                PieceKind::Text
            };
            Piece { text, kind }
        });
        Ok(Self { pieces: pieces.collect(), tokenizer })
    }

    /// The id of a token by its text, such as `<|en|>`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The token ids of a phrase, as it stands within a text.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when the tokenizer cannot write it.
    pub fn encode(&self, phrase: &str) -> Result<Vec<u32>> {
        let encoding = self
            .tokenizer
            .encode(phrase, false)
            .map_err(|e| Error::InvalidOption(format!("{phrase:?} cannot be written by the model: {e}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// As [`Self::encode`], with plain apostrophes; none for a phrase with a character that no token has.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn spelled(&self, phrase: &str) -> Result<Option<Vec<u32>>> {
        let ids = self.encode(&phrase.replace('\u{2019}', "'"))?;
        let shown = |id: &u32| self.pieces.get(*id as usize).is_some_and(|piece| piece.kind == PieceKind::Text);
        Ok(ids.iter().all(shown).then_some(ids))
    }

    /// The text of every token, by id: with [`WORD_START`] at the start of a word, empty for control tokens.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|piece| if piece.kind == PieceKind::Text { piece.text.as_str() } else { "" })
    }

    /// True if the tokens are those of English text alone: its commonest words are among them, and no longer token has a letter
    /// beyond ASCII. A configuration of the transducer and CTC families names no language.
    pub fn is_english(&self) -> bool {
        self.pieces.iter().all(|piece| piece.kind != PieceKind::Language) && are_english(self.texts())
    }

    /// Words with times: `frame_ms` is the length of an encoder frame, `end_ms` that of the audio.
    pub fn words(&self, tokens: &[Token], frame_ms: f64, end_ms: u64) -> Spoken {
        let mut spoken = Spoken::default();
        let mut groups: Vec<Vec<Token>> = Vec::new();
        for token in tokens {
            let Some(piece) = self.pieces.get(token.id as usize) else { continue };
            match piece.kind {
                PieceKind::Hidden => {}
                PieceKind::Language => spoken.language = Some(piece.text.trim_matches(['<', '>']).to_string()),
                PieceKind::Text => match groups.last_mut() {
                    Some(group) if !starts_word(&piece.text) => group.push(*token),
                    _ => groups.push(vec![*token]),
                },
            }
        }
        for (at, group) in groups.iter().enumerate() {
            let text = self.decode(group);
            if text.is_empty() {
                continue;
            }
            let next = groups.get(at + 1).map(|group| group[0].frame);
            spoken.words.push(word(text, self.sounded(group), next, frame_ms, end_ms));
        }
        spoken.text = self.decode(&groups.concat());
        spoken
    }

    /// The tokens of a word up to its last letter: models emit a full stop in the silence after a word, which must not
    /// lengthen the word.
    fn sounded<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        let has_letter = |token: &Token| {
            self.pieces.get(token.id as usize).is_some_and(|piece| piece.text.chars().any(char::is_alphanumeric))
        };
        match tokens.iter().rposition(has_letter) {
            Some(last) => &tokens[..=last],
            None => tokens,
        }
    }

    fn decode(&self, tokens: &[Token]) -> String {
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        // Ids come from the model's own vocabulary; ids that the tokenizer cannot decode are left out.
        self.tokenizer.decode(&ids, true).unwrap_or_default().trim().to_string()
    }
}

/// A word from its tokens; `next` is the frame at which the next word begins.
fn word(text: String, tokens: &[Token], next: Option<usize>, frame_ms: f64, end_ms: u64) -> Word {
    let ms = |frame: usize| (frame as f64 * frame_ms).round() as u64;
    let first = tokens.first().map_or(0, |token| token.frame);
    let last = tokens.iter().map(|token| token.frame + token.span.max(1)).max().unwrap_or(first + 1);
    // A word lasts at least its last token's frame; it may not reach into the next word unless both share a frame.
    let last = next.map_or(last, |next| last.min(next.max(first + 1)));
    let start = ms(first).min(end_ms);
    let confidence = tokens.iter().map(|token| token.confidence).sum::<f32>() / tokens.len().max(1) as f32;
    Word {
        text,
        start,
        end: ms(last).clamp(start, end_ms.max(start)),
        confidence,
        speaker: None,
        speaker_name: None,
        channel: None,
    }
}

/// True if a piece begins a word: a SentencePiece word start, or a character of a script written without spaces.
fn starts_word(piece: &str) -> bool {
    piece.starts_with(WORD_START) || piece.chars().next().is_some_and(is_unspaced)
}

/// Han, kana and Thai: scripts without spaces, where every piece is a word of its own.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0E7F}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{2FA1F}')
}

/// True for a tag of two or three lower-case letters and a region: `<en-US>`.
fn is_language_tag(text: &str) -> bool {
    let Some(tag) = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else { return false };
    let mut parts = tag.split('-');
    let language = parts.next().unwrap_or_default();
    let region = parts.next();
    (2..=3).contains(&language.len())
        && language.chars().all(|c| c.is_ascii_lowercase())
        && region.is_some_and(|r| (2..=3).contains(&r.len()) && r.chars().all(|c| c.is_ascii_alphanumeric()))
        && parts.next().is_none()
}

fn are_english<'a>(tokens: impl Iterator<Item = &'a str>) -> bool {
    let common = words!("the and of to");
    let mut found = vec![false; common.len()];
    for token in tokens {
        let text = token.trim_start_matches(WORD_START);
        // Single letters of loan words have tokens of their own.
        if text.chars().nth(1).is_some() && text.chars().any(|letter| letter.is_alphabetic() && !letter.is_ascii()) {
            return false;
        }
        if let Some(at) =
            common.iter().position(|word| token.starts_with(WORD_START) && text.eq_ignore_ascii_case(word))
        {
            found[at] = true;
        }
    }
    !found.contains(&false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_english_alone_are_known() {
        let of = |tokens: &str| are_english(tokens.split(' '));
        assert!(of("▁the ▁And ▁of ▁to ing é ' <0xC3>"));
        assert!(!of("▁the ▁and ▁of ▁to ção"), "of several languages");
        assert!(!of("▁the ▁and ▁of ▁to при"));
        assert!(!of("▁de ▁en ▁van ▁to the and of"), "of another language");
        assert!(!of(""));
    }

    #[test]
    fn language_tags_are_told_from_other_special_tokens() {
        for tag in ["<en-US>", "<de-DE>", "<nah-MX>"] {
            assert!(is_language_tag(tag), "{tag}");
        }
        for other in ["<unk>", "<pad>", "<blank>", "en-US", "<en-US", "<EN-us-x>", "<|en|>"] {
            assert!(!is_language_tag(other), "{other}");
        }
    }

    #[test]
    fn a_word_ends_where_the_next_begins_and_never_past_the_audio() {
        let token = |frame, span| Token { id: 1, frame, span, confidence: 0.5 };
        let word = word("a".into(), &[token(3, 1), token(5, 4)], Some(7), 80.0, 10_000);
        assert_eq!((word.start, word.end), (240, 560));
        let last = super::word("a".into(), &[token(5, 4)], None, 80.0, 500);
        assert_eq!((last.start, last.end), (400, 500));
    }
}
