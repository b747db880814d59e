//! ONNX files: the constants of a graph, and the nodes that tell what each is for. Weights are read; no graph is run.
//!
//! Weights of 8 bits are those of onnxruntime's QDQ form: an integer constant, and a `DequantizeLinear` with its scales and zero points.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use half::{bf16, f16};

use crate::error::{Error, Result};

/// Largest file that is read, bytes. A protobuf message has 2 GiB at most.
const MAX_BYTES: u64 = 1 << 31;

/// A graph: its constants, and its nodes in order.
#[derive(Debug)]
pub struct Graph {
    path: PathBuf,
    constants: BTreeMap<String, Constant>,
    nodes: Vec<Node>,
    /// The node of each output, as its place in `nodes`.
    makers: BTreeMap<String, usize>,
}

/// A node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The operator: `MatMul`.
    pub operator: String,
    /// Names of its inputs. An optional one that is left out is empty.
    pub inputs: Vec<String>,
    /// Names of its outputs.
    pub outputs: Vec<String>,
    /// The attribute `axis`.
    axis: Option<i64>,
}

/// A tensor of floats: its shape, and its values in row-major order.
pub type Floats = (Vec<usize>, Vec<f32>);

#[derive(Debug)]
struct Constant {
    shape: Vec<usize>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Floats(Vec<f32>),
    /// Of 8 or 32 bits.
    Integers(Vec<i32>),
    /// Of a type that no weight has.
    Other,
}

/// A part of a file, or its fault.
type Parsed<T> = std::result::Result<T, String>;

/// The name that onnxruntime's quantiser gives to a constant's integers.
const QUANTIZED: &str = "_quantized";

impl Graph {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it cannot be read, is no ONNX file, is cut off, or a constant does not fit its shape.
    pub fn open(path: &Path) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let bytes = std::fs::metadata(path).map_err(|error| bad(format!("cannot open: {error}")))?.len();
        if bytes > MAX_BYTES {
            return Err(bad(format!("{bytes} bytes are more than an ONNX file has")));
        }
        let file = std::fs::read(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
        Self::parse(path, &file).map_err(bad)
    }

    fn parse(path: &Path, file: &[u8]) -> Parsed<Self> {
        const GRAPH: u64 = 7;
        const NODE: u64 = 1;
        const INITIALIZER: u64 = 5;
        let no_model = |reason: String| format!("no ONNX file, or one that is cut off: {reason}");
        let mut graph =
            Self { path: path.to_path_buf(), constants: BTreeMap::new(), nodes: Vec::new(), makers: BTreeMap::new() };
        let mut model = Message(file);
        while let Some((field, value)) = model.next().map_err(no_model)? {
            let Some(mut body) = value.message().filter(|_| field == GRAPH) else { continue };
            while let Some((field, value)) = body.next().map_err(no_model)? {
                match (field, value.message()) {
                    (NODE, Some(node)) => graph.nodes.push(Node::read(node).map_err(no_model)?),
                    (INITIALIZER, Some(tensor)) => {
                        let (name, constant) = Constant::read(tensor)?;
                        if graph.constants.insert(name.clone(), constant).is_some() {
                            return Err(format!("two constants have the name {name}"));
                        }
                    }
                    _ => {}
                }
            }
        }
        if graph.nodes.is_empty() {
            return Err(no_model("it has no graph".into()));
        }
        for (at, node) in graph.nodes.iter().enumerate() {
            graph.makers.extend(node.outputs.iter().map(|output| (output.clone(), at)));
        }
        Ok(graph)
    }

    /// The nodes in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Names of the constants.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.constants.keys().map(String::as_str)
    }

    fn maker(&self, name: &str) -> Option<&Node> {
        self.makers.get(name).and_then(|at| self.nodes.get(*at))
    }

    /// The value that a value is a rounded copy of: what went into `QuantizeLinear` and `DequantizeLinear`, else the value itself.
    pub fn origin<'a>(&'a self, mut name: &'a str) -> &'a str {
        // A circle of nodes is no graph, and must not be gone round for ever.
        for _ in 0..self.nodes.len() {
            let rounding = |node: &&Node| matches!(node.operator.as_str(), "QuantizeLinear" | "DequantizeLinear");
            match self.maker(name).filter(rounding).and_then(|node| node.inputs.first()) {
                Some(input) => name = input,
                None => break,
            }
        }
        name
    }

    /// The name of a constant before it was quantised; none where `name` is computed from the graph's input.
    pub fn constant_name<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let origin = self.origin(name);
        self.constants.contains_key(origin).then(|| origin.strip_suffix(QUANTIZED).unwrap_or(origin))
    }

    /// The floats of a constant, or of the `DequantizeLinear` of one; none for other values.
    ///
    /// # Errors
    /// [`Error::Weights`] when scales or zero points do not fit.
    pub fn floats(&self, name: &str) -> Result<Option<Floats>> {
        if let Some(Constant { shape, values: Values::Floats(values) }) = self.constants.get(name) {
            return Ok(Some((shape.clone(), values.clone())));
        }
        let Some(node) = self.maker(name).filter(|node| node.operator == "DequantizeLinear") else { return Ok(None) };
        let input = |at: usize| node.inputs.get(at).and_then(|input| self.constants.get(input));
        let Some(Constant { shape, values: Values::Integers(integers) }) = input(0) else { return Ok(None) };
        let wrong = |reason: &str| Error::Weights {
            tensor: format!("{} in {}", node.inputs.first().map_or("", String::as_str), self.path.display()),
            reason: reason.into(),
        };
        let Some(Constant { values: Values::Floats(scales), .. }) = input(1) else {
            return Err(wrong("it has no constant scales"));
        };
        let zeros = match (input(2), node.inputs.get(2)) {
            (Some(Constant { values: Values::Integers(zeros), .. }), _) => zeros.clone(),
            (None, None) => vec![0; scales.len()],
            _ => return Err(wrong("it has no constant zero points")),
        };
        // Values between two of the same channel, and channels.
        let (stride, channels) = match (scales.len(), usize::try_from(node.axis.unwrap_or(1))) {
            (1, _) => (1, 1),
            (count, Ok(axis)) if shape.get(axis) == Some(&count) => (shape[axis + 1..].iter().product(), count),
            _ => return Err(wrong("its scales are not one for each channel")),
        };
        if zeros.len() != scales.len() {
            return Err(wrong("it has not as many zero points as scales"));
        }
        let real = |(at, integer): (usize, &i32)| {
            let channel = at / stride % channels;
            (i64::from(*integer) - i64::from(zeros[channel])) as f32 * scales[channel]
        };
        Ok(Some((shape.clone(), integers.iter().enumerate().map(real).collect())))
    }
}

impl Node {
    fn read(mut message: Message<'_>) -> Parsed<Self> {
        let mut node = Self::default();
        while let Some((field, value)) = message.next()? {
            match field {
                1 => node.inputs.push(value.text()?),
                2 => node.outputs.push(value.text()?),
                4 => node.operator = value.text()?,
                5 => {
                    let (mut name, mut number) = (String::new(), None);
                    let mut attribute = value.message().ok_or("an attribute of a node is none")?;
                    while let Some((field, value)) = attribute.next()? {
                        match field {
                            1 => name = value.text()?,
                            3 => number = value.number(),
                            _ => {}
                        }
                    }
                    if name == "axis" {
                        // The format leaves zeros out.
                        node.axis = Some(number.unwrap_or(0));
                    }
                }
                _ => {}
            }
        }
        Ok(node)
    }
}

/// The parts of a constant that hold its values, as the file has them.
#[derive(Default)]
struct Parts<'a> {
    kind: i64,
    raw: Option<&'a [u8]>,
    floats: Vec<f32>,
    integers: Vec<i64>,
}

impl Constant {
    fn read(mut message: Message<'_>) -> Parsed<(String, Self)> {
        let (mut name, mut shape, mut parts, mut elsewhere) = (String::new(), Vec::new(), Parts::default(), false);
        while let Some((field, value)) = message.next()? {
            match field {
                1 => value.numbers(&mut shape)?,
                2 => parts.kind = value.number().ok_or("a constant has no type")?,
                4 => value.floats(&mut parts.floats)?,
                5 => value.numbers(&mut parts.integers)?,
                8 => name = value.text()?,
                9 => parts.raw = Some(value.bytes().ok_or("a constant's values are no bytes")?),
                14 => elsewhere = value.number() != Some(0),
                _ => {}
            }
        }
        let wrong = |reason: String| format!("the constant {name}: {reason}");
        if elsewhere {
            return Err(wrong("its values are in another file, which is not read".into()));
        }
        let shape: Option<Vec<usize>> = shape.into_iter().map(|size| usize::try_from(size).ok()).collect();
        let shape = shape.ok_or_else(|| wrong("a side of its shape is negative".into()))?;
        let count = shape.iter().try_fold(1usize, |count, side| count.checked_mul(*side));
        let values = parts.values().map_err(wrong)?;
        let found = match &values {
            Values::Floats(values) => Some(values.len()),
            Values::Integers(values) => Some(values.len()),
            Values::Other => count,
        };
        if found != count {
            return Err(wrong(format!("{} values do not fill the shape {shape:?}", found.unwrap_or_default())));
        }
        Ok((name, Self { shape, values }))
    }
}

impl Parts<'_> {
    fn values(self) -> Parsed<Values> {
        const FLOAT: i64 = 1;
        const UINT8: i64 = 2;
        const INT8: i64 = 3;
        const INT32: i64 = 6;
        const FLOAT16: i64 = 10;
        const BFLOAT16: i64 = 16;
        let halves = |to_f32: fn(u16) -> f32| -> Parsed<Vec<f32>> {
            match self.raw {
                Some(raw) => Ok(pieces(raw)?.map(|pair| to_f32(u16::from_le_bytes(pair))).collect()),
                None => within(&self.integers, 0..=0xffff)?.into_iter().map(|bits| Ok(to_f32(bits as u16))).collect(),
            }
        };
        Ok(match (self.kind, self.raw) {
            (FLOAT, Some(raw)) => Values::Floats(pieces(raw)?.map(f32::from_le_bytes).collect()),
            (FLOAT, None) => Values::Floats(self.floats),
            (FLOAT16, _) => Values::Floats(halves(|bits| f16::from_bits(bits).to_f32())?),
            (BFLOAT16, _) => Values::Floats(halves(|bits| bf16::from_bits(bits).to_f32())?),
            (UINT8, Some(raw)) => Values::Integers(raw.iter().map(|byte| i32::from(*byte)).collect()),
            (INT8, Some(raw)) => Values::Integers(raw.iter().map(|byte| i32::from(byte.cast_signed())).collect()),
            (INT32, Some(raw)) => Values::Integers(pieces(raw)?.map(i32::from_le_bytes).collect()),
            (UINT8, None) => Values::Integers(within(&self.integers, 0..=0xff)?),
            (INT8, None) => Values::Integers(within(&self.integers, -0x80..=0x7f)?),
            (INT32, None) => Values::Integers(within(&self.integers, i32::MIN..=i32::MAX)?),
            _ => Values::Other,
        })
    }
}

/// Bytes in pieces of `N`.
fn pieces<const N: usize>(bytes: &[u8]) -> Parsed<impl Iterator<Item = [u8; N]> + '_> {
    match bytes.as_chunks::<N>() {
        (chunks, []) => Ok(chunks.iter().copied()),
        _ => Err(format!("{} bytes are no whole number of values", bytes.len())),
    }
}

/// Integers that must lie in a range.
fn within(integers: &[i64], range: std::ops::RangeInclusive<i32>) -> Parsed<Vec<i32>> {
    let narrow = |integer: &i64| i32::try_from(*integer).ok().filter(|integer| range.contains(integer));
    let narrowed: Option<Vec<i32>> = integers.iter().map(narrow).collect();
    narrowed.ok_or_else(|| "a value is out of its type's range".into())
}

/// A message in the wire format of protobuf: fields of numbers and values.
struct Message<'a>(&'a [u8]);

/// A field's value.
enum Value<'a> {
    Number(u64),
    Four([u8; 4]),
    Eight,
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    /// The next field's number and value; none at the end.
    fn next(&mut self) -> Parsed<Option<(u64, Value<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Eight)?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(usize::try_from(length).map_err(|_| "a field is too long")?)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Four(bytes.try_into().map_err(|_| "a field ends early")?)
            }
            other => return Err(format!("a field has the wire type {other}")),
        };
        Ok(Some((key >> 3, value)))
    }

    fn take(&mut self, bytes: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or("a field reaches past the end")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Parsed<u64> {
        let mut number = 0u64;
        for place in 0..10 {
            let [byte] = self.take(1)? else { break };
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has no end".into())
    }
}

impl<'a> Value<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    fn message(&self) -> Option<Message<'a>> {
        self.bytes().map(Message)
    }

    fn text(&self) -> Parsed<String> {
        let text = self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.map(str::to_owned).ok_or_else(|| "a name is no text".into())
    }

    fn number(&self) -> Option<i64> {
        if let Self::Number(number) = self { Some(number.cast_signed()) } else { None }
    }

    /// Adds the numbers of a repeated field, packed or not.
    fn numbers(&self, to: &mut Vec<i64>) -> Parsed<()> {
        match self {
            Self::Number(number) => to.push(number.cast_signed()),
            Self::Bytes(bytes) => {
                let mut packed = Message(bytes);
                while !packed.0.is_empty() {
                    to.push(packed.number()?.cast_signed());
                }
            }
            Self::Four(_) | Self::Eight => return Err("a list of numbers is none".into()),
        }
        Ok(())
    }

    /// Adds the floats of a repeated field, packed or not.
    fn floats(&self, to: &mut Vec<f32>) -> Parsed<()> {
        match self {
            Self::Four(bytes) => to.push(f32::from_le_bytes(*bytes)),
            Self::Bytes(bytes) => to.extend(pieces(bytes)?.map(f32::from_le_bytes)),
            Self::Number(_) | Self::Eight => return Err("a list of floats is none".into()),
        }
        Ok(())
    }
}
