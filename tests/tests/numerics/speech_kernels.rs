//! The kernels of speech synthesis on a Vulkan adapter against their twins on the CPU, which other tests hold to their definitions.

use auricle_kernels::activation;
use auricle_kernels::activation::Activation as Function;
use auricle_kernels::cache::ring::{RowFrames, StepFrames, store};
use auricle_kernels::convolution::dense::{self, Windows};
use auricle_kernels::convolution::stream::{StreamConvolution, StreamFrames};
use auricle_kernels::launches::count;
use auricle_kernels::norm::instance::{Activation, instance_norm};
use auricle_kernels::norm::layer_norm_with;
use auricle_kernels::norm::modulated::ModulatedNorm;
use auricle_kernels::product::epilogue::activate;
use auricle_kernels::recurrent::bidirectional_lstm::bidirectional_lstm;
use auricle_kernels::spectral::harmonics::harmonics;
use auricle_kernels::spectral::istft::polar_istft;
use auricle_kernels::spectral::stft::polar_stft;
use auricle_tests::{Oracle, devices};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Device, Distribution, Tensor, TensorData, module};

fn random<const D: usize>(shape: [usize; D], deviation: f64) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.1, deviation), &Device::flex())
}

fn on<const D: usize>(device: &Device, x: &Tensor<D>) -> Tensor<D> {
    Tensor::from_data(TensorData::new(Oracle::values(x.clone()), x.dims()), device)
}

fn close<const D: usize>(what: &str, ours: Tensor<D>, twins: Tensor<D>, tolerance: f32) {
    assert_eq!(ours.dims(), twins.dims(), "{what}");
    for (at, (a, b)) in Oracle::values(ours).into_iter().zip(Oracle::values(twins)).enumerate() {
        // A NaN is not close.
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}, value {at}: {a} against {b}");
    }
}

/// The result of `work`, and its launches.
fn count_of<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let (result, launches) = count(work);
    (result, launches.total())
}

fn hann(length: usize) -> Tensor<1> {
    let value = |at: usize| 0.5 - 0.5 * (std::f32::consts::TAU * at as f32 / length as f32).cos();
    Tensor::from_data(TensorData::new((0..length).map(value).collect::<Vec<f32>>(), [length]), &Device::flex())
}

#[test]
fn a_window_product_is_a_convolution() {
    // Inputs, outputs, taps, dilation, stride, frames.
    let shapes = [
        [1, 1, 3, 1, 2, 9],
        [5, 70, 1, 1, 1, 1],
        [22, 16, 12, 1, 6, 130],
        [17, 33, 11, 5, 1, 200],
        [34, 130, 7, 3, 1, 65],
    ];
    for (device, on_cpu) in devices() {
        for [inputs, outputs, taps, dilation, stride, frames] in shapes {
            let (x, published) = (random([frames, inputs], 1.0), random([outputs, inputs, taps], 0.3));
            let bias = random([outputs], 1.0);
            let before = taps / 2 * dilation;
            let options = ConvOptions::new([stride], [before], [dilation], 1);
            let turned = x.clone().unsqueeze::<3>().swap_dims(1, 2);
            let burns = module::conv1d(turned, published.clone(), Some(bias.clone()), options);
            let burns = burns.swap_dims(1, 2).squeeze_dim::<2>(0);
            let weight = published.permute([2, 1, 0]).reshape([taps * inputs, outputs]);
            let [x, weight] = [&x, &weight].map(|x| on(&device, x));
            let bias = on(&device, &bias);
            let windows = Windows { frames: burns.dims()[0], stride, dilation, before, slope: 1.0 };
            let (ours, launches) = count_of(|| dense::convolve(x.clone(), weight.clone(), bias.clone(), windows, None));
            assert_eq!(launches, usize::from(!on_cpu));
            close("a convolution", ours, burns.clone(), 2e-5);
            let residual = random(burns.dims(), 1.0);
            let added = Some((on(&device, &residual), 0.5));
            close("added", dense::convolve(x, weight, bias, windows, added), burns + residual * 0.5, 2e-5);
        }
    }
}

#[test]
fn many_cubes_compute_larger_tiles_with_the_same_result() {
    let (frames, inputs, outputs, taps) = (17_000, 3, 129, 3);
    let [x, weight] = [random([frames, inputs], 1.0), random([taps * inputs, outputs], 0.3)];
    let bias = random([outputs], 1.0);
    let windows = Windows { slope: 0.1, ..Windows::around(frames, taps, 1) };
    let twins = dense::convolve(x.clone(), weight.clone(), bias.clone(), windows, None);
    for (device, _) in devices() {
        let ours = dense::convolve(on(&device, &x), on(&device, &weight), on(&device, &bias), windows, None);
        close("large tiles", ours, twins.clone(), 2e-5);
    }
}

#[test]
fn two_taps_and_places_are_a_transposed_convolution() {
    let (frames, inputs, outputs, rate) = (23, 6, 4, 6);
    let (x, published) = (random([frames, inputs], 1.0), random([inputs, outputs, 2 * rate], 0.3));
    let turned = x.clone().unsqueeze::<3>().swap_dims(1, 2);
    let options = ConvTransposeOptions::new([rate], [rate / 2], [0], [1], 1);
    let burns = module::conv_transpose1d(turned, published.clone(), None, options);
    let burns = burns.swap_dims(1, 2).squeeze_dim::<2>(0);
    // The frame before reaches a place by the later half of its taps.
    let halves = [published.clone().narrow(2, rate, rate), published.narrow(2, 0, rate)];
    let weight = Tensor::cat(halves.map(|half| half.swap_dims(1, 2)).into(), 0).reshape([2 * inputs, rate * outputs]);
    let windows = Windows { frames: frames + 1, before: 1, ..Windows::around(0, 2, 1) };
    for (device, _) in devices() {
        let none = Tensor::zeros([rate * outputs], &device);
        let places = dense::convolve(on(&device, &x), on(&device, &weight), none, windows, None);
        let ours = places.reshape([(frames + 1) * rate, outputs]).narrow(0, rate / 2, rate * frames);
        close("a transposed convolution", ours, burns.clone(), 2e-5);
    }
}

#[test]
fn an_instance_norm_is_two_launches_and_that_of_the_cpu() {
    for [frames, channels] in [[1, 3], [130, 40], [9_000, 33]] {
        // A mean far from 0, so that squares alone would lose the variance.
        let x = random([frames, channels], 2.0) + 30.0;
        let style = random([7 + 2 * channels], 1.0);
        let factors = random([channels], 0.2) + 1.5;
        for (device, on_cpu) in devices() {
            let [x, style, factors] = [x.clone(), style.clone().unsqueeze(), factors.clone().unsqueeze()];
            let twin = |activation| instance_norm(x.clone(), style.clone().squeeze_dim(0), 7, &activation);
            let expected =
                [twin(Activation::LeakyRelu(0.2)), twin(Activation::Snake(Box::new(factors.clone().squeeze_dim(0))))];
            let [x, style, factors] = [&x, &style, &factors].map(|x| on(&device, x));
            let snake = Activation::Snake(Box::new(factors.squeeze_dim(0)));
            for (activation, expected) in [Activation::LeakyRelu(0.2), snake].into_iter().zip(expected) {
                let style = style.clone().squeeze_dim(0);
                let (ours, launches) = count_of(|| instance_norm(x.clone(), style, 7, &activation));
                assert_eq!(launches, if on_cpu { 0 } else { 2 });
                // One frame has no variance: the rounding is multiplied by 300.
                let tolerance = if frames == 1 { 2e-3 } else { 2e-4 };
                close(&format!("{frames} frames, {activation:?}"), ours, expected, tolerance);
            }
        }
    }
}

#[test]
fn a_sequence_in_both_directions_is_one_launch_and_that_of_the_cpu() {
    for [positions, hidden] in [[1, 4], [37, 13], [9, 300]] {
        // The sums of wide outputs stay as small as those of others: the last digits of large ones would grow from step to step.
        let recurrent = random([2, hidden, 4 * hidden], 1.0) / (hidden as f32).sqrt();
        let gates = random([positions, 8 * hidden], 1.0);
        let expected = bidirectional_lstm(gates.clone(), recurrent.clone());
        for (device, on_cpu) in devices() {
            let (gates, recurrent) = (on(&device, &gates), on(&device, &recurrent));
            let (ours, launches) = count_of(|| bidirectional_lstm(gates, recurrent));
            assert_eq!(launches, usize::from(!on_cpu));
            close(&format!("{positions} positions of {hidden}"), ours, expected.clone(), 1e-5);
        }
    }
}

#[test]
fn a_transform_of_a_whole_utterance_is_that_of_a_stream() {
    for [frames, length, hop] in [[1, 20, 5], [2, 20, 5], [33, 20, 5], [9, 16, 8], [12, 12, 5]] {
        let values = random([frames, length + 2], 1.5);
        let window = hann(length);
        let expected = polar_istft(values.clone(), window.clone(), hop);
        assert_eq!(expected.dims(), [(frames - 1) * hop]);
        for (device, on_cpu) in devices() {
            let (values, window) = (on(&device, &values), on(&device, &window));
            let (ours, launches) = count_of(|| polar_istft(values, window, hop));
            assert_eq!(launches, usize::from(!on_cpu && frames > 1));
            close(&format!("{frames} frames of {length} by {hop}"), ours, expected.clone(), 1e-4);
        }
    }
}

#[test]
fn sines_that_grow_from_value_to_value_are_one_launch_and_those_of_the_cpu() {
    for [values, count, span] in [[1, 1, 4], [17, 9, 300]] {
        let (turns, weights) = (random([values, count, 2], 20.0), random([count], 0.3));
        let (levels, beside) = (random([values], 0.5), random([values * span], 0.2));
        let expected = harmonics(turns.clone(), weights.clone(), levels.clone(), beside.clone());
        for (device, on_cpu) in devices() {
            let turns = on(&device, &turns);
            let [weights, levels, beside] = [&weights, &levels, &beside].map(|x| on(&device, x));
            let (ours, launches) = count_of(|| harmonics(turns, weights, levels, beside));
            assert_eq!(launches, usize::from(!on_cpu));
            // A turn of 60 has six digits behind the point.
            close(&format!("{count} harmonics of {values} values"), ours, expected.clone(), 1e-4);
        }
    }
}

#[test]
fn spectra_of_a_whole_utterance_are_one_launch_and_those_of_the_cpu() {
    for [samples, length, hop] in [[1, 20, 5], [10, 20, 5], [300, 20, 5], [77, 16, 8]] {
        let signal = random([samples], 1.0);
        let window = hann(length);
        let expected = polar_stft(signal.clone(), window.clone(), hop);
        assert_eq!(expected.dims(), [samples / hop + 1, length + 2]);
        // A small magnitude has any phase: points are compared.
        let points = |spectra: Tensor<2>| {
            let bins = length / 2 + 1;
            let [magnitudes, phases] = [0, bins].map(|first| spectra.clone().narrow(1, first, bins));
            Tensor::cat(vec![magnitudes.clone() * phases.clone().cos(), magnitudes * phases.sin()], 1)
        };
        for (device, on_cpu) in devices() {
            let (signal, window) = (on(&device, &signal), on(&device, &window));
            let (ours, launches) = count_of(|| polar_stft(signal, window, hop));
            assert_eq!(launches, usize::from(!on_cpu));
            let ours = on(&Device::flex(), &ours);
            // The first frequency is a real number.
            let first = Oracle::values(ours.clone().narrow(1, length / 2 + 1, 1));
            assert!(first.iter().all(|phase| *phase == 0.0 || (phase - std::f32::consts::PI).abs() < 1e-6));
            close(&format!("{samples} samples by {hop}"), points(ours), points(expected.clone()), 1e-5);
        }
    }
}

#[test]
fn the_gelu_of_a_hyperbolic_tangent_and_a_norm_with_a_small_epsilon_are_those_of_the_cpu() {
    let (x, bias) = (random([5, 37], 3.0), random([37], 1.0));
    for (device, _) in devices() {
        let [x_there, bias_there] = [&x, &bias.clone().unsqueeze()].map(|x| on(&device, x));
        let bias_there = bias_there.squeeze_dim::<1>(0);
        // The definition.
        let of = |x: Tensor<2>| {
            let inner = (x.clone() + x.clone().powi_scalar(3) * 0.044_715) * (2.0 / std::f64::consts::PI).sqrt();
            x * 0.5 * (inner.tanh() + 1.0)
        };
        close("GELU", activation::gelu_tanh(x_there.clone()), of(x.clone()), 1e-5);
        let biased = activate(x_there.clone(), bias_there.clone(), Function::GeluTanh);
        close("GELU with a bias", biased, of(x.clone() + bias.clone().unsqueeze()), 1e-5);
        // The variance is of the size of the epsilon that is not asked for.
        let small = layer_norm_with(x_there * 1e-3, bias_there.clone(), bias_there, 1e-12);
        let centred = x.clone() - x.clone().mean_dim(1);
        let deviation = (centred.clone() * centred.clone()).mean_dim(1).sqrt();
        close("a norm", small, centred / deviation * bias.clone().unsqueeze() + bias.clone().unsqueeze(), 1e-4);
    }
}

/// A step of each of two streams at a time, in slots of a ring beside others: a convolution of the whole, also where a step runs twice.
#[test]
fn steps_of_streams_are_a_causal_convolution_of_the_whole() {
    // Inputs, outputs, taps, frames of a step.
    for [inputs, outputs, taps, frames] in
        [[5usize, 70, 7, 16], [34, 3, 3, 40], [6, 4, 2, 1], [9, 5, 4, 2], [3, 1, 3, 700]]
    {
        let (steps, columns) = (4, frames * (1 + (taps - 1).div_ceil(frames)));
        let x = random([2, steps * frames, inputs], 1.0);
        let (published, bias) = (random([outputs, inputs, taps], 0.3), random([outputs], 1.0));
        let turned =
            Tensor::cat(vec![Tensor::zeros([2, taps - 1, inputs], &Device::flex()), activation_elu(x.clone())], 1);
        let options = ConvOptions::new([1], [0], [1], 1);
        let burns = module::conv1d(turned.swap_dims(1, 2), published.clone(), Some(bias.clone()), options);
        let residual = random([2, steps * frames, outputs], 1.0);
        let burns = burns.swap_dims(1, 2) + residual.clone();
        let weight = published.permute([2, 1, 0]).reshape([taps * inputs, outputs]);
        for (device, on_cpu) in devices() {
            let there = |x: &Tensor<3>, step: usize| on(&device, &x.clone().narrow(1, step * frames, frames));
            let convolution = StreamConvolution {
                weight: on(&device, &weight),
                bias: on(&device, &bias.clone().unsqueeze::<2>()).squeeze_dim(0),
                has_elu: true,
            };
            // Values of the slots' former streams do not count.
            let of = |width: usize| on(&device, &random([5, columns, width], 3.0));
            let (mut seen, mut kept, mut written) = (of(inputs), of(outputs), of(outputs));
            for step in 0..steps {
                let rows = |written: usize| [3, 1].map(|slot| RowFrames { slot, written, new: 0..1 }).to_vec();
                let [now, next] = [step, step + 1].map(|written| StepFrames::new(rows(written), &device));
                for _ in 0..2 {
                    seen = store_step(seen, &now, there(&x, step));
                    kept = store_step(kept, &now, there(&residual, step));
                    let ring = StreamFrames::ring(seen.clone(), frames);
                    let residual_here = StreamFrames::of_step(there(&residual, step));
                    let (ours, launches) = count_of(|| convolution.forward(&ring, Some(&residual_here), &now));
                    assert_eq!(launches, usize::from(!on_cpu));
                    let what = format!("{inputs} to {outputs}, {taps} taps, step {step}");
                    let expected = burns.clone().narrow(1, step * frames, frames);
                    close(&what, ours, expected.clone(), 3e-5);
                    // The same from ring to ring, a step later there.
                    let kept = StreamFrames::ring(kept.clone(), frames);
                    let to = StreamFrames::ring(written, frames);
                    written = convolution.write(&ring, Some(&kept), [&now, &next], to).into_values();
                    for (row, slot) in [3, 1].into_iter().enumerate() {
                        let columns: Vec<i32> =
                            (0..frames).map(|at| (((step + 1) * frames + at) % columns) as i32).collect();
                        let columns = Tensor::from_data(TensorData::new(columns, [frames]), &device);
                        let ours = written.clone().narrow(0, slot, 1).select(1, columns);
                        close(&what, ours, expected.clone().narrow(0, row, 1), 3e-5);
                    }
                }
            }
        }
    }
}

/// A step's frames in their places of a ring, by the ring's own kernel.
fn store_step(ring: Tensor<3>, steps: &StepFrames, new: Tensor<3>) -> Tensor<3> {
    let ([slots, columns, width], [rows, frames, _]) = (ring.dims(), new.dims());
    assert!(columns.is_multiple_of(frames), "whole steps");
    let ring = ring.reshape([slots, 1, columns / frames, frames * width]);
    store(ring, steps, new.reshape([rows, 1, 1, frames * width])).reshape([slots, columns, width])
}

fn activation_elu(x: Tensor<3>) -> Tensor<3> {
    let below = x.clone().clamp_max(0.0).exp() - 1.0;
    x.clamp_min(0.0) + below
}

#[test]
fn frames_of_a_step_alone_are_multiplied_and_added() {
    let (x, weight, bias, residual) =
        (random([3, 2, 37], 1.0), random([37, 50], 0.3), random([50], 1.0), random([3, 2, 50], 1.0));
    let expected = x.clone().matmul(weight.clone().unsqueeze()) + bias.clone().unsqueeze() + residual.clone();
    for (device, _) in devices() {
        let rows = vec![RowFrames { slot: 0, written: 0, new: 0..1 }; 3];
        let steps = StepFrames::new(rows, &device);
        let convolution = StreamConvolution {
            weight: on(&device, &weight),
            bias: on(&device, &bias.clone().unsqueeze::<2>()).squeeze_dim(0),
            has_elu: false,
        };
        let [x, residual] = [&x, &residual].map(|x| StreamFrames::of_step(on(&device, x)));
        close("a product", convolution.forward(&x, Some(&residual), &steps), expected.clone(), 2e-5);
    }
}

#[test]
fn a_modulated_norm_is_one_launch_and_its_definition() {
    for [rows, size] in [[1, 4], [3, 20], [5, 513]] {
        let width = 6 * size + 3;
        let [x, residual] = [(); 2].map(|()| random([rows, size], 2.0));
        let modulations = random([rows, width], 0.5);
        let norm = [random([size], 1.0), random([size], 1.0)];
        let part = |first: usize| modulations.clone().narrow(1, first, size);
        let (first, gate) = (2 * size + 3, size);
        let of = |sum: Tensor<2>| {
            let centred = sum.clone() - sum.mean_dim(1);
            let deviation = ((centred.clone() * centred.clone()).mean_dim(1) + 1e-6).sqrt();
            let [gamma, beta] = norm.clone().map(Tensor::unsqueeze);
            (centred / deviation * gamma + beta) * (part(first + size) + 1.0) + part(first)
        };
        let sum = residual.clone() + x.clone() * part(gate);
        for (device, on_cpu) in devices() {
            let ours = ModulatedNorm {
                norm: norm.clone().map(|values| on(&device, &values.unsqueeze::<2>()).squeeze_dim(0)),
                epsilon: 1e-6,
                first,
                gate,
            };
            let [x_there, residual, modulations] = [&x, &residual, &modulations].map(|x| on(&device, x));
            let (added, launches) = count_of(|| ours.forward_added(residual, x_there.clone(), &modulations));
            assert_eq!(launches, usize::from(!on_cpu));
            let [added, normed] = added;
            close("a gated sum", added, sum.clone(), 1e-5);
            close("its norm", normed, of(sum.clone()), 1e-4);
            close("a norm alone", ours.forward(x_there, &modulations), of(x.clone()), 1e-4);
        }
    }
}
