//! Compute kernels of the Auricle speech engine: CubeCL for GPUs, plain Rust twins for the CPU.
//!
//! A kernel plugs into burn as a backend extension, so callers pass and receive ordinary tensors and the device decides
//! which body runs: the CubeCL kernel on wgpu (and CUDA, ROCm), the plain Rust twin on flex. No model and no file format
//! is known here.
//!
//! # Layout
//!
//! - [`activation`]: ReLU, SiLU, GELU and GLU in one pass.
//! - [`attention`]: multi-head attention, and attention of a single query over a KV cache on GPUs.
//! - [`depthwise`]: depthwise convolutions on the CPU.
//! - [`gemv`]: products of a few rows with a packed matrix, on the CPU.
//! - [`kv_cache`]: attention of a single query over the keys and values of one head, on the CPU.
//! - [`logmel`]: samples to log-mel frames, for whole utterances and live streams.
//! - [`lstm`]: the pointwise part of an LSTM step.
//! - [`norm`]: layer normalisation.
//! - [`quantized`]: products of a few rows with an 8-bit matrix, on GPUs.
//! - [`relative_attention`]: attention with relative positions over a sliding KV cache, on the CPU.
//! - [`sampling`]: the next token of each row of logits, greedy or drawn, under a token mask.
//! - [`softmax_stats`]: log-sum-exp and entropy of logits.
//! - [`state_cache`]: the cached state of many streams in one tensor.
//! - [`thread_pool`]: threads that share many small tasks.
//! - [`vulkan_layers`]: the environment of the Vulkan loader.

pub mod activation;
pub mod attention;
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod cube;
pub mod depthwise;
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod elementwise;
pub mod gemv;
pub mod kv_cache;
pub mod logmel;
pub mod lstm;
mod matmul;
pub mod norm;
pub mod quantized;
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod reduce;
pub mod relative_attention;
pub mod sampling;
pub mod softmax_stats;
pub mod state_cache;
pub mod thread_pool;
mod vector_math;
pub mod vulkan_layers;
