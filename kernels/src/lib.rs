//! Compute kernels of the Auricle speech engine: CubeCL for GPUs, plain Rust twins for the CPU.
//!
//! A kernel plugs into burn as a backend extension, so callers pass and receive ordinary tensors and the device decides
//! which body runs: the CubeCL kernel on wgpu (and CUDA, ROCm), the plain Rust twin on flex. No model and no file format
//! is known here.
//!
//! - [`gate`]: SiLU and GLU in one pass.
//! - [`logmel`]: samples to log-mel frames, whole utterances or live streams.

pub mod gate;
pub mod logmel;
