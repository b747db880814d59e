//! Arbitrary bytes are a checkpoint file of each kind that users bring, or are refused in one line that names the file, and do no harm.

#![no_main]

use std::path::Path;

use auricle_engine::unstable::models::decoder::ChatModel;
use auricle_engine::unstable::models::smart_turn::SmartTurn;
use auricle_engine::unstable::models::whisper::Whisper;
use auricle_engine::unstable::weights::ctranslate2::Ct2File;
use auricle_engine::unstable::weights::gguf::Gguf;
use auricle_engine::unstable::weights::whisper_cpp::GgmlFile;
use auricle_engine::unstable::weights::{most_bytes, pytorch, read_only_tensor};
use auricle_engine::{Error, Precision};
use libfuzzer_sys::fuzz_target;

/// A refusal is one line, and names the file or the tensor at fault.
fn refused(error: &Error, path: &Path) {
    let text = error.to_string();
    let is_named = match error {
        Error::Weights { .. } => true,
        _ => text.contains(&*path.to_string_lossy()),
    };
    assert!(is_named && !text.contains('\n'), "{text:?}");
}

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    if bytes.starts_with(b"GGUF") {
        let path = at("model.gguf");
        match Gguf::open(&path) {
            Ok(file) => {
                for name in file.names() {
                    let info = file.tensor(name).expect("it is listed");
                    let stored = file.bytes(name).expect("it is within the file");
                    assert_eq!(info.kind.unpack(&stored).len(), info.shape.iter().product::<usize>(), "{name}");
                }
            }
            Err(error) => refused(&error, &path),
        }
        if let Err(error) = ChatModel::load(&path) {
            refused(&error, &path);
        }
    } else if bytes.starts_with(b"PK") {
        let path = at("voice.pt");
        match pytorch::open(&path) {
            Ok((_, places)) => {
                for place in places {
                    assert!(place.start + place.bytes as u64 <= bytes.len() as u64, "{place:?}");
                }
            }
            Err(reason) => assert!(!reason.contains('\n'), "{reason:?}"),
        }
        if let Err(error) = read_only_tensor(&path) {
            refused(&error, &path);
        }
    } else if bytes.starts_with(b"lmgg") {
        let path = at("ggml-tiny.bin");
        if let Ok(file) = GgmlFile::open(&path) {
            // A value takes at least half a byte.
            assert!(file.parameters() <= 2 * bytes.len(), "{} values", file.parameters());
            assert_eq!(most_bytes(&path), 4 * file.parameters() as u64);
        }
        // No file of this size is a whole network.
        match Whisper::load(&path, &Default::default()) {
            Ok(_) => assert!(bytes.len() > 1 << 20),
            Err(error) => refused(&error, &path),
        }
    } else if bytes.starts_with(&6u32.to_le_bytes()) {
        let path = at("model.bin");
        if let Ok(file) = Ct2File::open(&path) {
            assert!(file.parameters() <= bytes.len(), "{} values", file.parameters());
            for (name, variable) in file.variables() {
                assert_eq!(file.bytes(name).expect("it is within the file").len(), variable.bytes);
                if let Ok(tensor) = file.tensor(name) {
                    let stored = file.bytes(name).expect("it is within the file");
                    let values = tensor.stored.unpack(&stored).expect("it is a float");
                    assert_eq!(values.len(), tensor.shape.iter().product::<usize>(), "{name}");
                }
            }
        }
        // The folder has no list of tokens.
        let error = Whisper::load(folder.path(), &Default::default()).err().expect("no network");
        refused(&error, folder.path());
    } else {
        let path = at("voice.safetensors");
        if let Err(error) = read_only_tensor(&path) {
            refused(&error, &path);
        }
        let path = at("model.onnx");
        if let Err(error) = SmartTurn::load(&path, &Default::default(), Precision::F32) {
            refused(&error, &path);
        }
    }
});
