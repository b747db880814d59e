//! Settings that a published checkpoint states beside its weights, for forms that do not: languages, suppressed tokens, alignment heads.

use tokenizers::Tokenizer;

use super::super::config::{ConfigFile, TIMESTAMPS};

/// The languages in the order of their tokens; checkpoints before large-v3 lack the last.
pub const LANGUAGES: [&str; 100] = [
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv", "it", "id", "hi", "fi",
    "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no", "th", "ur", "hr", "bg", "lt", "la", "mi", "ml",
    "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn", "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs",
    "kk", "sq", "sw", "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be", "tg", "sd", "gu", "am",
    "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln",
    "ha", "ba", "jw", "su", "yue",
];

const END: &str = "<|endoftext|>";
const START: &str = "<|startoftranscript|>";
/// Control tokens between the languages and the timestamps.
const CONTROL: [&str; 6] =
    ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"];

/// The latest timestamp that a window may begin with, 1 s: all published checkpoints state it.
pub const LATEST_FIRST: usize = 50;

/// Tokens of a vocabulary of this size that has so many tokens of text: they follow these, and are as many as the languages make them.
///
/// # Errors
/// The fault of a vocabulary that has no layout of a published one.
pub fn special_tokens(text: usize, vocabulary: usize) -> Result<Vec<String>, String> {
    let others = 2 + CONTROL.len() + TIMESTAMPS;
    let languages = vocabulary.checked_sub(text + others).filter(|count| *count <= LANGUAGES.len());
    let Some(languages) = languages else {
        return Err(format!("{text} tokens of text in a vocabulary of {vocabulary} are no layout of Whisper"));
    };
    let codes = LANGUAGES[..languages].iter().map(|code| format!("<|{code}|>"));
    let timestamps = (0..TIMESTAMPS).map(|at| format!("<|{}.{:02}|>", at / 50, at % 50 * 2));
    let start = [END, START].into_iter().map(str::to_owned);
    Ok(start.chain(codes).chain(CONTROL.into_iter().map(str::to_owned)).chain(timestamps).collect())
}

/// True for the layout with languages: its last token of text is empty.
pub fn is_multilingual(tokenizer: &Tokenizer, vocabulary: usize) -> bool {
    /// The least vocabulary with languages of published checkpoints.
    const LEAST: usize = 51_865;
    let last = tokenizer.token_to_id(END).and_then(|end| tokenizer.id_to_token(end.checked_sub(1)?));
    vocabulary >= LEAST || last.is_some_and(|text| text.is_empty())
}

/// Symbols that stand for sounds, not for words. Marks of music are several tokens each, of which the first is suppressed.
const SYMBOLS: &str = "\"#()*+/:;<=>@[\\]^_`{|}~「」『』";
const SEQUENCES: [&str; 20] = [
    "<<",
    ">>",
    "<<<",
    ">>>",
    "--",
    "---",
    "-(",
    "-[",
    "('",
    "(\"",
    "((",
    "))",
    "(((",
    ")))",
    "[[",
    "]]",
    "{{",
    "}}",
    "♪♪",
    "♪♪♪",
];
const MUSIC: &str = "♩♪♫♬♭♮♯";
/// Words never begin with these.
const BEGINNINGS: [&str; 2] = [" -", " '"];

/// The tokens that are always suppressed: those of symbols alone, with a space before or without, and control tokens.
pub fn suppressed(tokenizer: &Tokenizer) -> Vec<i64> {
    let ids = |text: &str| match tokenizer.encode_fast(text, false) {
        Ok(encoded) => encoded.get_ids().to_vec(),
        Err(_) => Vec::new(),
    };
    let spaced = |symbol: String| [format!(" {symbol}"), symbol];
    let alone = SYMBOLS.chars().map(String::from).chain(SEQUENCES.map(String::from)).flat_map(spaced);
    let alone = alone.filter_map(|symbol| match ids(&symbol)[..] {
        [only] => Some(only),
        _ => None,
    });
    let music = MUSIC.chars().map(String::from).flat_map(spaced).filter_map(|mark| ids(&mark).first().copied());
    let beginnings = BEGINNINGS.into_iter().filter_map(|text| ids(text).first().copied());
    // All but the one that turns timestamps off: it is part of the prompt.
    let control = [START].into_iter().chain(CONTROL).filter(|token| *token != CONTROL[5]);
    let control = control.filter_map(|token| tokenizer.token_to_id(token));
    let mut all: Vec<i64> = alone.chain(music).chain(beginnings).chain(control).map(i64::from).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The tokens that are suppressed at the first position: a space, and the end.
pub fn suppressed_first(tokenizer: &Tokenizer) -> Vec<i64> {
    let space = tokenizer.token_to_id("Ġ");
    space.into_iter().chain(tokenizer.token_to_id(END)).map(i64::from).collect()
}

/// The published alignment heads of a checkpoint of these sizes, as decoder layer and head; none for other sizes. Of the two largest
/// ones of the same sizes these are the second's.
pub fn alignment_heads(sizes: &ConfigFile, multilingual: bool) -> Option<Vec<(usize, usize)>> {
    let heads: &[(usize, usize)] = match (sizes.d_model, sizes.decoder_layers, multilingual) {
        (384, 4, false) => &[(1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)],
        (384, 4, true) => &[(2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)],
        (512, 6, false) => &[(3, 3), (4, 7), (5, 1), (5, 5), (5, 7)],
        (512, 6, true) => &[(3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6)],
        (768, 12, false) => &SMALL_EN,
        (768, 12, true) => &[(5, 3), (5, 9), (8, 0), (8, 4), (8, 7), (8, 8), (9, 0), (9, 7), (9, 9), (10, 5)],
        (1024, 24, false) => &MEDIUM_EN,
        (1024, 24, true) => &[(13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4)],
        (1280, 32, true) if sizes.num_mel_bins == 80 => &LARGE_V2,
        (1280, 32, true) => {
            &[(7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6)]
        }
        (1280, 4, true) => &[(2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14)],
        _ => return None,
    };
    Some(heads.to_vec())
}

const SMALL_EN: [(usize, usize); 19] = [
    (6, 6),
    (7, 0),
    (7, 3),
    (7, 8),
    (8, 2),
    (8, 5),
    (8, 7),
    (9, 0),
    (9, 4),
    (9, 8),
    (9, 10),
    (10, 0),
    (10, 1),
    (10, 2),
    (10, 3),
    (10, 6),
    (10, 11),
    (11, 2),
    (11, 4),
];
const MEDIUM_EN: [(usize, usize); 18] = [
    (11, 4),
    (14, 1),
    (14, 12),
    (14, 14),
    (15, 4),
    (16, 0),
    (16, 4),
    (16, 9),
    (17, 12),
    (17, 14),
    (18, 7),
    (18, 10),
    (18, 15),
    (20, 0),
    (20, 3),
    (20, 9),
    (20, 14),
    (21, 12),
];
const LARGE_V2: [(usize, usize); 23] = [
    (10, 12),
    (13, 17),
    (16, 11),
    (16, 12),
    (16, 13),
    (17, 15),
    (17, 16),
    (18, 4),
    (18, 11),
    (18, 19),
    (19, 11),
    (21, 2),
    (21, 3),
    (22, 3),
    (22, 9),
    (22, 12),
    (23, 5),
    (23, 7),
    (23, 13),
    (25, 5),
    (26, 1),
    (26, 12),
    (27, 15),
];
