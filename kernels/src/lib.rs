//! Compute kernels of the Auricle speech engine: CubeCL for GPUs, plain Rust twins for the CPU.
//!
//! A kernel plugs into burn as a backend extension, so callers pass and receive ordinary tensors and the device decides
//! which body runs: the CubeCL kernel on wgpu (and CUDA, ROCm), the plain Rust twin on flex. No model and no file format
//! is known here.
//!
//! # Layout
//!
//! A module uses modules below it in this list, never above. A test holds this order.
//!
//! - [`relative_attention`]: attention with relative positions over a sliding KV cache, on the CPU
//! - [`attention`]: multi-head attention, and attention of a single query over a KV cache on GPUs
//! - [`fused_attention`]: attention of many queries in one launch, with relative positions and masks, on GPUs
//! - [`int8_attention`]: multi-head attention in 8 bits, on the CPU
//! - [`page_cache`]: attention over keys and values in pages, on GPUs
//! - [`paged_attention`]: attention over keys and values in pages that sequences share, on the CPU
//! - [`kv_cache`]: attention of a single query over the keys and values of one head, on the CPU
//! - [`state_cache`]: the cached state of many streams in one tensor
//! - [`stream_convolution`]: causal convolutions over the frames of many streams in rings, on GPUs
//! - [`modulated_norm`]: the layer norm of a row by its own factors, after a gated sum, on GPUs
//! - [`frame_convolution`]: the depthwise convolution of a conformer with its norm and activation, on GPUs
//! - [`sampling`]: the next token of each row of logits, greedy or drawn, under a token mask
//! - [`lstm`]: the pointwise part of an LSTM step, and its recurrent product for one row
//! - [`bidirectional_lstm`]: an LSTM in both directions over a whole sequence, on GPUs
//! - [`instance_norm`]: instance normalisation of frames with the activation that follows it, on GPUs
//! - [`harmonics`]: sums of sines whose phases grow from value to value of a pitch, on GPUs
//! - [`polar_stft`]: the spectra of a whole utterance, on GPUs
//! - [`polar_istft`]: spectra of a whole utterance to samples, on GPUs
//! - [`quantized`]: products of a few rows with an 8-bit matrix, on GPUs
//! - [`quantized_blocks`]: products with weights as published checkpoints quantise them, on GPUs
//! - [`product`]: matrix products of any number of rows in 32 or 16 bits, on GPUs
//! - `few_rows`: matrix products of a few rows, on GPUs
//! - [`matrix_units`]: matrix products on the matrix units of a card
//! - [`epilogue`]: what follows a matrix product: bias, activation, residual and norm
//! - [`activation`]: ReLU, SiLU, GELU, GLU, SwiGLU and ELU in one pass
//! - [`depthwise`]: depthwise convolutions on the CPU
//! - [`convolution`]: convolutions over frames, channel by channel in memory, on the CPU
//! - [`window_product`]: convolutions over frames as products whose windows are not stored, on GPUs
//! - [`int8_matrix`]: products of many rows, rounded to 8 bits, with an 8-bit matrix, on the CPU
//! - [`logmel`]: samples to log-mel frames, for whole utterances and live streams
//! - [`istft`]: spectra of overlapping frames to samples, as a stream, on the CPU
//! - [`norm`]: layer and root-mean-square normalisation
//! - [`channels`]: frames of many channels, and their normalisation, on the CPU
//! - [`gemv`]: products of a few rows with a packed matrix, on the CPU
//! - [`likeliest`]: the likeliest token of each row of scores
//! - [`softmax_stats`]: log-sum-exp and entropy of logits
//! - [`pooling`]: means and deviations over frames, on the CPU
//! - [`frame_ring`]: the last frames of many streams in one tensor
//! - [`thread_pool`]: threads that share many small tasks
//! - `matmul`: products of slices; `vector_math`: vectorised functions of slices; `flex`: tensors from slices; `neon`: instructions of ARM
//!   processors; all on the CPU
//! - `elementwise`, `reduce`: activations and reductions inside GPU kernels
//! - `cube`: launch sizes and memory layout of GPU kernels
//! - [`recording`]: launches that are recorded once and repeated
//! - [`launches`]: counts of kernel launches
//! - `adapters`: devices of adapters
//! - [`vulkan_layers`]: the environment of the Vulkan loader

pub mod activation;
#[cfg(feature = "wgpu")]
pub mod adapters;
pub mod attention;
pub mod bidirectional_lstm;
pub mod channels;
pub mod convolution;
#[cfg(feature = "wgpu")]
mod cube;
pub mod depthwise;
#[cfg(feature = "wgpu")]
mod elementwise;
pub mod epilogue;
mod few_rows;
mod flex;
pub mod frame_convolution;
pub mod frame_ring;
pub mod fused_attention;
pub mod gemv;
pub mod harmonics;
pub mod instance_norm;
pub mod int8_attention;
pub mod int8_matrix;
pub mod istft;
pub mod kv_cache;
pub mod launches;
pub mod likeliest;
pub mod logmel;
pub mod lstm;
mod matmul;
pub mod matrix_units;
pub mod modulated_norm;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod norm;
pub mod page_cache;
pub mod paged_attention;
pub mod polar_istft;
pub mod polar_stft;
pub mod pooling;
pub mod product;
pub mod quantized;
pub mod quantized_blocks;
pub mod recording;
#[cfg(feature = "wgpu")]
mod reduce;
pub mod relative_attention;
pub mod sampling;
pub mod softmax_stats;
pub mod state_cache;
pub mod stream_convolution;
pub mod thread_pool;
mod vector_math;
pub mod vulkan_layers;
pub mod window_product;
