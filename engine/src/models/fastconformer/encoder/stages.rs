//! The stages of the eightfold subsampling: mel frames of 10 ms in, encoder frames of 80 ms out.

use crate::models::fastconformer::config::{Class, EncoderConfig};
use crate::weights::Scope;

/// Width and stride of every subsampling convolution.
pub const KERNEL: usize = 3;
pub const STRIDE: usize = 2;

/// Padding at the edges of a stage's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// One zero on each side: whole utterances only (Parakeet).
    Symmetric,
    /// Left context only, carried from chunk to chunk (Nemotron).
    Causal,
}

impl From<Class> for Padding {
    fn from(class: Class) -> Self {
        if class.is_streaming() { Self::Causal } else { Self::Symmetric }
    }
}

impl Padding {
    /// Bins of a stage's output.
    pub fn bins(self, bins: usize) -> usize {
        match self {
            Self::Causal => bins / STRIDE + 1,
            Self::Symmetric => bins.div_ceil(STRIDE),
        }
    }

    /// Bins after `stages` stages.
    pub fn bins_after(self, stages: usize, bins: usize) -> usize {
        (0..stages).fold(bins, |bins, _| self.bins(bins))
    }
}

/// Scopes of the weights: the first convolution, and for each other stage the strided convolution and the 1x1 one after
/// it.
pub fn scopes<'a>(
    scope: &Scope<'a>,
    padding: Padding,
    config: &EncoderConfig,
) -> (Scope<'a>, Vec<(Scope<'a>, Scope<'a>)>) {
    let others = 1..config.subsampling_factor.ilog2() as usize;
    match padding {
        Padding::Causal => {
            let layer = |at: usize| scope.scope(format!("layers.{}", at - 1));
            let pair = |at| (layer(at).scope("depthwise_conv"), layer(at).scope("pointwise_conv"));
            (scope.scope("conv_in"), others.map(pair).collect())
        }
        // Convolutions and activations are numbered in one list: 0, (2, 3), (5, 6), ...
        Padding::Symmetric => {
            let layer = |at: usize| scope.scope(format!("layers.{at}"));
            (layer(0), others.map(|at| (layer(3 * at - 1), layer(3 * at))).collect())
        }
    }
}
