//! The sigmoid gates against burn's own operations, on the CPU and on a Vulkan adapter, for shapes of every kind.

use auricle_kernels::gate;
use auricle_tests::{Oracle, devices};
use burn::tensor::{Distribution, Tensor, activation};

#[test]
fn gates_equal_burns_operations_for_any_shape() {
    for (device, _) in devices() {
        for shape in [[1, 1, 2], [1, 3, 6], [2, 7, 34], [1, 375, 512], [3, 1, 70_000]] {
            let x = Tensor::<3>::random(shape, Distribution::Normal(0.0, 6.0), &device);
            let close = |ours: Tensor<3>, burns: Tensor<3>| {
                assert_eq!(ours.dims(), burns.dims());
                let worst = (ours - burns).abs().max().into_scalar::<f32>();
                assert!(worst <= 1e-5, "{shape:?}: {worst}");
            };
            close(gate::silu(x.clone()), activation::silu(x.clone()));
            close(gate::glu(x.clone()), activation::glu(x.clone(), 2));
            // A view that is not contiguous.
            let turned = x.clone().swap_dims(0, 1);
            close(gate::silu(turned.clone()), activation::silu(turned.clone()));
            close(gate::glu(turned.clone()), activation::glu(turned, 2));
        }
    }
}

#[test]
fn gates_keep_to_the_limits() {
    let device = burn::tensor::Device::flex();
    let x = Tensor::<1>::from_floats([-1e30, -200.0, 0.0, 200.0, 1e30], &device);
    assert_eq!(Oracle::values(gate::silu(x))[2..], [0.0, 200.0, 1e30]);
    let x = Tensor::<1>::from_floats([3.0, 5.0, 200.0, -1000.0], &device);
    let out = Oracle::values(gate::glu(x));
    assert!(out[0] == 3.0 && out[1].abs() < 1e-30, "{out:?}");
}
