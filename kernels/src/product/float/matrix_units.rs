//! Matrix products of 16-bit values on a card's matrix units. A cube computes a tile of the product: its planes share the values of a step
//! of the depth in shared memory, where rows lie apart so that matrices are read without bank conflicts, and each holds a part of the
//! tile in its registers. The values of the next step are on their way meanwhile.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use burn::tensor::Slice;
use cubecl::cmma::{self, MatrixIdent, MatrixLayout};
use cubecl::features;
use cubecl::prelude::*;

use super::UnitTile;

/// Values that a unit reads at a time.
const LANES: usize = 8;
/// Units of a plane.
const PLANE: usize = 32;
/// Rows, columns and depth of a matrix of the units.
const EDGE: usize = 16;

impl UnitTile {
    fn units(&self) -> usize {
        self.planes_down * self.planes_along * PLANE
    }

    /// Vectors of a row of inputs, and of a row of weights, in shared memory.
    fn pitches(&self) -> [usize; 2] {
        [self.depth / LANES + 1, self.columns / LANES + 1]
    }

    /// Vectors of one buffer of inputs and of one of weights.
    fn sizes(&self) -> [usize; 2] {
        [self.rows * self.pitches()[0], self.depth * self.pitches()[1]]
    }

    fn shared_bytes(&self) -> usize {
        self.buffers * self.sizes().iter().sum::<usize>() * LANES * 2
    }
}

/// `x` `[rows, depth]` times `weight` `[depth, columns]`, contiguous and of 16 bits, in `dtype`; none if the card or the shape does not
/// fit the tile.
pub fn product(
    x: &FloatTensor<Cube>,
    weight: &FloatTensor<Cube>,
    dtype: FloatDType,
    tile: UnitTile,
) -> Option<FloatTensor<Cube>> {
    let (client, device) = (x.client.clone(), x.device());
    let (rows, depth, columns) = (x.shape()[0], x.shape()[1], weight.shape()[1]);
    let properties = client.properties();
    let hardware = &properties.hardware;
    let (half, full) = (dtype_to_storage_type(FloatDType::F16.into()), dtype_to_storage_type(FloatDType::F32.into()));
    let has_units = properties.features.matmul.cmma.iter().any(|units| {
        [units.m, units.n, units.k].map(|edge| edge as usize) == [EDGE; 3]
            && (units.a_type, units.b_type, units.cd_type) == (half, half, full)
    });
    let fits = has_units
        && properties.features.plane.contains(features::Plane::Ops)
        && [hardware.plane_size_min, hardware.plane_size_max] == [PLANE as u32; 2]
        && tile.units() <= hardware.max_units_per_cube as usize
        && tile.shared_bytes() <= hardware.max_shared_memory_size
        && [x.dtype, weight.dtype] == [FloatDType::F16.into(); 2]
        && depth.is_multiple_of(tile.depth)
        && columns.is_multiple_of(EDGE);
    if !fits {
        return None;
    }
    // Matrices are written whole: rows beyond the last are cut off again.
    let whole = rows.next_multiple_of(EDGE);
    let out = Cube::float_empty([whole, columns].into(), &device, dtype);
    product_kernel::launch(
        &client,
        CubeCount::Static(columns.div_ceil(tile.columns) as u32, rows.div_ceil(tile.rows) as u32, 1),
        CubeDim::new_2d(PLANE as u32, (tile.planes_down * tile.planes_along) as u32),
        x.clone().binding().into_buffer_arg(),
        weight.clone().binding().into_buffer_arg(),
        out.clone().binding().into_buffer_arg(),
        rows as u32,
        depth as u32,
        columns as u32,
        tile,
        half,
        dtype_to_storage_type(dtype.into()),
    );
    Some(if whole == rows { out } else { Cube::float_slice(out, &[Slice::from(0..rows)]) })
}

/// One cube per tile. `out` has rows for whole matrices.
#[cube(launch)]
fn product_kernel<F: Float, O: Float>(
    x: &[Vector<F, Const<LANES>>],
    weight: &[Vector<F, Const<LANES>>],
    out: &mut [O],
    rows: u32,
    depth: u32,
    columns: u32,
    #[comptime] tile: UnitTile,
    #[define(F)] _dtype: ElemType,
    #[define(O)] _out_dtype: ElemType,
) {
    let [x_pitch, weight_pitch] = comptime!(tile.pitches());
    let [x_size, weight_size] = comptime!(tile.sizes());
    let buffers = comptime!(tile.buffers);
    let mut shared_x = Shared::<[Vector<F, Const<LANES>>]>::new_slice(comptime!(tile.buffers * tile.sizes()[0]));
    let mut shared_w = Shared::<[Vector<F, Const<LANES>>]>::new_slice(comptime!(tile.buffers * tile.sizes()[1]));
    let units = comptime!(tile.units());
    let (x_row, weight_row) = comptime!((tile.depth / LANES, tile.columns / LANES));
    let x_loads = comptime!((tile.rows * tile.depth / LANES).div_ceil(tile.units()));
    let weight_loads = comptime!((tile.depth * tile.columns / LANES).div_ceil(tile.units()));
    let down = comptime!(tile.rows / tile.planes_down / EDGE);
    let along = comptime!(tile.columns / tile.planes_along / EDGE);

    let plane = UNIT_POS_Y as usize;
    let unit = plane * PLANE + UNIT_POS_X as usize;
    let (plane_down, plane_along) = (plane / comptime!(tile.planes_along), plane % comptime!(tile.planes_along));
    let (rows, depth, columns) = (rows as usize, depth as usize, columns as usize);
    let (row_vectors, column_vectors) = (depth / LANES, columns / LANES);
    let first_row = CUBE_POS_Y as usize * comptime!(tile.rows);
    let first_column = CUBE_POS_X as usize * comptime!(tile.columns);

    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!((tile.rows / tile.planes_down / EDGE) * (tile.columns / tile.planes_along / EDGE)) {
        sums.push(cmma::Matrix::<f32>::from_value(
            MatrixIdent::Accumulator,
            EDGE,
            EDGE,
            EDGE,
            MatrixLayout::Undefined,
            0.0,
        ));
    }
    let mut next_x = Array::<Vector<F, Const<LANES>>>::new(x_loads);
    let mut next_w = Array::<Vector<F, Const<LANES>>>::new(weight_loads);
    let steps = depth / comptime!(tile.depth);
    let mut step = 0usize.runtime();
    // The first round computes nothing, the last loads nothing.
    while step <= steps {
        if step < steps {
            #[unroll]
            for load in 0..x_loads {
                let at = load * units + unit;
                let (r, v) = (at / x_row, at % x_row);
                let mut value = Vector::<F, Const<LANES>>::new(F::new(0.0));
                if r < comptime!(tile.rows) && first_row + r < rows {
                    value = x[(first_row + r) * row_vectors + step * x_row + v];
                }
                next_x[load] = value;
            }
            #[unroll]
            for load in 0..weight_loads {
                let at = load * units + unit;
                let (k, v) = (at / weight_row, at % weight_row);
                let column = first_column / LANES + v;
                let mut value = Vector::<F, Const<LANES>>::new(F::new(0.0));
                if k < comptime!(tile.depth) && column < column_vectors {
                    value = weight[(step * comptime!(tile.depth) + k) * column_vectors + column];
                }
                next_w[load] = value;
            }
        }
        if step > 0 {
            let buffer = (step - 1) % buffers;
            #[unroll]
            for k in 0..comptime!(tile.depth / EDGE) {
                let mut weights = Sequence::<cmma::Matrix<Vector<F, Const<LANES>>>>::new();
                #[unroll]
                for n in 0..along {
                    let column = (plane_along * along + n) * comptime!(EDGE / LANES);
                    let from = buffer * weight_size + k * EDGE * weight_pitch + column;
                    let end = buffer * weight_size + weight_size;
                    weights.push(cmma::Matrix::<Vector<F, Const<LANES>>>::from_slice(
                        MatrixIdent::B,
                        EDGE,
                        EDGE,
                        EDGE,
                        MatrixLayout::RowMajor,
                        &shared_w[from..end],
                        comptime!((tile.pitches()[1] * LANES) as u32),
                    ));
                }
                #[unroll]
                for m in 0..down {
                    let row = (plane_down * down + m) * EDGE;
                    let from = buffer * x_size + row * x_pitch + k * comptime!(EDGE / LANES);
                    let end = buffer * x_size + x_size;
                    let inputs = cmma::Matrix::<Vector<F, Const<LANES>>>::from_slice(
                        MatrixIdent::A,
                        EDGE,
                        EDGE,
                        EDGE,
                        MatrixLayout::RowMajor,
                        &shared_x[from..end],
                        comptime!((tile.pitches()[0] * LANES) as u32),
                    );
                    #[unroll]
                    for n in 0..along {
                        let sum = sums.index(comptime!(m * along + n));
                        cmma::execute(&inputs, weights.index(n), sum, sum);
                    }
                }
            }
        }
        if comptime!(buffers == 1) {
            sync_cube();
        }
        if step < steps {
            let buffer = step % buffers;
            #[unroll]
            for load in 0..x_loads {
                let at = load * units + unit;
                if at < comptime!(tile.rows * tile.depth / LANES) {
                    shared_x[buffer * x_size + at / x_row * x_pitch + at % x_row] = next_x[load];
                }
            }
            #[unroll]
            for load in 0..weight_loads {
                let at = load * units + unit;
                if at < comptime!(tile.depth * tile.columns / LANES) {
                    shared_w[buffer * weight_size + at / weight_row * weight_pitch + at % weight_row] = next_w[load];
                }
            }
        }
        sync_cube();
        step += 1;
    }
    let whole = (rows + comptime!(EDGE - 1)) / EDGE * EDGE;
    let length = out.len();
    #[unroll]
    for m in 0..down {
        #[unroll]
        for n in 0..along {
            let row = first_row + (plane_down * down + m) * EDGE;
            let column = first_column + (plane_along * along + n) * EDGE;
            if row < whole && column < columns {
                let place = row * columns + column;
                let sum: cmma::Matrix<O> = cmma::cast(sums.index(comptime!(m * along + n)));
                cmma::store(&mut out[place..length], &sum, columns as u32, MatrixLayout::RowMajor);
            }
        }
    }
}
