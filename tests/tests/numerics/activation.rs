//! The sigmoid gates, GELU and layer norm against burn's own operations, on the CPU and on a Vulkan adapter, for many
//! shapes.

use auricle_kernels::activation as kernels;
use auricle_kernels::norm::layer_norm;
use auricle_kernels::recurrent::lstm::cell_batch;
use auricle_tests::{Oracle, devices};
use burn::tensor::{Device, Distribution, Tensor, activation, module};

#[test]
fn fused_activations_equal_burns_operations_for_any_shape() {
    for (device, _) in devices() {
        for shape in [[1, 1, 2], [1, 3, 6], [2, 7, 34], [1, 375, 512], [3, 1, 70_000]] {
            let x = Tensor::<3>::random(shape, Distribution::Normal(0.0, 6.0), &device);
            let close = |ours: Tensor<3>, burns: Tensor<3>| {
                assert_eq!(ours.dims(), burns.dims());
                let worst = ((ours - burns.clone()).abs() / (burns.abs() + 1.0)).max().into_scalar::<f32>();
                assert!(worst <= 1e-5, "{shape:?}: {worst}");
            };
            close(kernels::relu(x.clone()), activation::relu(x.clone()));
            close(kernels::silu(x.clone()), activation::silu(x.clone()));
            close(kernels::glu(x.clone()), activation::glu(x.clone(), 2));
            // A view that is not contiguous.
            let turned = x.clone().swap_dims(0, 1);
            close(kernels::silu(turned.clone()), activation::silu(turned.clone()));
            close(kernels::glu(turned.clone()), activation::glu(turned.clone(), 2));
            close(kernels::gelu(x.clone()), activation::gelu(x.clone()));
            close(kernels::gelu(turned.clone()), activation::gelu(turned.clone()));
            let weights = |of: f32| Tensor::<1>::random([shape[2]], Distribution::Normal(of.into(), 0.3), &device);
            let (gamma, beta) = (weights(1.0), weights(0.0));
            let burns = |x: Tensor<3>| module::layer_norm(x, gamma.clone(), Some(beta.clone()), 1e-5);
            close(layer_norm(x.clone(), gamma.clone(), beta.clone()), burns(x));
            close(layer_norm(turned.clone(), gamma.clone(), beta.clone()), burns(turned));
        }
    }
}

#[test]
fn activations_of_slices_equal_their_definitions() {
    let values: Vec<f32> = (-2000..2000).map(|at| at as f32 * 0.013).chain([0.0, -0.0, 1e30, -1e30]).collect();
    fn elu(x: f64) -> f64 {
        if x > 0.0 { x } else { x.exp_m1() }
    }
    fn gelu_tanh(x: f64) -> f64 {
        0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh())
    }
    type Case = (fn(&mut [f32]), fn(f64) -> f64);
    let cases: [Case; 2] = [(kernels::elu_in_place, elu), (kernels::gelu_tanh_in_place, gelu_tanh)];
    for (number, (ours, exact)) in cases.into_iter().enumerate() {
        let mut out = values.clone();
        ours(&mut out);
        for (x, out) in values.iter().zip(out) {
            let exact = exact(f64::from(*x));
            assert!(
                (f64::from(out) - exact).abs() <= 1e-6 * (1.0 + exact.abs()),
                "{number}, {x}: {out} against {exact}"
            );
        }
    }
}

#[test]
fn an_lstm_step_on_a_device_equals_the_cpu() {
    for (device, _) in devices() {
        for (rows, hidden) in [(1, 5), (3, 640), (64, 32)] {
            let random = |width: usize, device: &Device| {
                let values: Vec<f32> = (0..rows * width).map(|n| (n as f32 * 0.37).sin() * 30.0).collect();
                Tensor::<1>::from_floats(values.as_slice(), device).reshape([rows, width])
            };
            // The cell state is a view into a wider tensor.
            let step = |device: &Device| {
                cell_batch(random(4 * hidden, device), random(3 * hidden, device).narrow(1, hidden, hidden))
            };
            let (ours, cpu) = (Oracle::values(step(&device)), Oracle::values(step(&Device::flex())));
            assert_eq!(ours.len(), rows * 2 * hidden);
            let worst = ours.iter().zip(&cpu).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{rows} rows of {hidden}: {worst}");
        }
    }
}

#[test]
fn activations_at_extreme_inputs_are_at_their_limits() {
    let device = Device::flex();
    let x = Tensor::<1>::from_floats([-1e30, -200.0, 0.0, 200.0, 1e30], &device);
    assert_eq!(Oracle::values(kernels::silu(x))[2..], [0.0, 200.0, 1e30]);
    let x = Tensor::<1>::from_floats([3.0, 5.0, 200.0, -1000.0], &device);
    let out = Oracle::values(kernels::glu(x));
    assert!(out[0] == 3.0 && out[1].abs() < 1e-30, "{out:?}");
}
