//! Language models against `transformers`: scores and greedy texts of folders and GGUF files, the same bits however a prompt is cut
//! and whatever runs beside it, and files that do not fit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::unstable::models::decoder::{ChatModel, PageArena, PageList, Piece};
use auricle_kernels::attention::paged::cpu::PagePrecision;
use auricle_kernels::product::gemv::Precision;
use auricle_tests::{Oracle, with_config};
use burn::tensor::Device;

const NAMES: [&str; 5] = ["llama", "qwen2", "qwen3", "llama_gguf", "qwen3_gguf"];

pub fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("decoder").join(name)
}

fn load(name: &str) -> ChatModel {
    ChatModel::load(&fixture(name)).unwrap()
}

pub fn integers(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|at| at.as_u64().unwrap() as u32).collect()
}

fn arena(model: &ChatModel, precision: PagePrecision) -> PageArena {
    model.arena_of(precision, 64 << 20)
}

/// Computes tokens from `position` on and gives the scores after the last.
pub fn compute(
    model: &ChatModel,
    arena: &mut PageArena,
    pages: &mut PageList,
    tokens: &[u32],
    position: usize,
) -> Vec<f32> {
    assert!(arena.extend(pages, position + tokens.len()));
    model.forward(arena, &[Piece { tokens, position, pages, embedded: None, scores: true }]).unwrap()
}

/// The scores after the last token, computed in pieces of this many.
fn in_pieces(model: &ChatModel, tokens: &[u32], piece: usize) -> Vec<f32> {
    let (mut arena, mut pages) = (arena(model, PagePrecision::F32), PageList::default());
    let mut scores = Vec::new();
    for (number, part) in tokens.chunks(piece).enumerate() {
        scores = compute(model, &mut arena, &mut pages, part, number * piece);
    }
    scores
}

/// The difference of scores, relative to their size.
pub fn error(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>();
    let difference = square(&mut ours.iter().zip(theirs).map(|(a, b)| a - b));
    (difference / square(&mut theirs.iter().copied())).sqrt()
}

pub fn likeliest(scores: &[f32]) -> u32 {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap() as u32
}

/// Holds the greedy text after the oracle's prompt to its own.
pub fn assert_greedy(name: &str, model: &ChatModel, arena: &mut PageArena, oracle: &Oracle) {
    let prompt = integers(&oracle.facts["prompt"]);
    let mut pages = PageList::default();
    let mut scores = compute(model, arena, &mut pages, &prompt, 0);
    let mut text = Vec::new();
    for token in integers(&oracle.facts["greedy"]) {
        text.push(likeliest(&scores));
        assert_eq!(text.last(), Some(&token), "{name}: {text:?}");
        scores = compute(model, arena, &mut pages, &[token], prompt.len() + text.len() - 1);
    }
    assert_eq!(text.len(), 64);
}

#[test]
fn scores_and_greedy_texts_are_those_of_the_published_classes() {
    for name in NAMES {
        let (oracle, model) = (Oracle::open(&fixture(name)), load(name));
        let prompt = integers(&oracle.facts["prompt"]);
        let theirs = Oracle::values(oracle.tensor::<2>("logits", &Device::flex()));
        for (precision, tolerance) in [(PagePrecision::F32, 1e-4), (PagePrecision::F16, 1e-2)] {
            let (mut arena, mut pages) = (arena(&model, precision), PageList::default());
            let mut ours = Vec::new();
            for (position, token) in prompt.iter().enumerate() {
                ours.extend(compute(&model, &mut arena, &mut pages, &[*token], position));
            }
            let error = error(&ours, &theirs);
            assert!(error < tolerance, "{name}, {precision:?}: {error:e}");
        }
        assert_greedy(name, &model, &mut arena(&model, PagePrecision::F32), &oracle);
    }
}

/// Inputs of quantised weights in 8 bits move the scores a little.
#[test]
fn rounded_inputs_stay_near() {
    for name in ["llama_gguf", "qwen3_gguf"] {
        let (oracle, exact) = (Oracle::open(&fixture(name)), load(name));
        let rounded = ChatModel::load_with(&fixture(name), Precision::Int8).unwrap();
        let prompt = integers(&oracle.facts["prompt"]);
        let [exact, rounded] = [exact, rounded].map(|model| in_pieces(&model, &prompt, 512));
        let off: f64 = exact.iter().zip(&rounded).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let size: f64 = exact.iter().map(|a| f64::from(*a).powi(2)).sum();
        let error = (off / size).sqrt();
        assert!(error < 0.03, "{name}: {error:e}");
        // A processor without the instruction keeps 32 bits.
        assert!(
            error > 0.0 || !auricle_kernels::product::int8::cpu::Int8Matrix::is_fast(),
            "{name}: nothing is rounded"
        );
    }
}

#[test]
fn however_a_prompt_is_cut_and_whatever_runs_beside_it_the_bits_are_the_same() {
    let rounded = ["llama_gguf", "qwen3_gguf"].map(|name| (name, Precision::Int8));
    for (name, precision) in NAMES.map(|name| (name, Precision::F32)).into_iter().chain(rounded) {
        let model = ChatModel::load_with(&fixture(name), precision).unwrap();
        let prompt: Vec<u32> = (0..200u32).map(|at| at * 37 % 300).collect();
        let whole = in_pieces(&model, &prompt, 512);
        for piece in [1, 7, 32, 64, 199] {
            assert!(in_pieces(&model, &prompt, piece) == whole, "{name}: pieces of {piece}");
        }
        // Among others, each at another place of its text.
        let mut arena = arena(&model, PagePrecision::F32);
        let others: Vec<Vec<u32>> =
            (0..15u32).map(|n| (0..10 + 7 * n).map(|at| (at * 13 + n) % 300).collect()).collect();
        let mut lists: Vec<PageList> = (0..16).map(|_| PageList::default()).collect();
        for (other, list) in others.iter().zip(&mut lists) {
            compute(&model, &mut arena, list, &other[..other.len() - 1], 0);
        }
        assert!(arena.extend(&mut lists[15], prompt.len()));
        others.iter().zip(&mut lists).for_each(|(other, list)| assert!(arena.extend(list, other.len())));
        let mut pieces: Vec<Piece> = others
            .iter()
            .zip(&lists)
            .map(|(other, pages)| {
                let position = other.len() - 1;
                Piece { tokens: &other[position..], position, pages, embedded: None, scores: true }
            })
            .collect();
        pieces.insert(7, Piece { tokens: &prompt, position: 0, pages: &lists[15], embedded: None, scores: true });
        let scores = model.forward(&mut arena, &pieces).unwrap();
        let vocabulary = scores.len() / 16;
        assert!(scores[7 * vocabulary..8 * vocabulary] == whole, "{name}: among others");
        assert!(scores[15 * vocabulary..] == in_pieces(&model, &others[14], 512), "{name}: the last of them");
    }
}

#[test]
fn shared_pages_change_no_bit() {
    for name in ["qwen3", "llama_gguf"] {
        let model = load(name);
        let prompt: Vec<u32> = (0..150u32).map(|at| at * 31 % 300).collect();
        let account: Arc<str> = "one".into();
        let (mut arena, mut first) = (arena(&model, PagePrecision::F32), PageList::default());
        let cold = compute(&model, &mut arena, &mut first, &prompt, 0);
        arena.publish(&account, &prompt, &mut first);
        let mut second = PageList::default();
        let shared = arena.share(&account, &prompt, &mut second);
        assert_eq!(shared, 128);
        assert!(compute(&model, &mut arena, &mut second, &prompt[shared..], shared) == cold, "{name}");
    }
}

fn refused(path: &Path, because: &str) {
    let error = ChatModel::load(path).err().unwrap_or_else(|| panic!("accepted; expected: {because}")).to_string();
    assert!(error.contains(because), "{error}; expected: {because}");
}

#[test]
fn a_folder_that_does_not_fit_is_refused_by_name() {
    let with = |change: fn(&mut serde_json::Value), because: &str| {
        refused(with_config(&fixture("llama"), change).path(), because)
    };
    with(|config| config["num_hidden_layers"] = 3.into(), "model.layers.2.");
    with(|config| config["num_hidden_layers"] = 1.into(), "model.layers.1.");
    with(|config| config["intermediate_size"] = 81.into(), "model.layers.0.mlp.gate_proj.weight: has shape [80, 48]");
    with(|config| config["head_dim"] = 8.into(), "self_attn.q_proj.weight");
    with(|config| config["num_attention_heads"] = 5.into(), "5 heads are no multiple of 2 key heads");
    with(|config| config["hidden_size"] = 0.into(), "width is 0");
    with(|config| config["num_hidden_layers"] = (1u64 << 40).into(), "number of layers");
    with(|config| config["model_type"] = "mamba".into(), "\"mamba\"");
    with(|config| config["hidden_act"] = "gelu".into(), "gelu");
    with(|config| config["vocab_size"] = 100.into(), "vocabulary of 100");
    with(|config| config["rope_parameters"]["rope_type"] = "yarn".into(), "yarn");
    with(|config| config["rope_parameters"]["factor"] = serde_json::Value::Null, "lacks factor");
    refused(
        with_config(&fixture("qwen2"), |config| config["tie_word_embeddings"] = false.into()).path(),
        "lm_head.weight",
    );
    refused(tempfile::tempdir().unwrap().path(), "neither config.json nor a GGUF file");
    refused(Path::new("nowhere.gguf"), "nowhere.gguf");
}

/// A fixture's GGUF file with the bytes after a key changed.
fn with_value(name: &str, key: &str, value: &[u8]) -> tempfile::TempDir {
    let mut bytes = fs::read(fixture(name).join("model.gguf")).unwrap();
    let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap() + key.len() + 4;
    bytes[at..at + value.len()].copy_from_slice(value);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("model.gguf"), bytes).unwrap();
    dir
}

#[test]
fn a_gguf_file_that_does_not_fit_is_refused_by_name() {
    let with = |key: &str, value: u32, because: &str| {
        refused(with_value("llama_gguf", key, &value.to_le_bytes()).path(), because);
    };
    with("llama.block_count", 3, "blk.2.attn_norm.weight: missing");
    with("llama.block_count", 1, "the architecture has no such tensor");
    with("llama.feed_forward_length", 96, "blk.0.ffn_gate.weight: has shape [64, 256]");
    with("llama.attention.head_count", 0, "number of heads is 0");
    with("llama.attention.head_count_kv", 3, "no multiple of 3");
    with("llama.embedding_length", 512, "token_embd.weight");
    with("llama.block_count", u32::MAX, "number of layers");
    with("tokenizer.ggml.eos_token_id", 100_000, "end token 100000");
    let name = |value: &[u8], because: &str| {
        let value = [&(value.len() as u64).to_le_bytes(), value].concat();
        refused(with_value("llama_gguf", "tokenizer.ggml.pre", &value).path(), because);
    };
    name(b"gpt-22", "tokenizer \"gpt-22\" is not supported");
    // Cut at every block of the data.
    let bytes = fs::read(fixture("qwen3_gguf").join("model.gguf")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::write(&path, &bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for length in (0..bytes.len() - 32).rev().step_by(1009) {
        file.set_len(length as u64).unwrap();
        let error =
            ChatModel::load(dir.path()).err().unwrap_or_else(|| panic!("accepted with {length} bytes")).to_string();
        assert!(error.contains("truncated") || error.contains("not a GGUF file"), "{length} bytes: {error}");
    }
}
