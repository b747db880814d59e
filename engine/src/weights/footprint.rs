//! The memory that a checkpoint takes, before it is loaded.

use std::path::{Path, PathBuf};

use super::ctranslate2::Ct2File;
use super::gguf::Gguf;
use super::gguf::shards::is_later_shard;
use super::safetensors_file::open_file;
use super::whisper_cpp::GgmlFile;

/// Levels of folders below one: a voice has a folder for each of its parts.
const LEVELS: usize = 1;
/// Ends of the names of files with weights.
const ENDS: [&str; 6] = ["safetensors", "gguf", "onnx", "pth", "pt", "bin"];

/// Bytes that the weights of a file, or of the files below a folder, take at most once they are loaded: four for each value of a
/// safetensors file, one of whisper.cpp or CTranslate2, or a GGUF file beside a published `config.json`; four for each byte of an ONNX
/// file; and the size of any other GGUF file, with its shards, or file of PyTorch. Zero where there is none; its loader reports that.
pub fn most_bytes(path: &Path) -> u64 {
    if path.is_dir() {
        return below(path, LEVELS);
    }
    let first = Some(of_file(path));
    let later = path.parent().filter(|_| has_end(path, "gguf")).into_iter().flat_map(files);
    let is_of_it = |other: &PathBuf| is_later_shard(other) && stem(other) == stem(path);
    first.into_iter().chain(later.filter(is_of_it).map(|shard| of_file(&shard))).sum()
}

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// A shard's name without its number and count.
fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    Some(name.rsplit_once("-of-").and_then(|(rest, _)| rest.rsplit_once('-')).map_or(name, |(stem, _)| stem))
}

fn below(folder: &Path, levels: usize) -> u64 {
    let bytes = |path: PathBuf| match path.is_dir() {
        true if levels > 0 => below(&path, levels - 1),
        false if ENDS.iter().any(|end| has_end(&path, end)) => of_file(&path),
        _ => 0,
    };
    files(folder).map(bytes).sum()
}

fn of_file(path: &Path) -> u64 {
    let size = || path.metadata().map_or(0, |metadata| metadata.len());
    let widened = |values: usize| 4 * values as u64;
    match path.extension().and_then(|end| end.to_str()) {
        Some("safetensors") => open_file(path).map_or(0, |(_, metadata, _)| {
            widened(metadata.tensors().values().map(|info| info.shape.iter().product::<usize>()).sum())
        }),
        // Weights of 8 bits in an ONNX file have 32 once they are read.
        Some("onnx") => 4 * size(),
        // Any file of a published folder is unpacked; language models in llama.cpp's form keep their blocks.
        Some("gguf") if path.with_file_name("config.json").is_file() => match Gguf::open_one(path) {
            Ok(file) => widened(file.parameters()),
            Err(_) => 0,
        },
        // PyTorch's own form of a published folder, which lies beside other weights, is never read.
        Some("bin") => match (GgmlFile::open(path), Ct2File::open(path)) {
            (Ok(file), _) => widened(file.parameters()),
            (_, Ok(file)) => widened(file.parameters()),
            _ => 0,
        },
        _ => size(),
    }
}

fn has_end(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|found| found == end)
}
