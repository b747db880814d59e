//! Compute kernels of the Auricle speech engine: CubeCL for GPUs, plain Rust twins for the CPU.
//!
//! A kernel plugs into burn as a backend extension, so callers pass and receive ordinary tensors and the device decides
//! which body runs: the CubeCL kernel on wgpu (and CUDA, ROCm), the plain Rust twin on flex. No model and no file format
//! is known here.
//!
//! - [`attention`]: all queries to all keys.
//! - [`choice`]: which token comes next.
//! - [`crew`]: threads that share small pieces of work.
//! - [`depthwise`]: convolutions of each channel by itself, on the CPU alone.
//! - [`gate`]: ReLU, SiLU and GLU in one pass.
//! - [`gelu`]: GELU in one pass.
//! - [`logmel`]: samples to log-mel frames, whole utterances or live streams.
//! - [`lstm`]: what an LSTM step does beside its product.
//! - [`norm`]: layer normalisation.
//! - [`quantized`]: a few rows times a matrix in eight bits, for GPUs.
//! - [`relative`]: attention with relative positions over what a stream has seen, on the CPU alone.
//! - [`rows`]: a few rows times a large matrix, and one query to many keys, on the CPU alone.
//! - [`slots`]: what streams keep from step to step.
//! - [`spread`]: what chances are told from.
//! - [`vulkan_layers`]: the environment of the Vulkan loader.

pub mod attention;
pub mod choice;
pub mod crew;
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod cube;
pub mod depthwise;
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod elementwise;
pub mod gate;
pub mod gelu;
pub mod logmel;
pub mod lstm;
pub mod norm;
mod products;
pub mod quantized;
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod reduce;
pub mod relative;
pub mod rows;
pub mod slots;
pub mod spread;
mod vectors;
pub mod vulkan_layers;
