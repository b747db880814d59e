//! Depthwise convolutions of plain slices with the channels in the last dimension, on the CPU.

/// Weights of a depthwise convolution.
#[derive(Clone, Debug)]
pub struct DepthwiseConv {
    /// `[taps, channels]`
    weight: Vec<f32>,
    /// `[channels]`
    bias: Vec<f32>,
}

impl DepthwiseConv {
    /// `weight` is `[channels, taps]`, the published layout; `bias` is `[channels]`.
    ///
    /// # Panics
    /// When `weight` is not a whole number of taps of the channels of `bias`.
    pub fn new(weight: &[f32], bias: Vec<f32>) -> Self {
        let channels = bias.len();
        assert!(
            channels > 0 && weight.len().is_multiple_of(channels),
            "depthwise convolution: lengths of weight and bias"
        );
        let taps = weight.len() / channels;
        let transposed = (0..weight.len()).map(|at| weight[at % channels * taps + at / channels]).collect();
        Self { weight: transposed, bias }
    }

    /// Length of the kernel.
    pub fn taps(&self) -> usize {
        self.weight.len() / self.bias.len()
    }

    /// Convolves `x` `[frames + taps - 1, channels]` over time to `out` `[frames, channels]`.
    ///
    /// # Panics
    /// When the lengths of `x` and `out` do not match.
    pub fn forward(&self, x: &[f32], out: &mut [f32]) {
        let channels = self.bias.len();
        assert_eq!(x.len(), out.len() + (self.taps() - 1) * channels, "depthwise convolution: lengths of x and out");
        pulp::Arch::new().dispatch(OverTime { x, conv: self, out });
    }

    /// Computes one output frame of a 3 x 3 convolution over time and bins with stride 2 over the bins; the weights are `[channels, 9]`.
    /// `frames` are three input frames of `[bins, channels]`, padded with `before` bins of 0 below the first bin and with 0 above the
    /// last. `out` is `[bins', channels]`.
    ///
    /// # Panics
    /// When the kernel has not nine weights per channel, or the frames differ in length.
    pub fn forward_frame(&self, frames: [&[f32]; 3], before: usize, out: &mut [f32]) {
        let channels = self.bias.len();
        let bins = frames[0].len() / channels;
        assert!(
            self.taps() == 9 && frames.iter().all(|frame| frame.len() == bins * channels),
            "depthwise convolution: nine taps, and lengths of the frames"
        );
        pulp::Arch::new().dispatch(OverBins { frames, before, conv: self, out });
    }
}

struct OverTime<'a> {
    x: &'a [f32],
    conv: &'a DepthwiseConv,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for OverTime<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let channels = self.conv.bias.len();
        for (frame, out) in self.out.chunks_exact_mut(channels).enumerate() {
            out.copy_from_slice(&self.conv.bias);
            let window = self.x[frame * channels..].chunks_exact(channels);
            for (weight, x) in self.conv.weight.chunks_exact(channels).zip(window) {
                multiply_add(out, x, weight);
            }
        }
    }
}

struct OverBins<'a> {
    frames: [&'a [f32]; 3],
    before: usize,
    conv: &'a DepthwiseConv,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for OverBins<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let channels = self.conv.bias.len();
        let bins = self.frames[0].len() / channels;
        for (bin, out) in self.out.chunks_exact_mut(channels).enumerate() {
            out.copy_from_slice(&self.conv.bias);
            for (row, frame) in self.frames.iter().enumerate() {
                for column in 0..3 {
                    let at = (2 * bin + column).wrapping_sub(self.before);
                    if at < bins {
                        let weight = &self.conv.weight[(3 * row + column) * channels..][..channels];
                        multiply_add(out, &frame[at * channels..][..channels], weight);
                    }
                }
            }
        }
    }
}

/// Adds `x * weight` to `out`.
#[inline(always)]
fn multiply_add(out: &mut [f32], x: &[f32], weight: &[f32]) {
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x.mul_add(*weight, *out);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::ops::ConvOptions;
    use burn::tensor::{Device, Tensor, TensorData, module};

    use super::*;

    fn values(count: usize, step: f32) -> Vec<f32> {
        (0..count).map(|n| (n as f32 * step).sin()).collect()
    }

    fn close(ours: &[f32], expected: Tensor<1>) {
        let expected: Vec<f32> = expected.into_data().try_into_vec().unwrap();
        assert_eq!(ours.len(), expected.len());
        assert!(ours.iter().zip(&expected).all(|(ours, expected)| (ours - expected).abs() < 1e-5));
    }

    #[test]
    fn convolution_over_time_equals_burns() {
        let (device, channels, frames, taps) = (Device::flex(), 19, 7, 5);
        let (x, weight, bias) =
            (values((frames + taps - 1) * channels, 0.7), values(channels * taps, 1.1), values(channels, 0.3));
        let mut out = vec![0.0; frames * channels];
        DepthwiseConv::new(&weight, bias.clone()).forward(&x, &mut out);
        let tensor = |values: &[f32], shape: [usize; 3]| {
            Tensor::<3>::from_data(TensorData::new(values.to_vec(), shape), &device)
        };
        let expected = module::conv1d(
            tensor(&x, [1, frames + taps - 1, channels]).swap_dims(1, 2),
            tensor(&weight, [channels, 1, taps]),
            Some(Tensor::from_floats(bias.as_slice(), &device)),
            ConvOptions::new([1], [0], [1], channels),
        );
        close(&out, expected.swap_dims(1, 2).flatten(0, 2));
    }

    #[test]
    fn convolution_over_bins_equals_burns() {
        let (device, channels) = (Device::flex(), 19);
        for bins in [1, 2, 9, 10] {
            for before in [1, 2] {
                let after = 1;
                let (x, weight, bias) =
                    (values(3 * bins * channels, 0.7), values(channels * 9, 1.1), values(channels, 0.3));
                let tensor = |values: &[f32], shape: [usize; 4]| {
                    Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device)
                };
                let expected = module::conv2d(
                    tensor(&x, [1, 3, bins, channels]).permute([0, 3, 1, 2]),
                    tensor(&weight, [channels, 1, 3, 3]),
                    Some(Tensor::from_floats(bias.as_slice(), &device)),
                    ConvOptions::new_with_padding([2, 2], [(0, 0), (before, after)], [1, 1], channels),
                );
                let expected = expected.permute([0, 2, 3, 1]);
                let mut out = vec![0.0; expected.dims()[2] * channels];
                let frames: Vec<&[f32]> = x.chunks_exact(bins * channels).collect();
                DepthwiseConv::new(&weight, bias).forward_frame([frames[0], frames[1], frames[2]], before, &mut out);
                close(&out, expected.flatten(0, 3));
            }
        }
    }
}
