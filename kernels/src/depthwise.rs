//! Convolutions of each channel by itself, for values that are no tensor, with channels side by side.

/// What a convolution over the last dimension but one is made of.
#[derive(Clone, Debug)]
pub struct Depthwise {
    /// `[taps, channels]`
    weight: Vec<f32>,
    /// `[channels]`
    bias: Vec<f32>,
}

impl Depthwise {
    /// From `weight` `[channels, taps]`, the published layout, and `bias` `[channels]`.
    ///
    /// # Panics
    /// When they are not of as many channels.
    pub fn new(weight: &[f32], bias: Vec<f32>) -> Self {
        let channels = bias.len();
        assert!(channels > 0 && weight.len().is_multiple_of(channels), "the weights of a depthwise convolution");
        let taps = weight.len() / channels;
        let turned = (0..weight.len()).map(|at| weight[at % channels * taps + at / channels]).collect();
        Self { weight: turned, bias }
    }

    /// Frames that one comes of.
    pub fn taps(&self) -> usize {
        self.weight.len() / self.bias.len()
    }

    /// Frames `x` `[frames + taps - 1, channels]` to `out` `[frames, channels]`.
    ///
    /// # Panics
    /// When there are not as many values as that.
    pub fn forward(&self, x: &[f32], out: &mut [f32]) {
        let channels = self.bias.len();
        assert_eq!(x.len(), out.len() + (self.taps() - 1) * channels, "the frames of a depthwise convolution");
        pulp::Arch::new().dispatch(Along { x, of: self, out });
    }

    /// One frame of a convolution over three frames and three bins of each, every other bin, whose weights are
    /// `[channels, 9]`: `frames` `[bins, channels]` each, of which `before` bins of nought lie below the first, to `out`
    /// `[bins', channels]`. What lies past the last bin is nought too.
    ///
    /// # Panics
    /// When the frames are not of as many bins.
    pub fn frame(&self, frames: [&[f32]; 3], before: usize, out: &mut [f32]) {
        let channels = self.bias.len();
        let bins = frames[0].len() / channels;
        assert!(
            self.taps() == 9 && frames.iter().all(|frame| frame.len() == bins * channels),
            "the frames of a depthwise convolution"
        );
        pulp::Arch::new().dispatch(Across { frames, before, of: self, out });
    }
}

struct Along<'a> {
    x: &'a [f32],
    of: &'a Depthwise,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Along<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let channels = self.of.bias.len();
        for (frame, out) in self.out.chunks_exact_mut(channels).enumerate() {
            out.copy_from_slice(&self.of.bias);
            let seen = self.x[frame * channels..].chunks_exact(channels);
            for (weight, x) in self.of.weight.chunks_exact(channels).zip(seen) {
                add(out, x, weight);
            }
        }
    }
}

struct Across<'a> {
    frames: [&'a [f32]; 3],
    before: usize,
    of: &'a Depthwise,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Across<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let channels = self.of.bias.len();
        let bins = self.frames[0].len() / channels;
        for (bin, out) in self.out.chunks_exact_mut(channels).enumerate() {
            out.copy_from_slice(&self.of.bias);
            for (row, frame) in self.frames.iter().enumerate() {
                for column in 0..3 {
                    let at = (2 * bin + column).wrapping_sub(self.before);
                    if at < bins {
                        let weight = &self.of.weight[(3 * row + column) * channels..][..channels];
                        add(out, &frame[at * channels..][..channels], weight);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn add(out: &mut [f32], x: &[f32], weight: &[f32]) {
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

    fn close(ours: &[f32], theirs: Tensor<1>) {
        let theirs: Vec<f32> = theirs.into_data().try_into_vec().unwrap();
        assert_eq!(ours.len(), theirs.len());
        assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| (ours - theirs).abs() < 1e-5));
    }

    #[test]
    fn along_frames_as_burn_does_it() {
        let (device, channels, frames, taps) = (Device::flex(), 19, 7, 5);
        let (x, weight, bias) =
            (values((frames + taps - 1) * channels, 0.7), values(channels * taps, 1.1), values(channels, 0.3));
        let mut out = vec![0.0; frames * channels];
        Depthwise::new(&weight, bias.clone()).forward(&x, &mut out);
        let tensor = |values: &[f32], shape: [usize; 3]| {
            Tensor::<3>::from_data(TensorData::new(values.to_vec(), shape), &device)
        };
        let theirs = module::conv1d(
            tensor(&x, [1, frames + taps - 1, channels]).swap_dims(1, 2),
            tensor(&weight, [channels, 1, taps]),
            Some(Tensor::from_floats(bias.as_slice(), &device)),
            ConvOptions::new([1], [0], [1], channels),
        );
        close(&out, theirs.swap_dims(1, 2).flatten(0, 2));
    }

    #[test]
    fn across_bins_as_burn_does_it() {
        let (device, channels) = (Device::flex(), 19);
        for bins in [1, 2, 9, 10] {
            for before in [1, 2] {
                let after = 1;
                let (x, weight, bias) =
                    (values(3 * bins * channels, 0.7), values(channels * 9, 1.1), values(channels, 0.3));
                let tensor = |values: &[f32], shape: [usize; 4]| {
                    Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device)
                };
                let theirs = module::conv2d(
                    tensor(&x, [1, 3, bins, channels]).permute([0, 3, 1, 2]),
                    tensor(&weight, [channels, 1, 3, 3]),
                    Some(Tensor::from_floats(bias.as_slice(), &device)),
                    ConvOptions::new_with_padding([2, 2], [(0, 0), (before, after)], [1, 1], channels),
                );
                let theirs = theirs.permute([0, 2, 3, 1]);
                let mut out = vec![0.0; theirs.dims()[2] * channels];
                let frames: Vec<&[f32]> = x.chunks_exact(bins * channels).collect();
                Depthwise::new(&weight, bias).frame([frames[0], frames[1], frames[2]], before, &mut out);
                close(&out, theirs.flatten(0, 3));
            }
        }
    }
}
