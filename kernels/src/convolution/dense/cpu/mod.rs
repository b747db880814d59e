//! Convolutions over frames whose channels lie one after another in memory, on the CPU: no window is copied but the frames of a tile, and
//! sums stay in registers.

mod tile;

use crate::channels::{Channels, MARGIN};
use crate::product::slices::SharedOutput;
use crate::thread_pool::ThreadPool;
use tile::{LANES, OUTPUTS, Tile};

/// Frames of a tile: what a thread convolves at once.
const TILE: usize = 4 * LANES;
/// Blocks of outputs of a task.
const TASK_BLOCKS: usize = 8;

/// A convolution.
#[derive(Clone, Debug)]
pub struct ChannelConvolution {
    /// `[blocks of outputs, inputs, taps, 8]`
    weights: Vec<f32>,
    /// `[outputs]`
    bias: Vec<f32>,
    inputs: usize,
    taps: usize,
    /// Frames from one tap to the next.
    dilation: usize,
    /// Frames of the first tap before an output's own.
    before: usize,
}

impl ChannelConvolution {
    /// `weight` is `[outputs, inputs, taps]`, the published layout; `bias` is `[outputs]`. Output `f` sees the frames
    /// `f - before + tap * dilation`. None if it sees more than [`MARGIN`] frames to a side.
    ///
    /// # Panics
    /// When `weight` is not a whole number of taps of `inputs` for each of `bias`.
    pub fn new(weight: &[f32], bias: Vec<f32>, inputs: usize, dilation: usize, before: usize) -> Option<Self> {
        let outputs = bias.len();
        assert!(
            outputs * inputs > 0 && weight.len().is_multiple_of(outputs * inputs),
            "convolution: lengths of weight and bias"
        );
        let taps = weight.len() / (outputs * inputs);
        let span = taps.checked_sub(1)?.checked_mul(dilation)?;
        if before > MARGIN || span.saturating_sub(before) > MARGIN {
            return None;
        }
        let mut weights = vec![0.0; outputs.div_ceil(OUTPUTS) * OUTPUTS * inputs * taps];
        for (output, row) in weight.chunks_exact(inputs * taps).enumerate() {
            let first = output / OUTPUTS * OUTPUTS * inputs * taps + output % OUTPUTS;
            weights[first..].iter_mut().step_by(OUTPUTS).zip(row).for_each(|(to, weight)| *to = *weight);
        }
        Some(Self { weights, bias, inputs, taps, dilation, before })
    }

    /// Channels that it makes.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Convolves `x` to as many frames, with zeros around them.
    ///
    /// # Panics
    /// When `x` has another number of channels.
    pub fn forward(&self, pool: &ThreadPool, x: &Channels) -> Channels {
        self.forward_to(pool, x, x.frames())
    }

    /// As [`ChannelConvolution::forward`], to so many frames: at most [`MARGIN`] more than `x` has.
    ///
    /// # Panics
    /// When `x` has another number of channels, or fewer frames.
    pub fn forward_to(&self, pool: &ThreadPool, x: &Channels, frames: usize) -> Channels {
        let mut out = Channels::zeros(self.outputs(), frames);
        self.add_to(pool, x, &mut out);
        out
    }

    /// Adds the convolution of `x` to `out`.
    ///
    /// # Panics
    /// As [`ChannelConvolution::forward_to`].
    pub fn add_to(&self, pool: &ThreadPool, x: &Channels, out: &mut Channels) {
        let frames = out.frames();
        assert!(
            x.channels() == self.inputs && out.channels() == self.outputs() && frames <= x.frames() + MARGIN,
            "convolution: channels and frames"
        );
        let (stride, blocks) = (out.stride(), self.outputs().div_ceil(OUTPUTS));
        let groups = blocks.div_ceil(TASK_BLOCKS);
        let shared = SharedOutput::new(out.values_mut());
        pool.for_each_index(groups * frames.div_ceil(TILE), |task| {
            let (group, first) = (task % groups, task / groups * TILE);
            let count = TILE.min(frames - first);
            let (seen, width) = self.seen(x, first, count.next_multiple_of(LANES));
            for block in group * TASK_BLOCKS..blocks.min((group + 1) * TASK_BLOCKS) {
                let weights = &self.weights[block * OUTPUTS * self.inputs * self.taps..];
                let weights = &weights[..OUTPUTS * self.inputs * self.taps];
                let rows = OUTPUTS.min(self.outputs() - block * OUTPUTS);
                for from in (0..count).step_by(LANES) {
                    let mut sums = [[0f32; LANES]; OUTPUTS];
                    Tile { seen: &seen[from..], width, weights, taps: self.taps, dilation: self.dilation }
                        .multiply(&mut sums);
                    let lanes = LANES.min(count - from);
                    for (row, sums) in sums.iter().take(rows).enumerate() {
                        let output = block * OUTPUTS + row;
                        // SAFETY: `lanes` frames of this output lie within its channel, and only this task asks for them, once.
                        let to = unsafe { shared.sums(output * stride + MARGIN + first + from, lanes) };
                        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum + self.bias[output]);
                    }
                }
            }
        });
    }

    /// The frames that `count` outputs from `first` on see, `[inputs, width]`, and the width.
    fn seen(&self, x: &Channels, first: usize, count: usize) -> (Vec<f32>, usize) {
        let width = count + (self.taps - 1) * self.dilation;
        let mut seen = Vec::with_capacity(self.inputs * width);
        let from = MARGIN + first - self.before;
        for channel in 0..self.inputs {
            let padded = &x.padded(channel)[from..];
            let inside = width.min(padded.len());
            seen.extend_from_slice(&padded[..inside]);
            seen.resize(seen.len() + width - inside, 0.0);
        }
        (seen, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_pool;

    fn value(at: usize) -> f32 {
        ((at * 7919 + 13) % 1009) as f32 / 504.5 - 1.0
    }

    #[test]
    fn outputs_are_the_sums_that_a_convolution_is_defined_by() {
        for (inputs, outputs, taps, dilation, before, frames) in [
            (1, 1, 3, 1, 1, 5),
            (3, 9, 11, 5, 25, 200),
            (20, 70, 7, 3, 9, 33),
            (5, 8, 2, 1, 1, 130),
            (4, 3, 1, 1, 0, 1),
        ] {
            let weight: Vec<f32> = (0..outputs * inputs * taps).map(value).collect();
            let bias: Vec<f32> = (0..outputs).map(|at| value(at + 5)).collect();
            let x = Channels::from_rows(&(0..inputs * frames).map(|at| value(at + 99)).collect::<Vec<_>>(), inputs);
            let layer = ChannelConvolution::new(&weight, bias.clone(), inputs, dilation, before).unwrap();
            let out = thread_pool::run(|pool| layer.forward_to(pool, &x, frames + before.min(1)));
            assert_eq!(out.frames(), frames + before.min(1));
            for (output, bias) in bias.iter().enumerate() {
                for frame in 0..out.frames() {
                    let mut sum = f64::from(*bias);
                    for input in 0..inputs {
                        for tap in 0..taps {
                            let Some(at) = (frame + tap * dilation).checked_sub(before) else { continue };
                            let value = x.channel(input).get(at).copied().unwrap_or(0.0);
                            sum += f64::from(value) * f64::from(weight[(output * inputs + input) * taps + tap]);
                        }
                    }
                    let ours = f64::from(out.channel(output)[frame]);
                    assert!(
                        (ours - sum).abs() < 1e-4,
                        "{taps} taps, output {output}, frame {frame}: {ours}, not {sum}"
                    );
                }
                let edges = [&out.padded(output)[..MARGIN], &out.padded(output)[MARGIN + out.frames()..]].concat();
                assert!(edges.iter().all(|value| *value == 0.0), "the margins stay zero");
            }
        }
    }

    #[test]
    fn a_convolution_that_sees_too_far_is_refused() {
        assert!(ChannelConvolution::new(&[0.0; 3], vec![0.0], 1, 33, 33).is_none());
        assert!(ChannelConvolution::new(&[0.0; 3], vec![0.0], 1, 17, 0).is_none());
        assert!(ChannelConvolution::new(&[0.0; 3], vec![0.0], 1, 16, 0).is_some());
    }
}
