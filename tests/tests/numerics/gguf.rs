//! The GGUF reader against the `gguf` package: metadata, every block type bit for bit, and files that are
//! cut short or lie.

use std::fs;
use std::path::{Path, PathBuf};

use auricle_engine::unstable::models::decoder::ChatModel;
use auricle_engine::unstable::weights::gguf::{BlockType, Gguf, Value};
use auricle_engine::unstable::weights::most_bytes;
use auricle_tests::Oracle;
use burn::tensor::Device;
use tempfile::TempDir;

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("gguf")
}

fn published() -> Vec<u8> {
    fs::read(fixture().join("types.gguf")).unwrap()
}

/// One file that is written again and again.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The reader's answer to these bytes.
    fn open(&self, bytes: &[u8]) -> Result<Gguf, String> {
        let path = self.0.path().join("model.gguf");
        fs::write(&path, bytes).unwrap();
        Gguf::open(&path).map_err(|error| error.to_string())
    }

    fn refused(&self, bytes: &[u8], because: &str) {
        let error = self.open(bytes).err().unwrap_or_else(|| panic!("accepted; expected: {because}"));
        assert!(error.contains(because), "{error}; expected: {because}");
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// A tensor's entry: dimensions with the contiguous one first, type number, offset into the data.
fn entry(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let sizes: Vec<u8> = dimensions.iter().flat_map(|size| size.to_le_bytes()).collect();
    let count = (dimensions.len() as u32).to_le_bytes();
    [&text(name)[..], &count, &sizes, &kind.to_le_bytes(), &offset.to_le_bytes()].concat()
}

fn integer(key: &str, value: u32) -> Vec<u8> {
    [&text(key)[..], &4u32.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// A file of these entries with 64 bytes of data.
fn file(version: u32, values: &[Vec<u8>], tensors: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((values.len() as u64).to_le_bytes());
    bytes.extend(values.concat());
    bytes.extend(tensors.concat());
    bytes.resize(bytes.len().next_multiple_of(32) + 64, 0);
    bytes
}

#[test]
fn every_block_type_unpacks_to_the_reference_bit_for_bit() {
    let oracle = Oracle::open(&fixture());
    let file = Gguf::open(&fixture().join("types.gguf")).unwrap();
    assert_eq!(file.names().count(), BlockType::ALL.len());
    for kind in BlockType::ALL {
        let name = format!("{kind:?}");
        let info = file.tensor(&name).unwrap();
        assert_eq!((info.kind, &info.shape[..]), (kind, &[3, 512][..]), "{name}");
        let ours = kind.unpack(&file.bytes(&name).unwrap());
        let theirs = Oracle::values(oracle.tensor::<2>(&name, &Device::flex()));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (at, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(a.to_bits(), b.to_bits(), "{name}, value {at}: {a:e} against {b:e}");
        }
    }
}

#[test]
fn metadata_has_the_values_that_were_written() {
    let check = |file: Gguf| {
        let expect = |key: &str, value: Value| assert_eq!(file.value(key), Some(&value), "{key}");
        expect("general.architecture", Value::Text("llama".into()));
        expect("llama.context_length", Value::Integer(2048));
        expect("llama.attention.layer_norm_rms_epsilon", Value::Float(f64::from(1e-5f32)));
        expect("test.large", Value::Integer(1 << 40));
        expect("test.negative", Value::Integer(-3));
        expect("test.double", Value::Float(0.1));
        expect("test.yes", Value::Bool(true));
        expect("test.words", Value::Texts(vec!["a".into(), "é".into(), String::new()]));
        expect("test.numbers", Value::Integers(vec![1, -2, 3]));
        expect("test.scores", Value::Floats(vec![0.5, -1.5]));
        assert_eq!(file.value("test.absent"), None);
    };
    let mut bytes = published();
    check(Scratch::new().open(&bytes).unwrap());
    // Version 2 has the same layout.
    bytes[4] = 2;
    check(Scratch::new().open(&bytes).unwrap());
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let scratch = Scratch::new();
    let bytes = published();
    let last = scratch.open(&bytes).unwrap().bytes("Q6_K").unwrap().len();
    let needed = bytes.len() - (last.next_multiple_of(32) - last);
    scratch.open(&bytes[..needed]).unwrap();
    let path = scratch.0.path().join("model.gguf");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for length in (0..needed).rev() {
        file.set_len(length as u64).unwrap();
        let error = Gguf::open(&path).err().unwrap_or_else(|| panic!("accepted with {length} bytes")).to_string();
        assert!(error.contains("truncated") || error.contains("not a GGUF file"), "{length} bytes: {error}");
    }
}

/// Every place of the header, length or not, gets numbers that lie.
#[test]
fn a_header_that_lies_is_refused_or_stays_within_the_file() {
    let scratch = Scratch::new();
    let bytes = published();
    // The first tensor's data begins with the values that the script gives it: 0.0, -0.0, 1e-40.
    let data: Vec<u8> = [0.0f32, -0.0, 1e-40].iter().flat_map(|value| value.to_le_bytes()).collect();
    let header = bytes.windows(data.len()).position(|window| window == data).unwrap();
    let lies: [&[u8]; 6] =
        [&[0xff; 8], &[0; 8], &(1u64 << 40).to_le_bytes(), &(i64::MAX as u64).to_le_bytes(), &[0xff], &[9]];
    for at in 0..header {
        for lie in lies {
            let mut bytes = bytes.clone();
            bytes[at..at + lie.len()].copy_from_slice(lie);
            let Ok(file) = scratch.open(&bytes) else { continue };
            for name in file.names() {
                let stored = file.bytes(name).unwrap();
                assert!(stored.len() <= bytes.len(), "{name}: {} bytes", stored.len());
                let info = file.tensor(name).unwrap();
                assert_eq!(info.kind.unpack(&stored).len(), info.shape.iter().product::<usize>(), "{name}");
            }
        }
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let scratch = Scratch::new();
    let one = |entry: Vec<u8>| file(3, &[], &[entry]);
    scratch.open(&one(entry("a", &[16], 0, 0))).unwrap();
    scratch.refused(b"GGML0000", "not a GGUF file");
    scratch.refused(&file(1, &[], &[]), "GGUF version 1; versions 2 and 3 are supported");
    scratch.refused(&file(4, &[], &[]), "GGUF version 4");
    scratch.refused(&file(3u32.swap_bytes(), &[], &[]), "big-endian");
    scratch.refused(&one(entry("a", &[256], 10, 0)), "tensor a: has type number 10; supported are F32");
    scratch.refused(&one(entry("a", &[30], 2, 0)), "30 values in a row are no multiple of Q4_0's 32");
    scratch.refused(&one(entry("a", &[1; 5], 0, 0)), "has 5 dimensions");
    scratch.refused(&one(entry("a", &[16, 0], 0, 0)), "has a dimension of no size");
    scratch.refused(&one(entry("a", &[1 << 40, 1 << 40], 0, 0)), "is too large");
    scratch.refused(&one(entry("a", &[17], 0, 0)), "truncated: tensor a ends past the end of the file");
    scratch.refused(&one(entry("a", &[1], 0, u64::MAX - 31)), "truncated: tensor a");
    scratch.refused(&one(entry("a", &[1], 0, 4)), "does not begin at a multiple of 32 bytes");
    scratch.refused(&file(3, &[], &[entry("a", &[1], 0, 0), entry("a", &[1], 0, 0)]), "tensor a is in the file twice");
    scratch.refused(&file(3, &[integer("k", 1), integer("k", 1)], &[]), "k is in the file twice");
    scratch.refused(&file(3, &[integer("general.alignment", 24)], &[]), "is not a small power of two");
    let value = |kind: u32, rest: &[u8]| file(3, &[[&text("k")[..], &kind.to_le_bytes(), rest].concat()], &[]);
    scratch.refused(&value(13, &[]), "k: value type 13 is not known");
    scratch.refused(&value(9, &9u32.to_le_bytes()), "k: an array of value type 9 is not supported");
    scratch.refused(&value(8, &[&1u64.to_le_bytes()[..], &[0xff]].concat()), "k: a string is not UTF-8");
    scratch.refused(&value(10, &u64::MAX.to_le_bytes()), "k: an integer is larger than 2^63");
}

/// Where a value of the metadata ends.
fn end_of_value(bytes: &[u8], at: usize, kind: u32) -> usize {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    match kind {
        0 | 1 | 7 => at + 1,
        2 | 3 => at + 2,
        4..=6 => at + 4,
        8 => at + 8 + long(at),
        9 => {
            let of = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            (0..long(at + 4)).fold(at + 12, |at, _| end_of_value(bytes, at, of))
        }
        _ => at + 8,
    }
}

/// The shards of a file, as llama.cpp splits it: the first has the metadata, each some of the tensors.
fn shards(path: &Path, count: u32) -> Vec<Vec<u8>> {
    let (whole, bytes) = (Gguf::open(path).unwrap(), fs::read(path).unwrap());
    let values = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    let end = (0..values).fold(24, |at, _| {
        let key = at + 8 + u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        end_of_value(&bytes, key + 4, u32::from_le_bytes(bytes[key..key + 4].try_into().unwrap()))
    });
    let names: Vec<&str> = whole.names().collect();
    let parts: Vec<&[&str]> = names.chunks(names.len().div_ceil(count as usize)).collect();
    assert_eq!(parts.len(), count as usize);
    let shard = |(number, part): (u32, &&[&str])| {
        let mark = [
            integer("split.no", number),
            integer("split.count", count),
            integer("split.tensors.count", names.len() as u32),
        ];
        let (own, mark) = (if number == 0 { &bytes[24..end] } else { &[] }, mark.concat());
        let count = 3 + if number == 0 { values } else { 0 };
        let mut shard = [b"GGUF", &3u32.to_le_bytes()[..]].concat();
        shard.extend((part.len() as u64).to_le_bytes().into_iter().chain(count.to_le_bytes()));
        shard.extend([own, &mark].concat());
        let mut data = Vec::new();
        for name in *part {
            let info = whole.tensor(name).unwrap();
            let sizes: Vec<u64> = info.shape.iter().rev().map(|size| *size as u64).collect();
            let kind = (0..31).find(|number| BlockType::from_number(*number) == Ok(info.kind)).unwrap();
            shard.extend(entry(name, &sizes, kind, data.len() as u64));
            data.extend(whole.bytes(name).unwrap());
            data.resize(data.len().next_multiple_of(32), 0);
        }
        shard.resize(shard.len().next_multiple_of(32), 0);
        shard.extend(data);
        shard
    };
    (0..count).zip(&parts).map(shard).collect()
}

#[test]
fn the_first_shard_opens_the_others() {
    let path = auricle_tests::fixtures().join("decoder/qwen3_gguf/model.gguf");
    let (whole, folder) = (Gguf::open(&path).unwrap(), tempfile::tempdir().unwrap());
    let at = |number: u32| folder.path().join(format!("qwen-Q8_0-{number:05}-of-00003.gguf"));
    let parts = shards(&path, 3);
    for (number, part) in (1..).zip(&parts) {
        fs::write(at(number), part).unwrap();
    }
    let split = Gguf::open(&at(1)).unwrap();
    assert!(split.names().eq(whole.names()));
    for name in whole.names() {
        assert!(split.bytes(name).unwrap() == whole.bytes(name).unwrap(), "{name}");
    }
    // A language model loads from the first, or from the folder, and its memory is that of all.
    for path in [at(1), folder.path().into()] {
        assert!(ChatModel::is_at(&path));
        assert_eq!(ChatModel::load(&path).unwrap().parameters(), whole.parameters());
        assert_eq!(most_bytes(&path), parts.iter().map(|part| part.len() as u64).sum::<u64>());
    }
    let refused = |path: &Path, because: &str| {
        let error = Gguf::open(path).err().unwrap_or_else(|| panic!("accepted; expected: {because}")).to_string();
        assert!(error.contains(because), "{error}; expected: {because}");
    };
    refused(&at(2), "shard 2 of 3; name the first one, qwen-Q8_0-00001-of-00003.gguf");
    fs::copy(at(1), folder.path().join("other.gguf")).unwrap();
    refused(&folder.path().join("other.gguf"), "shard 1 of 3 is named NAME-00001-of-00003.gguf");
    fs::write(at(3), &parts[1]).unwrap();
    refused(&at(1), "it is not shard 3 of 3, as its name has it");
    fs::remove_file(at(3)).unwrap();
    refused(&at(1), "shard 3 of 3 is missing");
    refused(&at(1), "qwen-Q8_0-00003-of-00003.gguf");
    for length in (0..parts[2].len()).step_by(61) {
        fs::write(at(3), &parts[2][..length]).unwrap();
        let error = Gguf::open(&at(1)).err().unwrap_or_else(|| panic!("accepted with {length} bytes")).to_string();
        assert!(error.contains("00003-of-00003"), "{length} bytes: {error}");
    }
}
