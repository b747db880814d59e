//! The part of the pickle protocol that state dictionaries consist of.

use std::collections::HashMap;
use std::rc::Rc;

use safetensors::Dtype;

/// Values of the stack, and dimensions of a tensor, at most.
const MAX_STACK: usize = 1 << 20;
const MAX_DIMENSIONS: usize = 16;

/// A value of a pickle.
#[derive(Clone, Debug)]
pub enum Value {
    /// None, true, false, a number that is no integer, or a list: no part of what is read.
    Other,
    Integer(i64),
    Text(Rc<str>),
    /// Its number among the containers. A pickle may name one again, and nest them without end: their values lie side by side, so that
    /// nothing follows them by recursion.
    Tuple(usize),
    /// See `Tuple`.
    Dictionary(usize),
    /// The module and the name of something known.
    Name(Known),
    /// The type and the record of values.
    Storage(Dtype, Rc<str>),
    Tensor(Rc<Tensor>),
}

/// The names that a pickle may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Dictionary,
    RebuildTensor,
    RebuildParameter,
    Storage(Dtype),
}

/// A tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub dtype: Dtype,
    /// The name of its values' record.
    pub key: Rc<str>,
    /// Its first value in the record.
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

impl Tensor {
    /// True if the values lie one after another, row-major.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1usize;
        self.shape.len() == self.strides.len()
            && self.shape.iter().zip(&self.strides).rev().all(|(size, stride)| {
                let fits = *size <= 1 || *stride == expected;
                expected = expected.saturating_mul(*size);
                fits
            })
    }
}

/// A pickle's value, and the values of its containers; those of a dictionary are keys and values in turn.
#[derive(Debug)]
pub struct Pickle {
    pub root: Value,
    pub containers: Vec<Vec<Value>>,
}

/// Reads a pickle.
///
/// # Errors
/// The fault of the pickle.
pub fn read(bytes: &[u8]) -> Result<Pickle, String> {
    let mut reader =
        Reader { bytes, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new(), containers: Vec::new() };
    loop {
        if let Some(root) = reader.step()? {
            return Ok(Pickle { root, containers: reader.containers });
        }
        if reader.stack.len() > MAX_STACK || reader.marks.len() > MAX_STACK {
            return Err("its pickle is nested too deep".into());
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    containers: Vec<Vec<Value>>,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("its pickle is cut off")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u32, String> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n').ok_or("its pickle is cut off")?;
        let line = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(line)
    }

    fn pop(&mut self) -> Result<Value, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let value = (self.stack.len() > floor).then(|| self.stack.pop()).flatten();
        value.ok_or_else(|| "its pickle takes a value that is not there".into())
    }

    /// The values since the last mark.
    fn marked(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.marks.pop().ok_or("its pickle takes a mark that is not there")?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    /// Keeps a container; gives its number.
    fn keep(&mut self, values: Vec<Value>) -> usize {
        self.containers.push(values);
        self.containers.len() - 1
    }

    /// Carries out one instruction; gives the value at the end.
    fn step(&mut self) -> Result<Option<Value>, String> {
        let code = self.take(1)?[0];
        let value = match code {
            0x80 => {
                let version = self.number(1)?;
                if !(2..=5).contains(&version) {
                    return Err(format!("its pickle is of version {version}; 2 to 5 are read"));
                }
                return Ok(None);
            }
            b'.' => return self.pop().map(Some),
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(None);
            }
            b'q' | b'r' => {
                let place = self.number(if code == b'q' { 1 } else { 4 })?;
                let value = self.stack.last().ok_or("its pickle keeps a value that is not there")?;
                self.memo.insert(place, value.clone());
                return Ok(None);
            }
            b'h' | b'j' => {
                let place = self.number(if code == b'h' { 1 } else { 4 })?;
                self.memo.get(&place).cloned().ok_or("its pickle names a value that it did not keep")?
            }
            b's' | b'u' | b'a' | b'e' | b'b' => {
                self.extend(code)?;
                return Ok(None);
            }
            b'N' | 0x88 | 0x89 => Value::Other,
            b'G' => {
                self.take(8)?;
                Value::Other
            }
            b'K' => Value::Integer(self.number(1)?.into()),
            b'M' => Value::Integer(self.number(2)?.into()),
            b'J' => Value::Integer((self.number(4)? as i32).into()),
            0x8a => {
                let count = self.number(1)? as usize;
                let bytes = self.take(count)?;
                let mut wide = [if bytes.last().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 }; 8];
                wide.get_mut(..count).ok_or("its pickle has a number of more than 64 bits")?.copy_from_slice(bytes);
                Value::Integer(i64::from_le_bytes(wide))
            }
            b'X' => {
                let count = self.number(4)? as usize;
                Value::Text(String::from_utf8_lossy(self.take(count)?).into())
            }
            b')' => Value::Tuple(self.keep(Vec::new())),
            b't' => {
                let values = self.marked()?;
                Value::Tuple(self.keep(values))
            }
            0x85..=0x87 => {
                let mut values = (0x84..code).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                values.reverse();
                Value::Tuple(self.keep(values))
            }
            b']' => Value::Other,
            b'}' => Value::Dictionary(self.keep(Vec::new())),
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                Value::Name(known(&module, &name)?)
            }
            b'Q' => {
                let identity = self.pop()?;
                storage(self.tuple(&identity))?
            }
            b'R' => {
                let (arguments, name) = (self.pop()?, self.pop()?);
                self.call(&name, &arguments)?
            }
            other => return Err(format!("its pickle has the instruction 0x{other:02x}, which is not read")),
        };
        self.stack.push(value);
        Ok(None)
    }

    /// Puts values into the container below them.
    fn extend(&mut self, code: u8) -> Result<(), String> {
        let values = match code {
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            b'a' | b'b' => vec![self.pop()?],
            _ => self.marked()?,
        };
        match (self.stack.last(), code) {
            // A state that an object is built with, and the items of a list, are left out.
            (Some(_), b'b') | (Some(Value::Other), b'a' | b'e') => Ok(()),
            (Some(Value::Dictionary(at)), b's' | b'u') if values.len().is_multiple_of(2) => {
                self.containers[*at].extend(values);
                Ok(())
            }
            _ => Err("its pickle fills what is no container".into()),
        }
    }

    /// The values of a tuple; none for another value.
    fn tuple(&self, value: &Value) -> &[Value] {
        if let Value::Tuple(at) = value { &self.containers[*at] } else { &[] }
    }

    fn call(&mut self, name: &Value, arguments: &Value) -> Result<Value, String> {
        let malformed = || "its pickle makes a tensor of wrong parts".to_owned();
        match (name, self.tuple(arguments)) {
            (Value::Name(Known::Dictionary), []) => Ok(Value::Dictionary(self.keep(Vec::new()))),
            (Value::Name(Known::RebuildParameter), [tensor @ Value::Tensor(_), ..]) => Ok(tensor.clone()),
            (Value::Name(Known::RebuildTensor), [Value::Storage(dtype, key), offset, shape, strides, ..]) => {
                let number = |value: &Value| match value {
                    Value::Integer(number) => usize::try_from(*number).map_err(|_| malformed()),
                    _ => Err(malformed()),
                };
                let numbers = |value: &Value| match (value, self.tuple(value)) {
                    (Value::Tuple(_), values) if values.len() <= MAX_DIMENSIONS => values.iter().map(number).collect(),
                    _ => Err(malformed()),
                };
                Ok(Value::Tensor(Rc::new(Tensor {
                    dtype: *dtype,
                    key: key.clone(),
                    offset: number(offset)?,
                    shape: numbers(shape)?,
                    strides: numbers(strides)?,
                })))
            }
            _ => Err(malformed()),
        }
    }
}

fn known(module: &str, name: &str) -> Result<Known, String> {
    let dtype = match (module, name) {
        ("collections", "OrderedDict") => return Ok(Known::Dictionary),
        ("torch._utils", "_rebuild_tensor_v2") => return Ok(Known::RebuildTensor),
        ("torch._utils", "_rebuild_parameter") => return Ok(Known::RebuildParameter),
        ("torch", "DoubleStorage") => Dtype::F64,
        ("torch", "FloatStorage") => Dtype::F32,
        ("torch", "HalfStorage") => Dtype::F16,
        ("torch", "BFloat16Storage") => Dtype::BF16,
        ("torch", "LongStorage") => Dtype::I64,
        ("torch", "IntStorage") => Dtype::I32,
        ("torch", "ShortStorage") => Dtype::I16,
        ("torch", "CharStorage") => Dtype::I8,
        ("torch", "ByteStorage") => Dtype::U8,
        ("torch", "BoolStorage") => Dtype::BOOL,
        _ => return Err(format!("its pickle names {module}.{name}, which is no part of a state dictionary")),
    };
    Ok(Known::Storage(dtype))
}

/// A storage by its identity: `("storage", type, key, device, count)`.
fn storage(identity: &[Value]) -> Result<Value, String> {
    match identity {
        [Value::Text(kind), Value::Name(Known::Storage(dtype)), Value::Text(key), ..] if &**kind == "storage" => {
            Ok(Value::Storage(*dtype, key.clone()))
        }
        _ => Err("its pickle refers to something that is no storage".into()),
    }
}
