//! Matrix products of every division, against burn's on the CPU, in 32 and in 16 bits.

use auricle_kernels::activation::Activation;
use auricle_kernels::launches::count;
use auricle_kernels::product::epilogue;
use auricle_kernels::product::float::UnitTile;
use auricle_kernels::product::float::{Division, Tile, biased_product, divided_product, product};
use auricle_tests::{Oracle, devices};
use burn::tensor::{DType, Device, Distribution, Tensor};

/// The largest difference of two products of `depth` terms near 1.
fn off(ours: Tensor<2>, burns: &Tensor<2>) -> f32 {
    assert_eq!(ours.dims(), burns.dims());
    let pairs = Oracle::values(ours).into_iter().zip(Oracle::values(burns.clone()));
    // A NaN is no small difference.
    pairs.map(|(ours, burns)| (ours - burns).abs()).fold(0.0, |most, off| if off <= most { most } else { off })
}

#[test]
fn every_division_gives_burns_product() {
    let tiles = [
        [16, 32, 4, 4, 8, 8],
        [32, 32, 4, 4, 4, 8],
        [64, 32, 4, 4, 2, 16],
        [64, 64, 8, 4, 2, 8],
        [128, 128, 8, 8, 1, 8],
    ];
    let tiles = tiles.map(|[rows, columns, unit_rows, unit_columns, groups, depth]| {
        Division::Tiles(Tile { rows, columns, unit_rows, unit_columns, groups, depth })
    });
    let vectors = [64, 256].map(|units| Division::Vectors { units });
    let divisions: Vec<Division> =
        [4, 8, 32].map(|columns| Division::Columns { columns }).into_iter().chain(tiles).chain(vectors).collect();
    for (device, on_cpu) in devices() {
        for [rows, depth, columns] in
            [[1, 1, 1], [1, 37, 5], [3, 256, 96], [8, 1000, 76], [11, 300, 20], [33, 20, 70], [150, 65, 132]]
        {
            let random =
                |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex());
            let (x, weight) = (random([rows, depth]), random([depth, columns]));
            let burns = x.clone().matmul(weight.clone());
            let (x, weight) = (x.to_device(&device), weight.to_device(&device));
            for division in &divisions {
                if rows > 8 && matches!(division, Division::Columns { .. }) {
                    continue;
                }
                let what = format!("{rows} x {depth} x {columns}, {division:?}");
                let (ours, launches) = count(|| divided_product(x.clone(), weight.clone(), *division));
                assert!(on_cpu || launches.total() == 1, "{what}: {:?}", launches.by_kernel());
                let error = off(ours, &burns);
                assert!(error < 2e-6 * depth as f32 + 1e-5, "{what}: {error}");
                if !on_cpu && device.supports_dtype(DType::F16) {
                    let half = |x: &Tensor<2>| x.clone().cast(DType::F16);
                    let ours = divided_product(half(&x), half(&weight), *division).cast(DType::F32);
                    let error = off(ours, &burns);
                    assert!(error < 4e-3 * (depth as f32).sqrt(), "{what} in 16 bits: {error}");
                }
            }
            let deep = x.clone().reshape([1, rows, depth]);
            let ours = product(deep, weight.clone()).reshape([rows, columns]);
            assert!(off(ours, &burns) < 2e-6 * depth as f32 + 1e-5, "{rows} x {depth} x {columns}");
        }
    }
}

/// Rows that are no whole number of matrices or tiles, and tiles that are larger than the product; without matrix units another division
/// computes it.
#[test]
fn matrix_units_give_burns_product() {
    for (device, on_cpu) in devices() {
        if on_cpu || !device.supports_dtype(DType::F16) {
            continue;
        }
        for [rows, depth, columns] in [[1, 64, 16], [150, 64, 96], [300, 128, 272], [257, 1024, 512]] {
            let random = |shape: [usize; 2]| {
                Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex()).cast(DType::F16)
            };
            let (x, weight) = (random([rows, depth]), random([depth, columns]));
            let burns = x.clone().cast(DType::F32).matmul(weight.clone().cast(DType::F32));
            let (x, weight) = (x.to_device(&device), weight.to_device(&device));
            let tiles = [
                [64, 64, 32, 2, 2, 2],
                [64, 128, 32, 2, 2, 1],
                [128, 128, 32, 2, 2, 1],
                [128, 128, 32, 2, 4, 2],
                [128, 128, 64, 2, 2, 1],
            ];
            let tiles = tiles.map(|[rows, columns, depth, planes_down, planes_along, buffers]| {
                Division::Units(UnitTile { rows, columns, depth, planes_down, planes_along, buffers })
            });
            for tile in tiles {
                let wide = divided_product(x.clone().cast(DType::F32), weight.clone(), tile);
                let error = off(wide, &burns);
                assert!(error < 2e-6 * depth as f32 + 1e-4, "{rows} x {depth} x {columns}, {tile:?}: {error}");
                let ours = divided_product(x.clone(), weight.clone(), tile).cast(DType::F32);
                let error = off(ours, &burns);
                assert!(
                    error < 4e-3 * (depth as f32).sqrt(),
                    "{rows} x {depth} x {columns}, {tile:?} in 16 bits: {error}"
                );
            }
        }
    }
}

/// In one launch on GPUs, where no matrix units compute the product; weights may have half the bits of inputs.
#[test]
fn a_bias_and_an_activation_follow_in_the_same_launch() {
    for (device, on_cpu) in devices() {
        for [rows, depth, columns] in [[1, 64, 40], [5, 37, 18], [20, 48, 66]] {
            let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
            let (x, weight) = (random([rows, depth]), random([depth, columns]));
            let bias = random([1, columns]).squeeze_dim::<1>(0);
            let stored = if on_cpu || !device.supports_dtype(DType::F16) {
                vec![DType::F32]
            } else {
                vec![DType::F32, DType::F16]
            };
            for dtype in stored {
                let weight = weight.clone().cast(dtype);
                let apart = product(x.clone(), weight.clone().cast(DType::F32));
                for activation in [None, Some(Activation::Relu), Some(Activation::Gelu), Some(Activation::Glu)] {
                    let wanted = match activation {
                        None => apart.clone() + bias.clone().unsqueeze(),
                        Some(activation) => epilogue::activate(apart.clone(), bias.clone(), activation),
                    };
                    let compute = || biased_product(x.clone(), weight.clone(), bias.clone(), activation);
                    let (found, launches) = count(compute);
                    let allowed = if activation == Some(Activation::Glu) { 2 } else { 1 };
                    assert!(on_cpu || launches.total() <= allowed, "{:?}", launches.by_kernel());
                    let error = off(found, &wanted);
                    assert!(error < 2e-5, "{rows} x {depth} x {columns}, {dtype:?}, {activation:?}: {error}");
                }
            }
        }
    }
}
