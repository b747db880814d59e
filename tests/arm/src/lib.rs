//! The kernels' modules that run on a CPU and know no tensors, with their own tests.

// Other modules of the kernels use the rest.
#![allow(dead_code)]

#[path = "../../../kernels/src/channels.rs"]
pub mod channels;
#[path = "../../../kernels/src/convolution/mod.rs"]
pub mod convolution;
#[path = "../../../kernels/src/gemv/mod.rs"]
pub mod gemv;
#[path = "../../../kernels/src/int8_attention.rs"]
pub mod int8_attention;
#[path = "../../../kernels/src/int8_matrix/mod.rs"]
pub mod int8_matrix;
#[path = "../../../kernels/src/kv_cache.rs"]
pub mod kv_cache;
#[path = "../../../kernels/src/matmul.rs"]
mod matmul;
#[cfg(target_arch = "aarch64")]
#[path = "../../../kernels/src/neon.rs"]
mod neon;
#[path = "../../../kernels/src/paged_attention.rs"]
pub mod paged_attention;
#[path = "../../../kernels/src/relative_attention.rs"]
pub mod relative_attention;
#[path = "../../../kernels/src/thread_pool.rs"]
pub mod thread_pool;
#[path = "../../../kernels/src/vector_math.rs"]
mod vector_math;
