//! Epilogues of products and the convolution of a conformer, each one launch, against burn's own operations, on the CPU and on a Vulkan
//! adapter.

use auricle_kernels::activation::Activation;
use auricle_kernels::cache::ring::{RowFrames, StepFrames, store};
use auricle_kernels::convolution::depthwise::DepthwiseConv;
use auricle_kernels::launches::count;
use auricle_kernels::product::epilogue::{activate, add, add_and_norm, add_and_norm_twice};
use auricle_tests::{Oracle, devices};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Distribution, Tensor, activation, module};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.3, 1.5), device)
}

fn close<const D: usize>(what: &str, ours: Tensor<D>, burns: Tensor<D>) {
    assert_eq!(ours.dims(), burns.dims(), "{what}");
    let pairs = Oracle::values(ours).into_iter().zip(Oracle::values(burns));
    let worst = pairs.map(|(ours, burns)| (ours - burns).abs() / (burns.abs() + 1.0));
    // A NaN is not close.
    assert!(worst.into_iter().all(|off| off < 2e-5), "{what}");
}

#[test]
fn what_follows_a_product_is_one_launch() {
    for (device, on_cpu) in devices() {
        for [rows, frames, size] in [[1, 1, 2], [2, 3, 34], [1, 112, 256], [3, 5, 1024]] {
            let [x, residual] = [(); 2].map(|()| random([rows, frames, size], &device));
            let turned = random([frames, rows, size], &device).swap_dims(0, 1);
            let [bias, gamma, beta, next_gamma, next_beta] = [(); 5].map(|()| random::<1>([size], &device));
            let biased = |x: Tensor<3>| x + bias.clone().unsqueeze();
            let one = |launches: usize| assert!(on_cpu || launches == 1, "{launches} launches");
            for (function, burns) in [
                (Activation::Relu, activation::relu(biased(x.clone()))),
                (Activation::Silu, activation::silu(biased(x.clone()))),
                (Activation::Gelu, activation::gelu(biased(x.clone()))),
                (Activation::Glu, activation::glu(biased(x.clone()), 2)),
            ] {
                let (ours, launches) = count(|| activate(x.clone(), bias.clone(), function));
                one(launches.total());
                close(&format!("{function:?} of {size}"), ours, burns);
            }
            let (ours, launches) = count(|| add(residual.clone(), x.clone(), bias.clone()));
            one(launches.total());
            close("the sum", ours, residual.clone() + biased(x.clone()));
            close("of a view", add(turned.clone(), x.clone(), bias.clone()), turned.clone() + biased(x.clone()));

            let norm = |x: Tensor<3>, gamma: &Tensor<1>, beta: &Tensor<1>| {
                module::layer_norm(x, gamma.clone(), Some(beta.clone()), 1e-5)
            };
            for residual in [residual, turned] {
                let is_view = !on_cpu && residual.dims() != [0; 3];
                let sum = residual.clone() + biased(x.clone());
                let ([ours, normed], launches) =
                    count(|| add_and_norm(residual.clone(), x.clone(), bias.clone(), gamma.clone(), beta.clone()));
                assert!(!is_view || launches.total() <= 2, "{:?}", launches.by_kernel());
                close("the sum before a norm", ours, sum.clone());
                let once = norm(sum, &gamma, &beta);
                close("the norm", normed, once.clone());
                let norms = [[gamma.clone(), beta.clone()], [next_gamma.clone(), next_beta.clone()]];
                let [ours, next] = add_and_norm_twice(residual.clone(), x.clone(), bias.clone(), norms);
                let twice = norm(once.clone(), &next_gamma, &next_beta);
                close("the first of two norms", ours, once);
                close("the second", next, twice);
            }
        }
    }
}

/// A whole utterance, with frames that are not real.
#[test]
fn a_convolution_over_frames_is_that_of_burn() {
    for (device, on_cpu) in devices() {
        for (frames, channels, taps, has_norm) in
            [(1, 8, 9, true), (20, 34, 5, false), (70, 256, 9, true), (3, 300, 1, true)]
        {
            let (x, real) = (random([2, frames, channels], &device), [0..frames, frames / 4..frames - frames / 3]);
            let weight = random([taps, channels], &device);
            let [bias, gamma, beta] = [(); 3].map(|()| random::<1>([channels], &device));
            let convolution = DepthwiseConv {
                weight: weight.clone(),
                bias: bias.clone(),
                norm: has_norm.then(|| [gamma.clone(), beta.clone()]),
            };
            let rows = real.clone().map(|new| RowFrames { slot: 0, written: 0, new });
            let step = StepFrames::new(rows.to_vec(), &device);
            let (ours, launches) = count(|| convolution.forward(x.clone(), None, &step));
            assert!(on_cpu || launches.total() == 1, "{:?}", launches.by_kernel());
            for (row, real) in real.into_iter().enumerate() {
                let zeros = |count: usize| Tensor::<3>::zeros([1, count, channels], &device);
                let heard = x.clone().narrow(0, row, 1).narrow(1, real.start, real.len());
                let heard = Tensor::cat(vec![zeros(real.start), heard, zeros(frames - real.end)], 1);
                let options = ConvOptions::new([1], [taps / 2], [1], channels);
                let kernel = weight.clone().swap_dims(0, 1).unsqueeze_dim::<3>(1);
                let y = module::conv1d(heard.swap_dims(1, 2), kernel, Some(bias.clone()), options).swap_dims(1, 2);
                let y = match has_norm {
                    true => module::layer_norm(y, gamma.clone(), Some(beta.clone()), 1e-5),
                    false => y,
                };
                let what = format!("{frames} frames, {channels} channels, {taps} taps");
                close(&what, ours.clone().narrow(0, row, 1), activation::silu(y));
            }
        }
    }
}

/// Streams in steps of any length give what the same frames give at once; a ring column that no stream has written holds no number.
#[test]
fn a_convolution_over_a_ring_is_that_over_all_frames() {
    for (device, _) in devices() {
        for (taps, steps) in [(9, vec![1; 20]), (9, vec![4, 1, 14, 2]), (3, vec![3, 1, 1])] {
            let (channels, total) = (34, steps.iter().sum());
            let whole = random([2, total, channels], &device);
            let convolution = DepthwiseConv {
                weight: random([taps, channels], &device),
                bias: random([channels], &device),
                norm: Some([random([channels], &device), random([channels], &device)]),
            };
            // The taps of a frame are its own and those before it: as many zeros in front, and the first frames left out.
            let zeros = Tensor::<3>::zeros([2, taps - 1 - taps / 2, channels], &device);
            let longer = Tensor::cat(vec![zeros.clone(), whole.clone()], 1);
            let all = StepFrames::alone(2, 0..total + taps - 1 - taps / 2, &device);
            let wanted = convolution.forward(longer, None, &all).narrow(1, 0, total);

            let mut ring = Tensor::<4>::full([4, 1, taps - 1, channels], f32::NAN, &device);
            let mut at = 0;
            for frames in steps {
                let rows = [3, 1].map(|slot| RowFrames { slot, written: at, new: 0..frames });
                let step = StepFrames::new(rows.to_vec(), &device);
                let x = whole.clone().narrow(1, at, frames);
                let ours = convolution.forward(x.clone(), Some(&ring), &step);
                ring = store(ring, &step, x.unsqueeze_dim(1));
                close(&format!("{taps} taps, frame {at}"), ours, wanted.clone().narrow(1, at, frames));
                at += frames;
            }
        }
    }
}
