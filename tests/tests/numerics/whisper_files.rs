//! Whisper's files in other forms that are cut, damaged, of another layout or of another family: each is refused by what is wrong with it.

use std::fs;
use std::path::PathBuf;

use auricle_engine::check_model;
use auricle_engine::unstable::models::whisper::Whisper;
use burn::tensor::Device;
use tempfile::TempDir;

use super::whisper_forms::{fixture, gguf_folder, load, refused};

/// A file of whisper.cpp in parts, to be put together otherwise.
struct Ggml {
    /// Magic number, sizes, filters.
    head: Vec<u8>,
    tokens: Vec<Vec<u8>>,
    /// Name and everything of each tensor.
    tensors: Vec<(String, Vec<u8>)>,
}

impl Ggml {
    fn open() -> Self {
        let bytes = fs::read(fixture("ggml-f16.bin")).unwrap();
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let mut at = 56 + 4 * number(48) * number(52);
        let (head, count) = (bytes[..at].to_vec(), number(at));
        at += 4;
        let mut tokens = Vec::new();
        for _ in 0..count {
            tokens.push(bytes[at + 4..at + 4 + number(at)].to_vec());
            at += 4 + number(at);
        }
        let mut tensors = Vec::new();
        while at < bytes.len() {
            let (dimensions, length, kind) = (number(at), number(at + 4), number(at + 8));
            let values: usize = (0..dimensions).map(|place| number(at + 12 + 4 * place)).product();
            let name = at + 12 + 4 * dimensions;
            let end = name + length + values * [4, 2][kind];
            let own = String::from_utf8(bytes[name..name + length].to_vec()).unwrap();
            tensors.push((own, bytes[at..end].to_vec()));
            at = end;
        }
        Self { head, tokens, tensors }
    }

    /// Sets a size, counted after the magic number.
    fn set(mut self, at: usize, value: u32) -> Self {
        self.head[4 + 4 * at..][..4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend((self.tokens.len() as u32).to_le_bytes());
        for token in &self.tokens {
            bytes.extend((token.len() as u32).to_le_bytes());
            bytes.extend(token);
        }
        bytes.extend(self.tensors.iter().flat_map(|(_, tensor)| tensor));
        bytes
    }

    /// Where each block of the file ends.
    fn ends(&self) -> Vec<usize> {
        let mut ends: Vec<usize> = (0..=13).map(|word| 4 * word).collect();
        ends.push(self.head.len());
        let mut at = self.head.len() + 4;
        for token in &self.tokens {
            at += 4 + token.len();
        }
        ends.push(at);
        for (_, tensor) in &self.tensors {
            at += tensor.len();
            ends.push(at);
        }
        ends
    }
}

/// One file that is written again and again.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join("ggml-tiny.bin");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn refused(&self, bytes: &[u8], because: &str) {
        refused(&self.write(bytes), because);
    }
}

#[test]
fn a_file_of_whisper_cpp_is_refused_wherever_it_is_cut() {
    let scratch = Scratch::new();
    let (whole, bytes) = (Ggml::open(), Ggml::open().bytes());
    assert_eq!(bytes, fs::read(fixture("ggml-f16.bin")).unwrap());
    let ends = whole.ends();
    for end in &ends[..ends.len() - 1] {
        for cut in [end.saturating_sub(1), *end, end + 1] {
            let path = scratch.write(&bytes[..cut]);
            let error =
                Whisper::load(&path, &Device::flex()).err().unwrap_or_else(|| panic!("accepted with {cut} bytes"));
            let text = error.to_string();
            let expected = ["truncated", "not a ggml file", "no checkpoint file", "missing", "no layout"];
            assert!(expected.iter().any(|part| text.contains(part)), "{cut} bytes: {text}");
        }
    }
}

#[test]
fn a_damaged_file_of_whisper_cpp_names_its_fault() {
    let scratch = Scratch::new();
    let lost = |name: &str| {
        let mut file = Ggml::open();
        file.tensors.retain(|(own, _)| own != name);
        file.bytes()
    };
    scratch.refused(
        &lost("decoder.blocks.1.cross_attn.key.weight"),
        "model.decoder.layers.1.encoder_attn.k_proj.weight: missing",
    );
    scratch.refused(&lost("encoder.ln_post.bias"), "model.encoder.layer_norm.bias: missing");
    let mut twice = Ggml::open();
    twice.tensors.push(twice.tensors[3].clone());
    scratch.refused(&twice.bytes(), "is in the file twice");
    let mut renamed = Ggml::open();
    let (name, tensor) = renamed.tensors.iter_mut().find(|(name, _)| name == "decoder.ln.bias").unwrap();
    let at = tensor.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
    tensor[at + name.len() - 1] = b'z';
    scratch.refused(&renamed.bytes(), "decoder.layer_norm.bias: missing");
    let more = renamed.tensors.iter().find(|(name, _)| name == "decoder.ln.bias").unwrap().clone();
    let mut extra = Ggml::open();
    extra.tensors.push(more);
    scratch.refused(
        &extra.bytes(),
        "checkpoint tensor decoder.ln.biaz: the architecture has no such tensor (1 left over in all)",
    );
    let mut kind = Ggml::open();
    kind.tensors[0].1[8] = 10;
    scratch.refused(&kind.bytes(), "has type number 10; supported are F32");
    // A lie about a length is compared with the file before memory is taken.
    let mut long = Ggml::open().bytes();
    let tokens = Ggml::open().head.len();
    long[tokens..tokens + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    scratch.refused(&long, "truncated");
    let quantised = fs::read(fixture("ggml-mixed.bin")).unwrap();
    let old = [&quantised[..44], &8u32.to_le_bytes(), &quantised[48..]].concat();
    scratch.refused(&old, "quantise the file again");
    scratch.refused(&Ggml::open().set(0, 2_500).bytes(), "no layout of Whisper");
    scratch.refused(&Ggml::open().set(4, 900).bytes(), "missing");
}

#[test]
fn files_of_other_families_are_named() {
    let scratch = Scratch::new();
    for magic in [b"tjgg", b"fmgg", b"algg"] {
        scratch.refused(&[&magic[..], &[0; 60]].concat(), "a ggml file of a language model in a form before GGUF");
    }
    // LLaMA's sizes in the first form: vocabulary, width, multiple, heads, layers, rotation, type.
    let llama = [32_000u32, 4096, 256, 32, 32, 128, 2, 0, 0, 0, 0, 0, 0];
    let llama: Vec<u8> = b"lmgg".iter().copied().chain(llama.iter().flat_map(|size| size.to_le_bytes())).collect();
    scratch.refused(&llama, "sizes are not those of Whisper: it is of another family");
    let detector = [&b"lmgg"[..], &10u32.to_le_bytes(), b"silero-16k", &[0; 40]].concat();
    scratch.refused(&detector, "of another network, \"sile...\"");
    scratch.refused(b"PK\x03\x04 a state of PyTorch", "not a ggml file of whisper.cpp");
    let llama = auricle_tests::fixtures().join("decoder/llama_gguf/model.gguf");
    refused(&llama, "no config.json of Whisper");
    assert_eq!(check_model(&llama).unwrap().class, "LlamaForCausalLM");
}

/// English alone, and large-v3's layout with a hundred languages: what follows the tokens of text is as many tokens.
#[test]
fn layouts_of_vocabularies_follow_from_their_sizes() {
    let embeddings = |mut file: Ggml, rows: usize| {
        let (_, tensor) = file.tensors.iter_mut().find(|(name, _)| name == "decoder.token_embedding.weight").unwrap();
        let name = tensor.len() - 2 * 32 * (u32::from_le_bytes(tensor[16..20].try_into().unwrap()) as usize);
        tensor[16..20].copy_from_slice(&(rows as u32).to_le_bytes());
        tensor.resize(name + 2 * 32 * rows, 0);
        file.set(0, rows as u32)
    };
    let scratch = Scratch::new();
    let tokens = Ggml::open().tokens.len();
    let others = |languages: usize| 2 + languages + 6 + 1501;
    let mut english = Ggml::open();
    assert_eq!(english.tokens.pop(), Some(Vec::new()));
    let english = load(&scratch.write(&embeddings(english, tokens - 1 + others(99)).bytes()));
    let special = &english.config().special;
    assert!(special.languages.is_empty() && special.transcribe.is_none() && special.translate.is_none());
    let end = tokens as u32 - 1;
    assert_eq!((special.end, special.start, special.no_timestamps), (end, end + 1, end + 106));
    let large = load(&scratch.write(&embeddings(Ggml::open(), tokens + others(100)).bytes()));
    let special = &large.config().special;
    let last = tokens as u32 + 101;
    assert_eq!((special.languages.len(), special.languages["yue"], special.transcribe), (100, last, Some(last + 2)));
    // A file that has the end of the text among the tokens of text.
    let mut end = Ggml::open();
    end.tokens.push(b"<|endoftext|>".to_vec());
    let end = load(&scratch.write(&end.bytes()));
    assert_eq!(end.config().special, load(&fixture("published")).config().special);
    scratch.refused(&embeddings(Ggml::open(), tokens + others(101)).bytes(), "no layout of Whisper");
}

fn ct2_copy(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn a_file_of_ctranslate2_is_refused_wherever_it_is_cut() {
    let folder = ct2_copy("ct2-int8");
    let path = folder.path().join("model.bin");
    let bytes = fs::read(&path).unwrap();
    // Every length of the head and of the names at the end, and a sample of those between.
    let cuts = (0..400).chain((400..bytes.len()).step_by(997)).chain(bytes.len() - 80..bytes.len());
    for cut in cuts {
        fs::write(&path, &bytes[..cut]).unwrap();
        let error = Whisper::load(folder.path(), &Device::flex()).err();
        let text = error.unwrap_or_else(|| panic!("accepted with {cut} bytes")).to_string();
        let expected = ["truncated", "config.json", "tokenizer.json"];
        assert!(expected.iter().any(|part| text.contains(part)), "{cut} bytes: {text}");
    }
    fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
    refused(folder.path(), "the file goes on behind its end");
}

#[test]
fn a_damaged_folder_of_ctranslate2_names_its_fault() {
    let folder = ct2_copy("ct2-int8");
    let path = folder.path().join("model.bin");
    let bytes = fs::read(&path).unwrap();
    let change = |from: &[u8], to: &[u8]| {
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let changed = [&bytes[..at], to, &bytes[at + from.len()..]].concat();
        fs::write(&path, changed).unwrap();
    };
    change(&6u32.to_le_bytes(), &5u32.to_le_bytes());
    refused(folder.path(), "version 5 of CTranslate2's form; version 6 is supported");
    change(b"WhisperSpec", b"TransfoSpec");
    refused(folder.path(), "a model of CTranslate2 for another network, TransfoSpec; WhisperSpec is supported");
    change(b"layer_0/ffn/linear_1/bias", b"layer_0/ffn/linear_9/bias");
    refused(folder.path(), "model.decoder.layers.0.fc2.bias: missing");
    change(b"encoder/layer_norm/gamma", b"encoder/layer_nirm/gamma");
    refused(folder.path(), "model.encoder.layer_norm.weight: missing");
    change(b"ffn/linear_0/weight_scale", b"ffn/linear_0/weight_scole");
    refused(folder.path(), "does not have a scale for each row");
    change(b"decoder/projection/weight\0", b"decoder/projektion/weight\0");
    refused(folder.path(), "decoder/projektion/weight: the architecture has no such tensor");
    fs::write(&path, &bytes).unwrap();
    fs::remove_file(folder.path().join("vocabulary.txt")).unwrap();
    refused(folder.path(), "vocabulary.txt");
    fs::copy(fixture("published").join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let with_tokenizer = load(folder.path());
    // Without settings beside it the rules are the published ones, which the fixture states too.
    fs::remove_file(folder.path().join("config.json")).unwrap();
    assert_eq!(format!("{:?}", load(folder.path()).config()), format!("{:?}", with_tokenizer.config()));
    fs::write(folder.path().join("config.json"), r#"{"alignment_heads": [[9, 0]], "lang_ids": []}"#).unwrap();
    assert_eq!(load(folder.path()).config().alignment_heads.len(), 4);
}

#[test]
fn a_missing_shard_is_named() {
    let folder = gguf_folder();
    let second = folder.path().join("model-00002-of-00002.gguf");
    let bytes = fs::read(&second).unwrap();
    fs::remove_file(&second).unwrap();
    refused(folder.path(), "shard 2 of 2 is missing");
    refused(folder.path(), "model-00002-of-00002.gguf");
    fs::copy(folder.path().join("model-00001-of-00002.gguf"), &second).unwrap();
    refused(folder.path(), "it is not shard 2 of 2, as its name has it");
    fs::write(&second, &bytes[..bytes.len() / 2]).unwrap();
    refused(folder.path(), "truncated");
    // One file of all tensors needs no shards.
    fs::write(&second, &bytes).unwrap();
    fs::rename(&second, folder.path().join("model.gguf")).unwrap();
    refused(folder.path(), "shard 2 of 2 is named NAME-00002-of-00002.gguf");
}
