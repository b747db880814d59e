//! Text to tokens and back, for byte-level tokenizers: from `tokenizer.json`, or rebuilt from a GGUF file's metadata.
//!
//! A control mark such as `<|im_end|>` becomes its token only where the template has written it. In a caller's text it is text:
//! [`ChatTokenizer::shield`] marks it before the template is filled in.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Value as Json, json};
use tokenizers::Tokenizer;

use crate::error::{Error, Result};
use crate::text::byte_level;
use crate::weights::gguf::{Gguf, Value};

/// Stands within a control mark of a caller's text. No character of any script; it never reaches the model.
const SHIELD: char = '\u{FDD0}';

/// A checkpoint's tokenizer.
pub struct ChatTokenizer {
    /// Knows no control marks.
    plain: Tokenizer,
    /// Texts that are tokens of their own, the longest first.
    marks: Vec<(String, u32)>,
    /// The bytes of each token; none for control tokens, which are no text.
    pieces: Vec<Option<Vec<u8>>>,
    control: BTreeMap<String, u32>,
}

/// A token that is written as a whole.
struct Added {
    text: String,
    id: u32,
    /// No part of the text.
    control: bool,
}

impl ChatTokenizer {
    /// Reads `tokenizer.json` of a folder, for a vocabulary of at most `size` tokens.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, malformed, or no byte-level tokenizer.
    pub fn read(dir: &Path, size: usize) -> Result<Self> {
        let path = dir.join("tokenizer.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| bad(format!("cannot read: {error}")))?;
        let mut file: Json = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let added = file.get_mut("added_tokens").map(Json::take).unwrap_or_default();
        let added = added.as_array().into_iter().flatten().map(|token| {
            let text = token["content"].as_str()?.to_owned();
            let id = u32::try_from(token["id"].as_u64()?).ok()?;
            Some(Added { text, id, control: token["special"].as_bool().unwrap_or(false) })
        });
        let added: Option<Vec<Added>> = added.collect();
        let added = added.ok_or_else(|| bad("an added token lacks its text or number".into()))?;
        Self::new(file, added, size).map_err(bad)
    }

    /// Rebuilds the tokenizer of a GGUF file.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the metadata is missing or malformed, or the tokenizer is not supported.
    pub fn of_gguf(gguf: &Gguf) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: gguf.path().to_path_buf(), reason };
        let (file, added, size) = rebuild(gguf).map_err(bad)?;
        Self::new(file, added, size).map_err(bad)
    }

    fn new(mut file: Json, added: Vec<Added>, size: usize) -> std::result::Result<Self, String> {
        if file["model"]["type"] != "BPE" || !uses_byte_level(&file["pre_tokenizer"]) {
            return Err("the tokenizer is not byte-level BPE".into());
        }
        file["added_tokens"] = json!([]);
        let bytes = byte_level::bytes_of_chars();
        let mut pieces: Vec<Option<Vec<u8>>> = vec![None; size];
        for (text, id) in file["model"]["vocab"].as_object().into_iter().flatten() {
            let id = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < size);
            let id = id.ok_or_else(|| format!("token {text:?} lies outside the vocabulary of {size}"))?;
            pieces[id] = text.chars().map(|c| bytes.get(&c).copied()).collect();
        }
        let mut marks = Vec::with_capacity(added.len());
        let mut control = BTreeMap::new();
        for token in added {
            let piece = pieces.get_mut(token.id as usize);
            let piece = piece.ok_or_else(|| format!("token {:?} lies outside the vocabulary of {size}", token.text))?;
            *piece = (!token.control).then(|| token.text.clone().into_bytes());
            if token.control {
                control.insert(token.text.clone(), token.id);
            }
            if !token.text.is_empty() {
                marks.push((token.text, token.id));
            }
        }
        marks.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let plain = Tokenizer::from_bytes(file.to_string()).map_err(|error| error.to_string())?;
        Ok(Self { plain, marks, pieces, control })
    }

    /// Number of tokens.
    pub fn size(&self) -> usize {
        self.pieces.len()
    }

    /// The bytes of a token; none for a control token.
    pub fn bytes(&self, token: u32) -> Option<&[u8]> {
        self.pieces.get(token as usize)?.as_deref()
    }

    /// The number of a token that is written as a whole.
    pub fn mark(&self, text: &str) -> Option<u32> {
        self.marks.iter().find(|(known, _)| known == text).map(|(_, id)| *id)
    }

    /// The text of a control token.
    pub fn control_text(&self, token: u32) -> Option<&str> {
        self.control.iter().find(|(_, id)| **id == token).map(|(text, _)| text.as_str())
    }

    /// Marks the control marks of a caller's text, so that [`ChatTokenizer::encode`] takes them for text.
    pub fn shield(&self, text: &str) -> String {
        let mut shielded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (kept, next) = rest.split_at(first.len_utf8());
            shielded.push(if first == SHIELD { char::REPLACEMENT_CHARACTER } else { first });
            if self.mark_at(rest).is_some() {
                shielded.push(SHIELD);
            }
            debug_assert!(!kept.is_empty());
            rest = next;
        }
        shielded
    }

    /// A text without what [`ChatTokenizer::shield`] has put in.
    pub fn unshield(text: &str) -> String {
        text.replace(SHIELD, "")
    }

    /// Encodes a filled-in template. Control marks that are not shielded become their tokens.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a text that the tokenizer cannot encode.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            match self.mark_at(&text[at..]) {
                Some((mark, id)) => {
                    self.encode_text(&text[from..at], &mut tokens)?;
                    tokens.push(*id);
                    at += mark.len();
                    from = at;
                }
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        self.encode_text(&text[from..], &mut tokens)?;
        Ok(tokens)
    }

    /// Encodes a text in which no mark is a control mark.
    ///
    /// # Errors
    /// As [`ChatTokenizer::encode`].
    pub fn encode_text(&self, text: &str, tokens: &mut Vec<u32>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let encoded = self.plain.encode_fast(Self::unshield(text), false);
        let encoded = encoded.map_err(|error| Error::InvalidOption(format!("the text cannot be encoded: {error}")))?;
        tokens.extend_from_slice(encoded.get_ids());
        Ok(())
    }

    /// The longest mark that the text begins with.
    fn mark_at(&self, text: &str) -> Option<&(String, u32)> {
        // Most texts have none of the characters that marks begin with.
        let first = text.as_bytes().first()?;
        let mut marks = self.marks.iter().filter(|(mark, _)| mark.as_bytes().first() == Some(first));
        marks.find(|(mark, _)| text.starts_with(mark.as_str()))
    }
}

fn uses_byte_level(pre_tokenizer: &Json) -> bool {
    let nested = pre_tokenizer["pretokenizers"].as_array();
    pre_tokenizer["type"] == "ByteLevel" || nested.is_some_and(|all| all.iter().any(uses_byte_level))
}

/// How a GGUF file's pre-tokenizer, by its name there, cuts a text. Digits in groups of `digits` at most, by a pattern of Qwen's shape
/// if `split`.
fn pre_tokenizer(name: &str) -> std::result::Result<(Json, bool), String> {
    let pattern = |digits: &str| {
        let cut = format!(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
        );
        json!({"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated", "invert": false})
    };
    let bytes = |by_words: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": by_words});
    let (first, last, ignores_merges) = match name {
        "smollm" => (json!({"type": "Digits", "individual_digits": true}), bytes(true), false),
        "qwen2" => (pattern("\\p{N}"), bytes(false), false),
        "llama-bpe" => (pattern("\\p{N}{1,3}"), bytes(false), true),
        _ => return Err(format!("the tokenizer {name:?} is not supported; smollm, qwen2 and llama-bpe are")),
    };
    Ok((json!({"type": "Sequence", "pretokenizers": [first, last]}), ignores_merges))
}

/// A `tokenizer.json` from a GGUF file's metadata, the tokens that are written as a whole, and the size of the vocabulary.
fn rebuild(gguf: &Gguf) -> std::result::Result<(Json, Vec<Added>, usize), String> {
    let value = |key: &str| gguf.value(&format!("tokenizer.ggml.{key}"));
    match value("model") {
        Some(Value::Text(model)) if model == "gpt2" => {}
        Some(Value::Text(model)) => return Err(format!("the tokenizer model {model:?} is not supported; gpt2 is")),
        _ => return Err("tokenizer.ggml.model is missing".into()),
    }
    let Some(Value::Text(name)) = value("pre") else { return Err("tokenizer.ggml.pre is missing".into()) };
    let (pre_tokenizer, ignores_merges) = pre_tokenizer(name)?;
    let Some(Value::Texts(texts)) = value("tokens") else { return Err("tokenizer.ggml.tokens is missing".into()) };
    let Some(Value::Texts(merges)) = value("merges") else { return Err("tokenizer.ggml.merges is missing".into()) };
    let kinds = match value("token_type") {
        Some(Value::Integers(kinds)) if kinds.len() == texts.len() => kinds,
        _ => return Err("tokenizer.ggml.token_type does not have one number for each token".into()),
    };
    let mut vocabulary = HashMap::with_capacity(texts.len());
    let mut added = Vec::new();
    for (id, (text, kind)) in (0u32..).zip(texts.iter().zip(kinds)) {
        match kind {
            1 => {
                vocabulary.insert(text.as_str(), id);
            }
            3 | 4 => added.push(Added { text: text.clone(), id, control: *kind == 3 }),
            // Unused numbers.
            5 => {}
            _ => return Err(format!("token {text:?} has type {kind}, which is not supported")),
        }
    }
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        let pair = merge.split_once(' ').ok_or_else(|| format!("the merge {merge:?} is not two tokens"))?;
        // A file may list control tokens' merges; they are of no use to a text.
        let known = |text: &str| vocabulary.contains_key(text);
        if known(pair.0) && known(pair.1) && known(&format!("{}{}", pair.0, pair.1)) {
            pairs.push([pair.0, pair.1]);
        }
    }
    let file = json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": if name == "qwen2" { json!({"type": "NFC"}) } else { Json::Null },
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignores_merges, "vocab": vocabulary, "merges": pairs,
        },
    });
    Ok((file, added, texts.len()))
}
