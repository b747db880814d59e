//! Matrix products of every division, against burn's on the CPU, in 32 and in 16 bits.

use auricle_kernels::launches::count;
use auricle_kernels::product::{Division, Tile, divided_product, product};
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
    let divisions: Vec<Division> =
        [4, 8, 32].map(|columns| Division::Columns { columns }).into_iter().chain(tiles).collect();
    for (device, on_cpu) in devices() {
        for [rows, depth, columns] in [[1, 1, 1], [1, 37, 5], [3, 256, 96], [8, 1000, 77], [33, 20, 70], [150, 65, 130]]
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
