//! Files of PyTorch: those that `torch.save` wrote, and the same damaged in every way that could be found.

use std::fs;
use std::path::{Path, PathBuf};

use auricle_engine::unstable::weights::{pytorch, read_only_tensor};
use safetensors::Dtype;
use tempfile::TempDir;

fn weights() -> PathBuf {
    auricle_tests::fixtures().join("kokoro/kokoro-v1_0.pth")
}

fn voice() -> PathBuf {
    auricle_tests::fixtures().join("kokoro/voices/af_ann.pt")
}

/// A file of these bytes.
fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pt");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn error(path: &Path) -> String {
    pytorch::open(path).map(drop).unwrap_err()
}

/// The place of the pickle in an archive's bytes, found by its first instruction and its first key.
fn pickle_start(bytes: &[u8]) -> usize {
    bytes.windows(2).position(|pair| pair == [0x80, 2]).unwrap()
}

#[test]
fn dictionaries_in_dictionaries_and_single_tensors_are_read() {
    let (_, places) = pytorch::open(&weights()).unwrap();
    let place = places.iter().find(|place| place.name == "bert_encoder.module.weight").unwrap();
    assert_eq!((place.dtype, place.shape.as_slice(), place.bytes), (Dtype::F32, [12, 16].as_slice(), 4 * 12 * 16));
    let (shape, values) = read_only_tensor(&voice()).unwrap();
    assert_eq!((shape.as_slice(), values.len()), ([40, 1, 12].as_slice(), 480));
    // A normal distribution with a deviation of a half.
    let variance = values.iter().map(|value| value * value).sum::<f32>() / 480.0;
    assert!((variance - 0.25).abs() < 0.05, "{variance}");
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_an_error() {
    let bytes = fs::read(voice()).unwrap();
    for count in 0..bytes.len() {
        let (_dir, path) = written(&bytes[..count]);
        assert!(pytorch::open(&path).is_err(), "the first {count} bytes");
    }
    assert!(error(Path::new("/nonexistent.pt")).contains("cannot open"));
    assert!(error(&written(&[0; 100]).1.with_file_name("gone")).contains("cannot open"));
}

#[test]
fn no_change_of_a_byte_makes_it_panic_or_read_past_the_file() {
    let bytes = fs::read(voice()).unwrap();
    for at in 0..bytes.len() {
        for value in [0, 1, b'.', b'(', b't', b'R', b'Q', 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let (_dir, path) = written(&damaged);
            for place in pytorch::open(&path).map(|(_, places)| places).unwrap_or_default() {
                assert!(place.start + place.bytes as u64 <= damaged.len() as u64, "byte {at} as {value}: {place:?}");
            }
        }
    }
}

#[test]
fn names_that_are_no_part_of_a_state_dictionary_are_refused() {
    let bytes = fs::read(voice()).unwrap();
    // As long as the name that it replaces: it would run a command.
    let at = bytes.windows(6).position(|name| name == b"torch\n").unwrap();
    let mut damaged = bytes.clone();
    damaged[at..at + 6].copy_from_slice(b"posix\n");
    let (_dir, path) = written(&damaged);
    assert!(error(&path).contains("names posix."), "{}", error(&path));
    let mut damaged = bytes.clone();
    damaged[pickle_start(&bytes) + 1] = 9;
    let (_dir, path) = written(&damaged);
    assert!(error(&path).contains("version 9"), "{}", error(&path));
    let mut damaged = bytes;
    let start = pickle_start(&damaged);
    damaged[start + 2] = b'i';
    let (_dir, path) = written(&damaged);
    assert!(error(&path).contains("instruction 0x69"), "{}", error(&path));
}

#[test]
fn a_pickle_of_nothing_but_nesting_ends_in_an_error() {
    // An archive of one stored record: a local header, the pickle, the directory and its end.
    let archive = |pickle: &[u8]| {
        let (name, size) = (b"a/data.pkl", (pickle.len() as u32).to_le_bytes());
        let lengths = [(name.len() as u16).to_le_bytes(), [0; 2]].concat();
        let mut bytes = [b"PK\x03\x04".as_slice(), &[0; 14], &size, &size, &lengths, name, pickle].concat();
        let start = (bytes.len() as u32).to_le_bytes();
        let entry = [b"PK\x01\x02".as_slice(), &[0; 16], &size, &size, &lengths, &[0; 14], name].concat();
        bytes.extend(&entry);
        bytes.extend([b"PK\x05\x06".as_slice(), &[0; 4], &[1, 0, 1, 0]].concat());
        bytes.extend([(entry.len() as u32).to_le_bytes(), start].concat());
        bytes.extend([0; 2]);
        bytes
    };
    let read = |pickle: &[u8]| pytorch::open(&written(&archive(pickle)).1).map(|(_, places)| places);
    assert_eq!(read(b"\x80\x02}."), Ok(Vec::new()));
    // Tuples in tuples, marks, and dictionaries that hold themselves.
    let tuples = [b"\x80\x02)".as_slice(), &[0x85; 1_000_000], b"."].concat();
    assert_eq!(read(&tuples), Ok(Vec::new()));
    assert!(read(&[b"\x80\x02".as_slice(), &[b'('; 2_000_000], b"."].concat()).unwrap_err().contains("too deep"));
    let itself = b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.";
    assert!(read(itself).unwrap_err().contains("nested more than"));
    for bad in [
        b"\x80\x02s.".as_slice(),
        b"\x80\x02.",
        b"\x80\x02u.",
        b"\x80\x02Nq\x00h\x01.",
        b"\x80\x02NNR.",
        b"",
        b"\x80\x02NQ.",
    ] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
}
