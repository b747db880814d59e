//! The forms that a checkpoint comes in: the published folder, a file of whisper.cpp, a folder of CTranslate2.
//!
//! Each gives the same three parts: a tokenizer, a configuration, and tensors under their published names.

mod byte_pairs;
mod ctranslate2;
mod unwritten;
mod whisper_cpp;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde::Deserialize;
use tokenizers::Tokenizer;

use super::config::Config;
use crate::error::{Error, Result};
use crate::weights::ctranslate2::Ct2File;
use crate::weights::{Weights, whisper_cpp::MAGIC};

/// The file of CTranslate2's folders.
const CT2_FILE: &str = "model.bin";

/// The parts of a checkpoint.
pub struct Parts {
    /// Tokens of text and others.
    pub tokenizer: Tokenizer,
    /// Sizes and rules.
    pub config: Config,
    /// Tensors under their published names.
    pub weights: Weights,
}

/// A Whisper checkpoint in one of the forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder of the published class, its weights in safetensors or GGUF.
    Published(PathBuf),
    /// A file of whisper.cpp.
    WhisperCpp(PathBuf),
    /// A folder of CTranslate2, of Whisper or of another network.
    CTranslate2(PathBuf),
}

impl Form {
    /// The form of a file or folder; none for a folder that is no checkpoint of this family.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file of no form that is known, and a folder with several files of whisper.cpp.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        if path.is_file() { Self::of_file(path).map(Some) } else { Self::of_folder(path) }
    }

    fn of_file(path: &Path) -> Result<Self> {
        let bad = |reason: &str| Error::Checkpoint { path: path.to_path_buf(), reason: reason.into() };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match first_bytes(path) {
            Some(magic) if &magic == b"GGUF" || path.extension().is_some_and(|end| end == "safetensors") => {
                match is_published(folder) {
                    true => Ok(Self::Published(folder.to_path_buf())),
                    false => Err(bad("its folder has no config.json of Whisper, which tells its sizes")),
                }
            }
            Some(_) if Ct2File::is_at(path) => match path.file_name().is_some_and(|name| name == CT2_FILE) {
                true => Ok(Self::CTranslate2(folder.to_path_buf())),
                false => Err(bad("a model of CTranslate2 is a folder, and its file is named model.bin")),
            },
            // The reader names other files that begin alike, or as older forms of ggml do.
            Some(magic) if magic == MAGIC || path.extension().is_some_and(|end| end == "bin") => {
                Ok(Self::WhisperCpp(path.to_path_buf()))
            }
            _ => Err(bad(
                "no checkpoint file that is known: neither of whisper.cpp, nor GGUF, nor CTranslate2's model.bin",
            )),
        }
    }

    fn of_folder(dir: &Path) -> Result<Option<Self>> {
        let published = is_published(dir);
        if published && Weights::are_in(dir) {
            return Ok(Some(Self::Published(dir.to_path_buf())));
        }
        if Ct2File::is_at(&dir.join(CT2_FILE)) {
            return Ok(Some(Self::CTranslate2(dir.to_path_buf())));
        }
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ggml = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "bin") && first_bytes(path).is_some_and(|magic| magic == MAGIC)
        };
        let mut files: Vec<PathBuf> = entries.filter(is_ggml).collect();
        match files.len() {
            // The loader of the published form reports what it lacks.
            0 => Ok(published.then(|| Self::Published(dir.to_path_buf()))),
            1 => Ok(files.pop().map(Self::WhisperCpp)),
            count => {
                let reason = format!("has {count} files of whisper.cpp; name one of them");
                Err(Error::Checkpoint { path: dir.to_path_buf(), reason })
            }
        }
    }

    /// Opens the checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn open(&self, device: &Device) -> Result<Parts> {
        match self {
            Self::Published(dir) => {
                let tokenizer = read_tokenizer(&dir.join("tokenizer.json"))?;
                let config = Config::read(dir, &tokenizer)?;
                let weights = Weights::open(dir, device)?;
                Ok(Parts { tokenizer, config, weights })
            }
            Self::WhisperCpp(path) => whisper_cpp::open(path, device),
            Self::CTranslate2(dir) => ctranslate2::open(dir, &dir.join(CT2_FILE), device),
        }
    }

    /// The file or folder that is read.
    pub fn path(&self) -> &Path {
        match self {
            Self::Published(path) | Self::WhisperCpp(path) | Self::CTranslate2(path) => path,
        }
    }
}

/// The first bytes of a file that has so many.
fn first_bytes(path: &Path) -> Option<[u8; 4]> {
    let mut bytes = [0; 4];
    File::open(path).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// True for a folder whose `config.json` is of the published class.
fn is_published(dir: &Path) -> bool {
    #[derive(Deserialize)]
    struct Family {
        model_type: Option<String>,
    }
    let text = std::fs::read_to_string(dir.join("config.json")).ok();
    let family = text.and_then(|text| serde_json::from_str::<Family>(&text).ok());
    family.and_then(|family| family.model_type).is_some_and(|name| name == "whisper")
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    Tokenizer::from_file(path).map_err(|error| bad(error.to_string()))
}
