//! The `model.bin` of CTranslate2, version 6: named variables, and other names of some of them at its end.
//!
//! The file is not trusted: every length is compared with the rest of the file before anything is allocated, and the file
//! ends where its last name does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::bounded::Bounded;
use super::{Stored, StoredTensor};
use crate::error::{Error, Result};

const VERSION: u32 = 6;
/// Versions above are no versions: the file is another one.
const LARGEST_VERSION: u32 = 255;
const MAX_DIMENSIONS: u8 = 8;
/// Longest value that counts as a setting, bytes.
const SETTING: u32 = 8;

/// A named tensor or setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Row-major; empty for a setting.
    pub shape: Vec<usize>,
    /// Type of its values.
    pub kind: VariableType,
    /// First byte in the file.
    pub start: u64,
    /// Length in the file.
    pub bytes: usize,
    /// The value of a setting that is an integer.
    pub setting: Option<i64>,
}

/// Type of a variable's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableType {
    /// Single precision.
    F32,
    /// 8 bits, to be divided by a scale for each row.
    I8,
    /// 16 bits.
    I16,
    /// 32 bits.
    I32,
    /// Half precision.
    F16,
    /// The upper half of single precision.
    BF16,
}

impl VariableType {
    fn of_number(number: u8) -> std::result::Result<Self, String> {
        const ALL: [VariableType; 6] = [
            VariableType::F32,
            VariableType::I8,
            VariableType::I16,
            VariableType::I32,
            VariableType::F16,
            VariableType::BF16,
        ];
        ALL.get(usize::from(number)).copied().ok_or_else(|| format!("has type number {number}, which is not known"))
    }

    /// Bytes of a value.
    pub fn width(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
        }
    }

    /// The type of floats; none for integers.
    pub fn float(self) -> Option<Dtype> {
        match self {
            Self::F32 => Some(Dtype::F32),
            Self::F16 => Some(Dtype::F16),
            Self::BF16 => Some(Dtype::BF16),
            Self::I8 | Self::I16 | Self::I32 => None,
        }
    }
}

/// An open file.
pub struct Ct2File {
    path: PathBuf,
    file: File,
    kind: String,
    revision: u32,
    variables: BTreeMap<String, Variable>,
    /// Other names, and the variables that they stand for.
    aliases: BTreeMap<String, String>,
}

impl Ct2File {
    /// Reads all of a file but the values of its tensors.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is not a model of CTranslate2, has another version, or is cut short.
    pub fn open(path: &Path) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let file = File::open(path).map_err(|error| bad(format!("cannot open: {error}")))?;
        let bytes = file.metadata().map_err(|error| bad(error.to_string()))?.len();
        let mut from = Bounded::new(&file, bytes);
        let (kind, revision) = head(&mut from).map_err(bad)?;
        let (variables, aliases) = body(&mut from).map_err(bad)?;
        drop(from);
        Ok(Self { path: path.to_path_buf(), file, kind, revision, variables, aliases })
    }

    /// True for a file that begins as one of CTranslate2, of any version and kind.
    pub fn is_at(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let mut from = Bounded::new(&file, bytes);
        let version = from.u32().is_ok_and(|version| (2..=LARGEST_VERSION).contains(&version));
        version && text(&mut from).is_ok_and(|kind| kind.ends_with("Spec"))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of its network, such as `WhisperSpec`, and the revision of its names.
    pub fn kind(&self) -> (&str, u32) {
        (&self.kind, self.revision)
    }

    /// All names and their variables, with the other names.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Variable)> {
        let named = self.variables.iter().map(|(name, variable)| (name.as_str(), variable));
        let others = self.aliases.iter();
        named.chain(others.filter_map(|(name, of)| Some((name.as_str(), self.variables.get(of)?))))
    }

    /// The variable of a name; if the name is another one for it, then through that.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(self.resolved(name))
    }

    /// The name under which a name's variable is stored.
    pub fn resolved<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// An integer setting.
    pub fn setting(&self, name: &str) -> Option<i64> {
        self.variable(name)?.setting
    }

    /// Number of values in all variables but settings and the scales of 8-bit rows.
    pub fn parameters(&self) -> usize {
        let tensors = self.variables.iter().filter(|(name, _)| !name.ends_with("_scale"));
        tensors.map(|(_, tensor)| tensor.shape.iter().product::<usize>() * usize::from(!tensor.shape.is_empty())).sum()
    }

    /// The stored bytes of a variable.
    ///
    /// # Errors
    /// [`Error::Weights`] when it is missing or cannot be read.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let wrong = |reason: String| Error::Weights { tensor: name.to_owned(), reason };
        let Some(variable) = self.variable(name) else {
            return Err(wrong(format!("missing from {}", self.path.display())));
        };
        let mut bytes = vec![0; variable.bytes];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(variable.start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        Ok(bytes)
    }

    /// A tensor of a float type, or one of 8 bits with its scales.
    ///
    /// # Errors
    /// [`Error::Weights`] when it is missing, has another type, or its scales do not fit its rows.
    pub fn tensor(&self, name: &str) -> Result<StoredTensor> {
        let wrong = |reason: String| Error::Weights { tensor: name.to_owned(), reason };
        let Some(Variable { shape, kind, start, bytes, .. }) = self.variable(name) else {
            return Err(wrong(format!("missing from {}", self.path.display())));
        };
        let stored = match (kind.float(), kind) {
            (Some(dtype), _) => Stored::Plain(dtype),
            (None, VariableType::I8) => {
                let scales = format!("{}_scale", self.resolved(name));
                let rows = shape.first().copied().unwrap_or_default();
                match self.variable(&scales) {
                    Some(found) if found.kind == VariableType::F32 && found.bytes == 4 * rows => {}
                    _ => return Err(wrong(format!("has 8 bits, and {scales} does not have a scale for each row"))),
                }
                let scales = Stored::Plain(Dtype::F32).unpack(&self.bytes(&scales)?).map_err(wrong)?;
                if !scales.iter().all(|scale| scale.is_normal()) {
                    return Err(wrong("has a scale that is zero or not finite".into()));
                }
                Stored::Rows(scales)
            }
            _ => return Err(wrong(format!("has type {kind:?}; F32, F16, BF16 and I8 are supported"))),
        };
        Ok(StoredTensor { shape: shape.clone(), stored, start: *start, bytes: *bytes })
    }

    /// The open file.
    pub fn into_file(self) -> File {
        self.file
    }
}

/// The kind and the revision.
fn head(from: &mut Bounded) -> std::result::Result<(String, u32), String> {
    let version = from.u32().map_err(|_| "not a model of CTranslate2: too short")?;
    match version {
        VERSION => {}
        0 | LARGEST_VERSION.. => return Err("not a model of CTranslate2".into()),
        _ => return Err(format!("version {version} of CTranslate2's form; version {VERSION} is supported")),
    }
    Ok((text(from)?, from.u32()?))
}

type Body = (BTreeMap<String, Variable>, BTreeMap<String, String>);

fn body(from: &mut Bounded) -> std::result::Result<Body, String> {
    let mut variables = BTreeMap::new();
    // A variable has at least a name, a number of dimensions, a type and a length.
    for _ in 0..from.count(8)? {
        let name = text(from)?;
        let variable = variable(from).map_err(|reason| format!("variable {name}: {reason}"))?;
        if variables.insert(name.clone(), variable).is_some() {
            return Err(format!("variable {name} is in the file twice"));
        }
    }
    let mut aliases = BTreeMap::new();
    for _ in 0..from.count(4)? {
        let (name, of) = (text(from)?, text(from)?);
        if !variables.contains_key(&of) || variables.contains_key(&name) {
            return Err(format!("{name} stands for {of}, which cannot be"));
        }
        aliases.insert(name, of);
    }
    match from.is_at_end() {
        true => Ok((variables, aliases)),
        false => Err("the file goes on behind its end".into()),
    }
}

/// A text with its length before it and a zero behind it.
fn text(from: &mut Bounded) -> std::result::Result<String, String> {
    let length = from.u16()?;
    let mut bytes = from.bytes(u64::from(length))?;
    match bytes.pop() {
        Some(0) => String::from_utf8(bytes).map_err(|_| "a name is not UTF-8".into()),
        _ => Err("a name does not end in a zero".into()),
    }
}

fn variable(from: &mut Bounded) -> std::result::Result<Variable, String> {
    let dimensions = from.u8()?;
    if dimensions > MAX_DIMENSIONS {
        return Err(format!("has {dimensions} dimensions"));
    }
    let mut shape = Vec::with_capacity(usize::from(dimensions));
    for _ in 0..dimensions {
        shape.push(from.u32()? as usize);
    }
    let kind = VariableType::of_number(from.u8()?)?;
    let bytes = from.u32()?;
    let values = shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
    if values.and_then(|values| values.checked_mul(kind.width())) != usize::try_from(bytes).ok() {
        return Err(format!("{bytes} bytes do not fit {shape:?} of {kind:?}"));
    }
    let start = from.at();
    let setting = if shape.is_empty() && bytes <= SETTING {
        let stored = from.bytes(u64::from(bytes))?;
        match (kind, &stored[..]) {
            (VariableType::I8, [byte]) => Some(i64::from(*byte as i8)),
            (VariableType::I16, [low, high]) => Some(i64::from(i16::from_le_bytes([*low, *high]))),
            (VariableType::I32, [a, b, c, d]) => Some(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
            _ => None,
        }
    } else {
        from.skip(u64::from(bytes))?;
        None
    };
    Ok(Variable { shape, kind, start, bytes: bytes as usize, setting })
}
