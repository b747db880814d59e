//! Durations of the stages of a model.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};

use crate::error::Result;
use crate::models::fastconformer::FastConformer;

/// Durations of one pass over a recording, with compiled kernels.
#[derive(Clone, Copy, Debug)]
pub struct StageTimes {
    /// Log-mel features, from samples in memory.
    pub features: Duration,
    /// The encoder over them, as one utterance.
    pub encoder: Duration,
}

/// Runs features and encoder over `samples` (16 kHz) twice and times the second round: a GPU compiles its kernels in
/// the first. Each stage ends with a number that is read back, because a device works on after a call has returned.
pub(crate) fn stages(model: &FastConformer, samples: &[f32], device: &Device) -> Result<StageTimes> {
    let read = |tensor: Tensor<3>| tensor.sum().into_scalar::<f32>();
    let mut times = StageTimes { features: Duration::ZERO, encoder: Duration::ZERO };
    for _ in 0..2 {
        let started = Instant::now();
        let (features, lengths) = model.preprocessor().utterances(&[samples], device)?;
        read(features.clone());
        times.features = started.elapsed();
        let started = Instant::now();
        read(model.encoder().forward(features, &lengths)?.0);
        times.encoder = started.elapsed();
    }
    Ok(times)
}
