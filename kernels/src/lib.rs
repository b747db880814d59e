//! Compute kernels of the Auricle speech engine: CubeCL for GPUs, plain Rust twins for the CPU.
//!
//! A kernel plugs into burn as a backend extension, so callers pass and receive ordinary tensors and the device decides
//! which body runs: the CubeCL kernel on wgpu (and CUDA, ROCm), the plain Rust twin on flex. No model and no file format
//! is known here.
//!
//! # Layout
//!
//! A folder has the operations of its name. Of an operation `mod.rs` is the face on tensors, with shapes and units, `gpu.rs` the body on GPUs,
//! `cpu.rs` the body of models on the CPU, and `reference.rs` a plain one that tests compare the GPU's with, where models on the CPU have another.
//!
//! A module uses modules below it in this list, never above. A test holds this order.
//!
//! - [`attention`]: attention to all keys, to windows of a stream, to cached keys of one query, to pages, and in 8 bits
//! - [`convolution`]: convolutions over frames, dense and depthwise, of utterances and of streams in rings
//! - [`recurrent`]: an LSTM step by step, and in both directions over a whole sequence
//! - [`sampling`]: the next token of each row of logits, greedy or drawn, under a token mask; log-sum-exp and entropy of logits
//! - [`spectral`]: samples to log-mel frames and to spectra, spectra to samples, and sums of sines
//! - [`product`]: matrix products, and what follows them
//! - [`activation`]: ReLU, SiLU, GELU, GLU, SwiGLU and ELU in one pass
//! - [`norm`]: layer, root-mean-square, modulated and instance normalisation
//! - [`cache`]: the cached state and the last frames of many streams in one tensor
//! - [`channels`]: frames of many channels, channel by channel in memory, on the CPU
//! - [`pooling`]: means and deviations over frames, on the CPU
//! - [`thread_pool`]: threads that share many small tasks
//! - `reference`: sums by definition, for tests; `vector_math`: vectorised functions of slices; `flex`: tensors from slices; `neon`: instructions of ARM processors; all on the CPU
//! - `elementwise`, `reduce`: functions of values and reductions inside GPU kernels
//! - `cube`: launch sizes and memory layout of GPU kernels
//! - [`recording`]: launches that are recorded once and repeated
//! - [`launches`]: counts of kernel launches
//! - `adapters`: devices of adapters
//! - [`vulkan_layers`]: the environment of the Vulkan loader

pub mod activation;
#[cfg(feature = "wgpu")]
pub mod adapters;
pub mod attention;
pub mod cache;
pub mod channels;
pub mod convolution;
#[cfg(feature = "wgpu")]
mod cube;
#[cfg(feature = "wgpu")]
mod elementwise;
mod flex;
pub mod launches;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod norm;
pub mod pooling;
pub mod product;
pub mod recording;
pub mod recurrent;
#[cfg(feature = "wgpu")]
mod reduce;
mod reference;
pub mod sampling;
pub mod spectral;
pub mod thread_pool;
mod vector_math;
pub mod vulkan_layers;
