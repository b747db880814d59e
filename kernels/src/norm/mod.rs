//! Normalisation: of rows by their own values ([`layer_norm`], [`rms_norm`]), of rows by factors of their own ([`modulated`]), and of channels
//! over frames ([`instance`]).

pub mod instance;
mod layer;
pub mod modulated;

pub(crate) use layer::{EPSILON, NormOps};
#[cfg(feature = "wgpu")]
pub(crate) use layer::{UNITS, moments};
pub use layer::{
    add_and_rms_norm, layer_norm, layer_norm_rows, layer_norm_rows_with, layer_norm_with, rms_norm, rms_norm_rows,
};
