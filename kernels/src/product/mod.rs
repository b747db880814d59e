#![doc = include_str!("README.md")]

pub mod blocks;
pub mod epilogue;
#[cfg(feature = "wgpu")]
mod few_rows;
pub mod float;
pub mod gemv;
pub mod int8;
pub(crate) mod slices;
