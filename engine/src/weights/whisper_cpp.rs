//! The files of whisper.cpp, `ggml-*.bin`: sizes, mel filters, the bytes of each token, and tensors, one after another.
//!
//! The file is not trusted: every length is compared with the rest of the file before anything is allocated. It does not
//! state how many tensors it has, so one that ends between two lacks the others, which the model then names.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::bounded::Bounded;
use super::gguf_blocks::BlockType;
use super::{Stored, StoredTensor, Weights};
use crate::error::{Error, Result};

/// The first bytes of a file: "ggml" as a number of 32 bits.
pub const MAGIC: [u8; 4] = *b"lmgg";
/// Later forms of language models' files, and that of their adapters.
const LANGUAGE_MODELS: [[u8; 4]; 3] = [*b"fmgg", *b"tjgg", *b"algg"];
const MAX_DIMENSIONS: usize = 4;
const MAX_NAME: u64 = 256;
/// Longest token: the published ones have up to 128 bytes.
const MAX_TOKEN: u64 = 512;
/// Frequencies of a window of 400 samples, which the mel filters weigh.
const FREQUENCIES: u32 = 201;
/// The type of a file has the version of its quantised types as thousands.
const VERSIONS: u32 = 1000;
/// Largest width or vocabulary that is accepted, many times that of the largest checkpoint.
const LARGEST: u32 = 1 << 20;
/// Most blocks, and heads of a block.
const MOST_BLOCKS: u32 = 1024;

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Tokens with all that are not text.
    pub vocabulary: usize,
    /// Encoder frames of a window.
    pub frames: usize,
    /// Width of a frame and of a token.
    pub size: usize,
    /// Attention heads of the encoder.
    pub encoder_heads: usize,
    /// Blocks of the encoder.
    pub encoder_layers: usize,
    /// Positions of the decoder.
    pub positions: usize,
    /// Attention heads of the decoder.
    pub decoder_heads: usize,
    /// Blocks of the decoder.
    pub decoder_layers: usize,
    /// Mel bins.
    pub mels: usize,
}

/// An open file.
pub struct GgmlFile {
    path: PathBuf,
    file: File,
    sizes: Sizes,
    tokens: Vec<Vec<u8>>,
    tensors: Vec<(String, StoredTensor)>,
}

impl GgmlFile {
    /// Reads all of a file but the values of its tensors.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is not a file of whisper.cpp, is cut short, or has a type that is not supported.
    pub fn open(path: &Path) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let file = File::open(path).map_err(|error| bad(format!("cannot open: {error}")))?;
        let bytes = file.metadata().map_err(|error| bad(error.to_string()))?.len();
        let (sizes, tokens, tensors) = read(&mut Bounded::new(&file, bytes)).map_err(bad)?;
        Ok(Self { path: path.to_path_buf(), file, sizes, tokens, tensors })
    }

    /// The sizes of its network.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The bytes of each token that is text, by their numbers.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// The shape of a tensor, none if it is not there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor.shape.as_slice())
    }

    /// Number of values in all tensors.
    pub fn parameters(&self) -> usize {
        self.tensors.iter().map(|(_, tensor)| tensor.shape.iter().product::<usize>()).sum()
    }

    /// The tensors, by the names that `rename` gives for theirs. A column `[n, 1]`, as biases of convolutions are stored, is a vector.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when two get one name.
    pub fn into_weights(self, device: &Device, rename: impl Fn(&str) -> String) -> Result<Weights> {
        let renamed = self.tensors.into_iter().map(|(name, mut tensor)| {
            if name.ends_with(".bias") && matches!(tensor.shape[..], [_, 1]) {
                tensor.shape.truncate(1);
            }
            (rename(&name), tensor)
        });
        Weights::of_file((&self.path, "whisper.cpp"), self.file, renamed, device)
    }
}

type Contents = (Sizes, Vec<Vec<u8>>, Vec<(String, StoredTensor)>);

fn read(from: &mut Bounded) -> std::result::Result<Contents, String> {
    match from.array::<4>() {
        Ok(MAGIC) => {}
        Ok(magic) if magic == *b"GGUF" => return Err("a GGUF file, not a ggml file of whisper.cpp".into()),
        Ok(magic) if LANGUAGE_MODELS.contains(&magic) => {
            return Err("a ggml file of a language model in a form before GGUF, not one of whisper.cpp".into());
        }
        _ => return Err("not a ggml file of whisper.cpp".into()),
    }
    let mut head = [0u32; 11];
    for at in 0..head.len() {
        head[at] = from.u32()?;
        // The detector of speech has the length of its name here, and the name.
        if at == 1 && head[0] < 64 && head[1].to_le_bytes().iter().all(u8::is_ascii_graphic) {
            let name = String::from_utf8_lossy(&head[1].to_le_bytes()).into_owned();
            return Err(format!("a ggml file of another network, \"{name}...\", not of Whisper"));
        }
    }
    let [
        vocabulary,
        frames,
        size,
        encoder_heads,
        encoder_layers,
        positions,
        width,
        decoder_heads,
        decoder_layers,
        mels,
        kind,
    ] = head;
    let (filters, frequencies) = (from.u32()?, from.u32()?);
    let heads_fit = |heads: u32| (1..=MOST_BLOCKS).contains(&heads) && size.is_multiple_of(heads);
    let is_whisper = head[..10].iter().all(|number| (1..=LARGEST).contains(number))
        && size == width
        && heads_fit(encoder_heads)
        && heads_fit(decoder_heads)
        && encoder_layers.max(decoder_layers) <= MOST_BLOCKS
        && (filters, frequencies) == (mels, FREQUENCIES);
    if !is_whisper {
        return Err("a ggml file whose sizes are not those of Whisper: it is of another family".into());
    }
    from.skip(4 * u64::from(filters) * u64::from(frequencies))?;
    let tokens = (0..from.count(4)?).map(|_| token(from)).collect::<std::result::Result<_, _>>()?;
    let (mut tensors, mut names) = (Vec::new(), BTreeSet::new());
    while !from.is_at_end() {
        let (name, tensor) = tensor(from, kind / VERSIONS)?;
        if !names.insert(name.clone()) {
            return Err(format!("tensor {name} is in the file twice"));
        }
        tensors.push((name, tensor));
    }
    let sizes = Sizes {
        vocabulary: vocabulary as usize,
        frames: frames as usize,
        size: size as usize,
        encoder_heads: encoder_heads as usize,
        encoder_layers: encoder_layers as usize,
        positions: positions as usize,
        decoder_heads: decoder_heads as usize,
        decoder_layers: decoder_layers as usize,
        mels: mels as usize,
    };
    Ok((sizes, tokens, tensors))
}

fn token(from: &mut Bounded) -> std::result::Result<Vec<u8>, String> {
    match u64::from(from.u32()?) {
        length if length <= MAX_TOKEN => from.bytes(length),
        length => Err(format!("a token has {length} bytes")),
    }
}

/// A tensor's name and place; the reader is behind its values then.
fn tensor(from: &mut Bounded, version: u32) -> std::result::Result<(String, StoredTensor), String> {
    let (dimensions, length, kind) = (from.u32()? as usize, u64::from(from.u32()?), from.u32()?);
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) || !(1..=MAX_NAME).contains(&length) {
        return Err(format!("a tensor has {dimensions} dimensions and a name of {length} bytes: the file is damaged"));
    }
    let mut shape = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        shape.push(from.u32()? as usize);
    }
    let name = String::from_utf8(from.bytes(length)?).map_err(|_| "a tensor's name is not UTF-8")?;
    let wrong = |reason: String| format!("tensor {name}: {reason}");
    let kind = BlockType::from_number(kind).map_err(wrong)?;
    if version < first_version(kind) {
        return Err(wrong(format!(
            "{kind:?} of version {version}, which differs from that of today; quantise the file again"
        )));
    }
    // The file has the contiguous dimension first.
    let row = shape[0];
    shape.reverse();
    if !row.is_multiple_of(kind.values()) {
        return Err(wrong(format!("{row} values in a row are no multiple of {kind:?}'s {}", kind.values())));
    }
    let values = shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size)).filter(|values| *values > 0);
    let bytes = values.and_then(|values| (values / kind.values()).checked_mul(kind.bytes()));
    let bytes = bytes.ok_or_else(|| wrong("it has no values, or is too large".into()))?;
    let start = from.at();
    from.skip(bytes as u64).map_err(wrong)?;
    Ok((name, StoredTensor { shape, stored: Stored::Blocks(kind), start, bytes }))
}

/// The version of ggml's quantised types since which a type has its layout.
fn first_version(kind: BlockType) -> u32 {
    match kind {
        BlockType::F32 | BlockType::F16 | BlockType::BF16 => 0,
        // Version 1 put the numbers in their order, version 2 made the scales of the other types 16 bits wide.
        BlockType::Q5_0 | BlockType::Q5_1 => 1,
        _ => 2,
    }
}
