//! The types of GGUF's tensors. A quantised row is a sequence of blocks: small integers with the scales,
//! and for some types the minima, that turn them into values.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

/// Values that a thread unpacks at a time.
const VALUES_TOGETHER: usize = 1 << 17;
/// Values that are widened from 16 bits at a time.
const HALVES_TOGETHER: usize = 512;

/// Values in a block of blocks, the types that end in K.
const SUPER: usize = 256;
/// Values in any other block.
const BLOCK: usize = 32;
/// The minimum of types that have none: added to any value, -0.0 too, it gives that value. 0.0 would turn
/// -0.0 into 0.0.
const NO_MINIMUM: f32 = -0.0;

/// The type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the names of the format")]
pub enum BlockType {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// 4 bits and a scale.
    Q4_0,
    /// 4 bits, a scale and a minimum.
    Q4_1,
    /// 5 bits and a scale.
    Q5_0,
    /// 5 bits, a scale and a minimum.
    Q5_1,
    /// 8 bits and a scale.
    Q8_0,
    /// 4 bits; 6-bit scales and minima of 32 values.
    Q4_K,
    /// 5 bits; 6-bit scales and minima of 32 values.
    Q5_K,
    /// 6 bits; 8-bit scales of 16 values.
    Q6_K,
}

impl BlockType {
    /// All types.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
    ];

    /// The type of a number in the file.
    ///
    /// # Errors
    /// A message for a number that is not supported.
    pub fn from_number(number: u32) -> Result<Self, String> {
        Ok(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4_K,
            13 => Self::Q5_K,
            14 => Self::Q6_K,
            30 => Self::BF16,
            _ => {
                let known = Self::ALL.map(|kind| format!("{kind:?}")).join(", ");
                return Err(format!("has type number {number}; supported are {known}"));
            }
        })
    }

    /// Values in a block.
    pub fn values(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => SUPER,
            _ => BLOCK,
        }
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// Numbers of a quantised type that share a scale.
    pub fn run(self) -> usize {
        if self == Self::Q6_K { 16 } else { BLOCK }
    }

    /// The lowest number of a quantised type.
    pub fn lowest(self) -> i8 {
        match self {
            Self::Q4_0 => -8,
            Self::Q5_0 => -16,
            Self::Q6_K => -32,
            Self::Q8_0 => i8::MIN,
            _ => 0,
        }
    }

    /// Unpacks whole blocks to values, on all cores. Bytes after the last whole block are ignored.
    pub fn unpack(self, bytes: &[u8]) -> Vec<f32> {
        let blocks = VALUES_TOGETHER / self.values();
        let mut values = vec![0.0; bytes.len() / self.bytes() * self.values()];
        let parts = values.par_chunks_mut(blocks * self.values());
        parts.zip(bytes.par_chunks(blocks * self.bytes())).for_each(|(values, bytes)| self.unpack_into(bytes, values));
        values
    }

    fn unpack_into(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::F32 => {
                for (value, word) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = f32::from_le_bytes(*word);
                }
            }
            Self::F16 => widen_halves(bytes, values),
            Self::BF16 => {
                for (value, word) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = bf16::from_le_bytes(*word).to_f32();
                }
            }
            // Without a list of runs: these are the types of whole checkpoints.
            Self::Q4_0 => fill(bytes, values, |block: &[u8; 18]| {
                (nibbles(&block[2..]).map(|number| number - 8), half(block, 0), NO_MINIMUM)
            }),
            Self::Q4_1 => {
                fill(bytes, values, |block: &[u8; 20]| (nibbles(&block[4..]), half(block, 0), half(block, 2)));
            }
            Self::Q5_0 => fill(bytes, values, |block: &[u8; 22]| {
                (five_bits(&block[2..6], &block[6..]).map(|number| number - 16), half(block, 0), NO_MINIMUM)
            }),
            Self::Q5_1 => fill(bytes, values, |block: &[u8; 24]| {
                (five_bits(&block[4..8], &block[8..]), half(block, 0), half(block, 2))
            }),
            Self::Q8_0 => fill(bytes, values, |block: &[u8; 34]| {
                (std::array::from_fn(|at| block[2 + at] as i8), half(block, 0), NO_MINIMUM)
            }),
            Self::Q4_K | Self::Q5_K | Self::Q6_K => {
                let mut parts = Vec::new();
                for (values, block) in values.chunks_exact_mut(SUPER).zip(bytes.chunks_exact(self.bytes())) {
                    parts.clear();
                    self.split(block, &mut parts);
                    let unpacked = parts.iter().flat_map(|part| part.numbers.iter().map(|number| part.value(*number)));
                    values.iter_mut().zip(unpacked).for_each(|(value, unpacked)| *value = unpacked);
                }
            }
        }
    }

    /// Splits a block of a quantised type into runs of numbers with one scale, in order. The float types have no runs.
    pub fn split(self, block: &[u8], into: &mut Vec<Run>) {
        let all = |numbers: [i8; BLOCK], scale: f32, minimum: f32| Run { numbers: numbers.to_vec(), scale, minimum };
        match self {
            Self::F32 | Self::F16 | Self::BF16 => {}
            Self::Q4_0 => into.push(all(nibbles(&block[2..]).map(|number| number - 8), half(block, 0), NO_MINIMUM)),
            Self::Q4_1 => into.push(all(nibbles(&block[4..]), half(block, 0), half(block, 2))),
            Self::Q5_0 => {
                into.push(all(
                    five_bits(&block[2..6], &block[6..]).map(|number| number - 16),
                    half(block, 0),
                    NO_MINIMUM,
                ));
            }
            Self::Q5_1 => into.push(all(five_bits(&block[4..8], &block[8..]), half(block, 0), half(block, 2))),
            Self::Q8_0 => into.push(all(std::array::from_fn(|at| block[2 + at] as i8), half(block, 0), NO_MINIMUM)),
            Self::Q4_K | Self::Q5_K => {
                let (scale, minimum) = (half(block, 0), half(block, 2));
                let five = self == Self::Q5_K;
                let high = &block[16..];
                let low = if five { &high[BLOCK..] } else { high };
                for part in 0..SUPER / BLOCK {
                    let low = &low[part / 2 * BLOCK..];
                    let number = |at: usize| {
                        let bit = if five { high[at] >> part & 1 } else { 0 };
                        ((low[at] >> (4 * (part % 2)) & 15) | bit << 4) as i8
                    };
                    let (times, less) = six_bits(&block[4..16], part);
                    // `a - b` and `a + -b` are the same to the bit.
                    let run = all(std::array::from_fn(number), scale * f32::from(times), -(minimum * f32::from(less)));
                    into.push(run);
                }
            }
            Self::Q6_K => {
                let (low, rest) = block.split_at(SUPER / 2);
                let (high, rest) = rest.split_at(SUPER / 4);
                let scale = half(rest, SUPER / 16);
                for (part, times) in rest[..SUPER / 16].iter().enumerate() {
                    let number = |at: usize| {
                        let place = 16 * part + at;
                        // Each half of the block: four quarters of 32, of which two share their bytes of low bits.
                        let (side, quarter, within) = (place / 128, place % 128 / 32, place % 32);
                        let low = low[64 * side + 32 * (quarter % 2) + within] >> (4 * (quarter / 2)) & 15;
                        let high = high[32 * side + within] >> (2 * quarter) & 3;
                        (low | high << 4) as i8 - 32
                    };
                    let numbers = (0..16).map(number).collect();
                    into.push(Run { numbers, scale: scale * f32::from(*times as i8), minimum: NO_MINIMUM });
                }
            }
        }
    }
}

/// Numbers with a common scale and minimum: a value is `scale * number + minimum`.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// 32, or 16 for [`BlockType::Q6_K`].
    pub numbers: Vec<i8>,
    /// The value of 1 above that of 0.
    pub scale: f32,
    /// The value of 0.
    pub minimum: f32,
}

impl Run {
    fn value(&self, number: i8) -> f32 {
        self.scale * f32::from(number) + self.minimum
    }
}

/// Unpacks blocks of one run: numbers, scale and minimum of each.
fn fill<const N: usize>(bytes: &[u8], values: &mut [f32], run: impl Fn(&[u8; N]) -> ([i8; BLOCK], f32, f32)) {
    for (values, block) in values.as_chunks_mut::<BLOCK>().0.iter_mut().zip(bytes.as_chunks().0) {
        let (numbers, scale, minimum) = run(block);
        *values = numbers.map(|number| scale * f32::from(number) + minimum);
    }
}

/// Widens values of 16 bits, many at a time, which processors have an instruction for.
fn widen_halves(bytes: &[u8], values: &mut [f32]) {
    let mut halves = [f16::ZERO; HALVES_TOGETHER];
    for (values, bytes) in values.chunks_mut(HALVES_TOGETHER).zip(bytes.chunks(2 * HALVES_TOGETHER)) {
        let words = bytes.as_chunks().0;
        halves.iter_mut().zip(words).for_each(|(half, word)| *half = f16::from_le_bytes(*word));
        halves[..values.len()].convert_to_f32_slice(values);
    }
}

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// 32 numbers of 4 bits: the low halves of 16 bytes, then the high ones.
fn nibbles(bytes: &[u8]) -> [i8; BLOCK] {
    std::array::from_fn(|at| (bytes[at % 16] >> (4 * (at / 16)) & 15) as i8)
}

/// 32 numbers of 5 bits: as [`nibbles`], with the highest bits apart.
fn five_bits(high: &[u8], low: &[u8]) -> [i8; BLOCK] {
    let low = nibbles(low);
    std::array::from_fn(|at| low[at] | ((high[at / 8] >> (at % 8) & 1) << 4) as i8)
}

/// Scale and minimum number `part` of 8, 6 bits each, from 12 bytes.
fn six_bits(bytes: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        (bytes[part] & 63, bytes[part + 4] & 63)
    } else {
        let both = bytes[part + 4];
        (both & 15 | bytes[part - 4] >> 6 << 4, both >> 4 | bytes[part] >> 6 << 4)
    }
}
