use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Cube, TensorMetadata};
use cubecl::prelude::*;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::multi_level::Strategy;
use cubek::std::InputBinding;

use super::{After, Division, FloatTensor, ProductOps, Tile, matrix_units};
use crate::product::epilogue::finish;

/// Units of a cube in [`Division::Columns`].
const UNITS: usize = 256;

impl ProductOps for Cube {
    fn divided_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        after: After,
        division: Division,
    ) -> FloatTensor<Self> {
        let (x, weight) = (crate::cube::contiguous(x), crate::cube::contiguous(weight));
        let (client, device) = (x.client.clone(), x.device());
        let (rows, depth, columns) = (x.shape()[0], x.shape()[1], weight.shape()[1]);
        let [dtype, weight_dtype] = [x.dtype, weight.dtype].map(dtype_to_storage_type);
        let out = Self::float_empty([rows, columns].into(), &device, crate::cube::float(&x));
        match division {
            Division::Columns { columns: width } => columns_kernel::launch(
                &client,
                crate::cube::cubes(columns.div_ceil(width)),
                CubeDim::new_1d(UNITS as u32),
                x.into_tensor_arg(),
                weight.into_tensor_arg(),
                bias.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                depth as u32,
                columns as u32,
                rows,
                width,
                after,
                dtype,
                weight_dtype,
            ),
            Division::Vectors { units } => {
                if !crate::product::few_rows::product(&x, &weight, bias.clone(), &out, after, units) {
                    let division = Division::without_units([rows, depth, columns]);
                    return Self::divided_product(x, weight, bias, after, division);
                }
            }
            Division::Tiles(tile) => {
                let [down, along] = tile.units();
                tiles_kernel::launch(
                    &client,
                    CubeCount::Static(columns.div_ceil(tile.columns) as u32, rows.div_ceil(tile.rows) as u32, 1),
                    CubeDim::new_1d((down * along * tile.groups) as u32),
                    x.into_tensor_arg(),
                    weight.into_tensor_arg(),
                    bias.into_tensor_arg(),
                    out.clone().into_tensor_arg(),
                    rows as u32,
                    depth as u32,
                    columns as u32,
                    tile,
                    after,
                    dtype,
                    weight_dtype,
                );
            }
            Division::Units(tile) => {
                let inputs = in_type_of(&x, &weight);
                return match matrix_units::product(&inputs, &weight, crate::cube::float(&x), tile) {
                    Some(product) => product,
                    None => Self::divided_product(x, weight, bias, after, Division::Matrix),
                };
            }
            Division::Matrix => {
                let has_units = !client.properties().features.matmul.cmma.is_empty();
                let is_computed = has_units && on_matrix_units(&in_type_of(&x, &weight), &weight, &out);
                if !is_computed {
                    let division = Division::without_units([rows, depth, columns]);
                    return Self::divided_product(x, weight, bias, after, division);
                }
            }
        }
        out
    }
}

/// `x` in the type of `weight`.
fn in_type_of(x: &FloatTensor<Cube>, weight: &FloatTensor<Cube>) -> FloatTensor<Cube> {
    if x.dtype == weight.dtype { x.clone() } else { Cube::float_cast(x.clone(), crate::cube::float(weight)) }
}

/// Writes the batched product of `left` `[.., rows, depth]` and `right` `[.., depth, columns]` to `out`; false if the card's matrix
/// units cannot compute it.
pub(crate) fn on_matrix_units(left: &FloatTensor<Cube>, right: &FloatTensor<Cube>, out: &FloatTensor<Cube>) -> bool {
    let [lhs, rhs, to] = [left, right, out].map(|tensor| dtype_to_storage_type(tensor.dtype));
    let elements = MatmulGlobalElems { lhs, rhs, out: to };
    cubek::matmul::launch::launch_ref(
        &Strategy::SimpleCyclicCmma(Default::default()).into(),
        &out.client,
        InputBinding::new(left.clone().binding(), lhs),
        InputBinding::new(right.clone().binding(), rhs),
        out.clone().binding(),
        &mut MatmulElems::from_globals(&elements),
    )
    .is_ok()
}

/// A cube computes `width` columns of all rows; its units share the depth.
#[cube(launch)]
fn columns_kernel<F: Float, W: Float>(
    x: &Tensor<F>,
    weight: &Tensor<W>,
    bias: &Tensor<f32>,
    out: &mut Tensor<F>,
    depth: u32,
    columns: u32,
    #[comptime] rows: usize,
    #[comptime] width: usize,
    #[comptime] after: After,
    #[define(F)] _dtype: ElemType,
    #[define(W)] _weight_dtype: ElemType,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(rows * UNITS));
    let unit = UNIT_POS as usize;
    let (depth, columns) = (depth as usize, columns as usize);
    let slices = comptime!(UNITS / width);
    let (slice, within) = (unit / width, unit % width);
    let column = (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize * width + within;
    let mut sums = Array::<f32>::new(rows);
    #[unroll]
    for row in 0..rows {
        sums[row] = f32::new(0.0);
    }
    if column < columns {
        let mut at = slice;
        // Several loads are under way at a time.
        while at + comptime!(3 * (UNITS / width)) < depth {
            let mut values = Array::<f32>::new(4usize);
            #[unroll]
            for next in 0..4usize {
                values[next] = f32::cast_from(weight[(at + next * slices) * columns + column]);
            }
            #[unroll]
            for next in 0..4usize {
                #[unroll]
                for row in 0..rows {
                    sums[row] += f32::cast_from(x[row * depth + at + next * slices]) * values[next];
                }
            }
            at += 4 * slices;
        }
        while at < depth {
            let value = f32::cast_from(weight[at * columns + column]);
            #[unroll]
            for row in 0..rows {
                sums[row] += f32::cast_from(x[row * depth + at]) * value;
            }
            at += slices;
        }
    }
    #[unroll]
    for row in 0..rows {
        shared[row * UNITS + unit] = sums[row];
    }
    sync_cube();
    let mut at = unit;
    while at < comptime!(rows * width) {
        let (row, of) = (at / width, at % width);
        let place = (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize * width + of;
        if place < columns {
            let mut sum = f32::new(0.0);
            for slice in 0..slices {
                sum += shared[row * UNITS + slice * width + of];
            }
            out[row * columns + place] = F::cast_from(finish(sum, bias, place, after));
        }
        at += UNITS;
    }
}

/// A cube computes a tile. Units of a group have every so many rows and columns of it, so that neighbours read neighbouring values.
#[cube(launch)]
fn tiles_kernel<F: Float, W: Float>(
    x: &Tensor<F>,
    weight: &Tensor<W>,
    bias: &Tensor<f32>,
    out: &mut Tensor<F>,
    rows: u32,
    depth: u32,
    columns: u32,
    #[comptime] tile: Tile,
    #[comptime] after: After,
    #[define(F)] _dtype: ElemType,
    #[define(W)] _weight_dtype: ElemType,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(tile.shared()));
    let down = comptime!(tile.units()[0]);
    let along = comptime!(tile.units()[1]);
    let group_units = comptime!(tile.units()[0] * tile.units()[1]);
    let (unit_rows, unit_columns) = comptime!((tile.unit_rows, tile.unit_columns));
    let pitch = comptime!(tile.rows + 1);
    let loads_x = comptime!((tile.depth * tile.rows).div_ceil(tile.units()[0] * tile.units()[1]));
    let loads_w = comptime!((tile.depth * tile.columns).div_ceil(tile.units()[0] * tile.units()[1]));

    let unit = UNIT_POS as usize;
    let (group, own) = (unit / group_units, unit % group_units);
    let (row, column) = (own / along, own % along);
    let first_row = CUBE_POS_Y as usize * comptime!(tile.rows);
    let first_column = CUBE_POS_X as usize * comptime!(tile.columns);
    let (rows, depth, columns) = (rows as usize, depth as usize, columns as usize);
    let inputs = group * comptime!(tile.inputs());
    let weights = comptime!(tile.groups * tile.inputs()) + group * comptime!(tile.depth * tile.columns);

    let mut sums = Array::<f32>::new(comptime!(tile.unit_rows * tile.unit_columns));
    #[unroll]
    for at in 0..comptime!(tile.unit_rows * tile.unit_columns) {
        sums[at] = f32::new(0.0);
    }
    let mut next_x = Array::<f32>::new(loads_x);
    let mut next_w = Array::<f32>::new(loads_w);
    let stride = comptime!(tile.groups * tile.depth);
    let steps = depth.div_ceil(stride);
    let mut step = 0usize.runtime();
    while step <= steps {
        // The values of a step are on their way while the step before is computed.
        let from = step * stride + group * comptime!(tile.depth);
        if step < steps {
            #[unroll]
            for load in 0..loads_x {
                let at = load * group_units + own;
                let (k, r) = (from + at % comptime!(tile.depth), first_row + at / comptime!(tile.depth));
                let mut value = f32::new(0.0);
                if at < comptime!(tile.depth * tile.rows) && k < depth && r < rows {
                    value = f32::cast_from(x[r * depth + k]);
                }
                next_x[load] = value;
            }
            #[unroll]
            for load in 0..loads_w {
                let at = load * group_units + own;
                let (k, c) = (from + at / comptime!(tile.columns), first_column + at % comptime!(tile.columns));
                let mut value = f32::new(0.0);
                if at < comptime!(tile.depth * tile.columns) && k < depth && c < columns {
                    value = f32::cast_from(weight[k * columns + c]);
                }
                next_w[load] = value;
            }
        }
        if step > 0 {
            for k in 0..comptime!(tile.depth) {
                let mut of_columns = Array::<f32>::new(unit_columns);
                #[unroll]
                for c in 0..unit_columns {
                    of_columns[c] = shared[weights + k * comptime!(tile.columns) + column + c * along];
                }
                #[unroll]
                for r in 0..unit_rows {
                    let value = shared[inputs + k * pitch + row + r * down];
                    #[unroll]
                    for c in 0..unit_columns {
                        sums[r * unit_columns + c] += value * of_columns[c];
                    }
                }
            }
        }
        sync_cube();
        if step < steps {
            #[unroll]
            for load in 0..loads_x {
                let at = load * group_units + own;
                if at < comptime!(tile.depth * tile.rows) {
                    let place = at % comptime!(tile.depth) * pitch + at / comptime!(tile.depth);
                    shared[inputs + place] = next_x[load];
                }
            }
            #[unroll]
            for load in 0..loads_w {
                let at = load * group_units + own;
                if at < comptime!(tile.depth * tile.columns) {
                    shared[weights + at] = next_w[load];
                }
            }
        }
        sync_cube();
        step += 1;
    }
    if comptime!(tile.groups > 1) {
        if group > 0 {
            let base = (group - 1) * comptime!(tile.rows * tile.columns);
            #[unroll]
            for r in 0..unit_rows {
                #[unroll]
                for c in 0..unit_columns {
                    let place = (row + r * down) * comptime!(tile.columns) + column + c * along;
                    shared[base + place] = sums[r * unit_columns + c];
                }
            }
        }
        sync_cube();
    }
    if group == 0 {
        #[unroll]
        for r in 0..unit_rows {
            #[unroll]
            for c in 0..unit_columns {
                let (of_row, of_column) = (row + r * down, column + c * along);
                let mut sum = sums[r * unit_columns + c];
                #[unroll]
                for other in 0..comptime!(tile.groups - 1) {
                    let base = comptime!(other * tile.rows * tile.columns);
                    sum += shared[base + of_row * comptime!(tile.columns) + of_column];
                }
                let place = first_column + of_column;
                if first_row + of_row < rows && place < columns {
                    out[(first_row + of_row) * columns + place] = F::cast_from(finish(sum, bias, place, after));
                }
            }
        }
    }
}
