//! Matrix products of a few rows on GPUs, for which weights are read once: a unit reads four neighbouring columns at a
//! time, units side by side read whole sectors of memory, and the units of a cube share the depth. More than eight rows are computed in
//! blocks at the same time, which find the weights in the card's cache.

use burn::backend::Cube;
use burn::backend::TensorMetadata;
use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use cubecl::prelude::*;

use crate::product::epilogue::{After, finish};

/// Columns of a cube.
pub(crate) const WIDTH: usize = 16;
/// Values that a unit reads at a time: the most that WGSL has.
const VECTOR: usize = 4;
/// Rows of a cube at most.
pub(crate) const ROWS: usize = 8;
/// Rows whose sums are in shared memory at a time.
pub(crate) const SUMMED: usize = 2;

/// `x` `[rows, depth]` times `weight` `[depth, columns]`, both contiguous, into `out`, by cubes of `units`; false if the weights'
/// columns do not divide into vectors.
pub(crate) fn product(
    x: &FloatTensor<Cube>,
    weight: &FloatTensor<Cube>,
    bias: FloatTensor<Cube>,
    out: &FloatTensor<Cube>,
    after: After,
    units: usize,
) -> bool {
    let (rows, depth, columns) = (x.shape()[0], x.shape()[1], weight.shape()[1]);
    let blocks = rows.div_ceil(ROWS);
    let most = out.client.properties().hardware.max_units_per_cube as usize;
    if !columns.is_multiple_of(VECTOR) || blocks > crate::cube::MAX_CUBES_PER_AXIS || rows == 0 {
        return false;
    }
    vectors_kernel::launch(
        &out.client,
        CubeCount::Static(columns.div_ceil(WIDTH) as u32, blocks as u32, 1),
        CubeDim::new_1d(units.min(most) as u32),
        x.clone().binding().into_buffer_arg(),
        weight.clone().binding().into_buffer_arg(),
        bias.into_tensor_arg(),
        out.clone().binding().into_buffer_arg(),
        rows as u32,
        depth as u32,
        columns as u32,
        rows.div_ceil(blocks),
        units.min(most),
        after,
        dtype_to_storage_type(x.dtype),
        dtype_to_storage_type(weight.dtype),
    );
    true
}

/// A cube computes 16 columns of a block of rows.
#[cube(launch)]
fn vectors_kernel<F: Float, W: Float>(
    x: &[F],
    weight: &[Vector<W, Const<VECTOR>>],
    bias: &Tensor<f32>,
    out: &mut [F],
    rows: u32,
    depth: u32,
    columns: u32,
    #[comptime] block: usize,
    #[comptime] units: usize,
    #[comptime] after: After,
    #[define(F)] _dtype: ElemType,
    #[define(W)] _weight_dtype: ElemType,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(SUMMED * VECTOR * units));
    let unit = UNIT_POS as usize;
    let (rows, depth, columns) = (rows as usize, depth as usize, columns as usize);
    let across = comptime!(WIDTH / VECTOR);
    let slices = comptime!(units / (WIDTH / VECTOR));
    let (slice, within) = (unit / across, unit % across);
    let row_vectors = columns / VECTOR;
    let column = CUBE_POS_X as usize * across + within;
    let first = CUBE_POS_Y as usize * block;

    let mut sums = Array::<Vector<f32, Const<VECTOR>>>::new(block);
    // Rows beyond the last repeat it.
    let mut starts = Array::<usize>::new(block);
    #[unroll]
    for row in 0..block {
        sums[row] = Vector::new(f32::new(0.0));
        starts[row] = min(first + row, rows - 1) * depth;
    }
    if column < row_vectors {
        let mut at = slice;
        // Several loads are under way at a time.
        while at + comptime!(3 * (units / (WIDTH / VECTOR))) < depth {
            let mut values = Array::<Vector<W, Const<VECTOR>>>::new(4usize);
            #[unroll]
            for next in 0..4usize {
                values[next] = weight[(at + next * slices) * row_vectors + column];
            }
            #[unroll]
            for next in 0..4usize {
                let value = Vector::<f32, Const<VECTOR>>::cast_from(values[next]);
                #[unroll]
                for row in 0..block {
                    let input = f32::cast_from(x[starts[row] + at + next * slices]);
                    sums[row] += value * Vector::new(input);
                }
            }
            at += 4 * slices;
        }
        while at < depth {
            let value = Vector::<f32, Const<VECTOR>>::cast_from(weight[at * row_vectors + column]);
            #[unroll]
            for row in 0..block {
                sums[row] += value * Vector::new(f32::cast_from(x[starts[row] + at]));
            }
            at += slices;
        }
    }
    write_sums::<F>(&sums, &mut shared, bias, out, first, rows, columns, block, units, after);
}

/// Adds the sums of a cube's slices and writes them. A unit has four columns of each row of the block, which begins with `first`, and
/// `shared` has [`SUMMED`] vectors for each unit.
#[cube]
pub(crate) fn write_sums<F: Float>(
    sums: &Array<Vector<f32, Const<VECTOR>>>,
    shared: &mut Shared<[f32]>,
    bias: &Tensor<f32>,
    out: &mut [F],
    first: usize,
    rows: usize,
    columns: usize,
    #[comptime] block: usize,
    #[comptime] units: usize,
    #[comptime] after: After,
) {
    let unit = UNIT_POS as usize;
    let across = comptime!(WIDTH / VECTOR);
    let slice = unit / across;
    #[unroll]
    for step in 0..comptime!(block.div_ceil(SUMMED)) {
        let from = comptime!(step * SUMMED);
        let count = comptime!(Ord::min(SUMMED, block - step * SUMMED));
        #[unroll]
        for row in 0..count {
            #[unroll]
            for value in 0..VECTOR {
                shared[(row * VECTOR + value) * units + unit] = sums[from + row].extract(value);
            }
        }
        sync_cube();
        let mut half = comptime!(units / (WIDTH / VECTOR) / 2).runtime();
        while half > 0 {
            if slice < half {
                #[unroll]
                for part in 0..comptime!(count * VECTOR) {
                    let place = part * units + unit;
                    shared[place] += shared[place + half * across];
                }
            }
            sync_cube();
            half /= 2;
        }
        if unit < comptime!(count * WIDTH) {
            let (row, of) = (unit / WIDTH, unit % WIDTH);
            let place = CUBE_POS_X as usize * WIDTH + of;
            let to = first + from + row;
            if place < columns && to < rows {
                let sum = shared[(row * VECTOR + of % VECTOR) * units + of / VECTOR];
                out[to * columns + place] = F::cast_from(finish(sum, bias, place, after));
            }
        }
        // All sums are read before the next ones are written.
        sync_cube();
    }
}
