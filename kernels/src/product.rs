//! Matrix products on GPUs: rows of inputs times weights `[inputs, outputs]`, without a search for the fastest kernel at run time.
//!
//! Few rows read the weights once, each cube a few columns and all of the depth. More rows are divided into tiles, whose units are in
//! groups that share the depth, so that a product with few tiles still occupies a card. Sums are f32 whatever the tensors hold: weights of
//! 16 bits may multiply inputs of 32, as a decoder reads them once for a few rows.
//! On the CPU the product is burn's, for tests; models have bodies of their own there.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, FloatDType, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};

use crate::epilogue::{self, Activation, After, EpilogueOps};
use crate::matrix_units::UnitTile;

/// How a product is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Cubes of `columns` columns and all rows, at most [`MOST_ROWS`].
    Columns {
        /// Columns of a cube: a power of two, at most 32.
        columns: usize,
    },
    /// Cubes of 16 columns, whose units read several at a time, and of eight rows; where the columns do not divide so, as without units.
    Vectors {
        /// Units of a cube: a power of two.
        units: usize,
    },
    /// Cubes of a tile of the product.
    Tiles(Tile),
    /// Tiles on matrix units; where they do not fit the card or the product, as [`Division::Matrix`].
    Units(UnitTile),
    /// `cubek`'s routine for matrix units, which takes every shape; on a device without them, as [`Division::without_units`].
    Matrix,
}

/// The rows that [`Division::Columns`] takes at most.
pub const MOST_ROWS: usize = 8;

/// The tile of a cube. A cube has `rows / unit_rows * columns / unit_columns * groups` units, 256 at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of the product.
    pub rows: usize,
    /// Columns of the product.
    pub columns: usize,
    /// Rows of a unit.
    pub unit_rows: usize,
    /// Columns of a unit.
    pub unit_columns: usize,
    /// Groups of units, which share the depth.
    pub groups: usize,
    /// Depth of a group's values in shared memory.
    pub depth: usize,
}

/// Rows from which a product of 16-bit values uses matrix units: by measurement on an H200.
const MATRIX_ROWS: usize = 64;

/// Rows up to which each cube reads all of its columns' weights: by measurement on an H200.
pub const FEW_ROWS: usize = 32;

/// Columns from which cubes of fewer units keep a large card busy.
const LARGE_COLUMNS: usize = 4096;

/// Cubes that keep a large card busy.
const ENOUGH_CUBES: usize = 120;

impl Division {
    /// The division for a product `[rows, depth]` times `[depth, columns]` with weights of this type.
    pub fn of([rows, depth, columns]: [usize; 3], dtype: DType) -> Self {
        match dtype {
            DType::F16 if rows >= MATRIX_ROWS => Self::Units(unit_tile(rows, columns)),
            _ => Self::without_units([rows, depth, columns]),
        }
    }

    /// The division without matrix units: the largest tiles that keep a large card busy.
    pub fn without_units([rows, depth, columns]: [usize; 3]) -> Self {
        if rows <= FEW_ROWS && columns.is_multiple_of(4) {
            return Self::Vectors { units: if columns < LARGE_COLUMNS { 512 } else { 256 } };
        }
        if rows <= MOST_ROWS {
            return Self::Columns { columns: if depth < 2048 { 8 } else { 4 } };
        }
        Self::Tiles(Tile::of([rows, columns]))
    }
}

/// The tile on matrix units for a product of this size: by measurement on an H200.
fn unit_tile(rows: usize, columns: usize) -> UnitTile {
    const LARGE: usize = 128;
    let cubes = rows.div_ceil(LARGE) * columns.div_ceil(LARGE);
    match cubes {
        ..70 => UnitTile { rows: 64, columns: 64, depth: 32, planes_down: 2, planes_along: 2, buffers: 2 },
        70..400 => UnitTile { rows: LARGE, columns: LARGE, depth: 32, planes_down: 2, planes_along: 4, buffers: 2 },
        // Cubes that wait for one another's memory need no second buffer.
        400.. => UnitTile { rows: LARGE, columns: LARGE, depth: 32, planes_down: 2, planes_along: 2, buffers: 1 },
    }
}

impl Tile {
    /// The largest tile of a product `[rows, columns]` that keeps a large card busy.
    pub(crate) fn of([rows, columns]: [usize; 2]) -> Self {
        // Shared memory stays within the 16 KiB that every device has.
        let tile = |[rows, columns, unit_rows, unit_columns, groups, depth]: [usize; 6]| Self {
            rows,
            columns,
            unit_rows,
            unit_columns,
            groups,
            depth,
        };
        let tiles = [[128, 128, 8, 8, 1, 8], [64, 64, 8, 4, 2, 8], [64, 32, 4, 4, 2, 16]].map(tile);
        let is_enough = |tile: &&Self| {
            let [down, along] = [rows.div_ceil(tile.rows), columns.div_ceil(tile.columns)];
            // A tile that is mostly padding is too large.
            rows * 4 >= tile.rows * 3 && down * along >= ENOUGH_CUBES
        };
        let small = if rows <= 16 { [16, 32, 4, 4, 8, 8] } else { [32, 32, 4, 4, 4, 8] };
        tiles.iter().find(is_enough).copied().unwrap_or_else(|| tile(small))
    }

    /// Units along the rows and along the columns.
    #[cfg(feature = "wgpu")]
    pub(crate) fn units(&self) -> [usize; 2] {
        [self.rows / self.unit_rows, self.columns / self.unit_columns]
    }

    /// Values of one group's part of the inputs in shared memory. A row is one value longer than its use, so that units write to
    /// different banks.
    #[cfg(feature = "wgpu")]
    pub(crate) fn inputs(&self) -> usize {
        self.depth * (self.rows + 1)
    }

    /// Values of shared memory.
    #[cfg(feature = "wgpu")]
    pub(crate) fn shared(&self) -> usize {
        let loaded = self.groups * (self.inputs() + self.depth * self.columns);
        loaded.max((self.groups - 1) * self.rows * self.columns)
    }
}

/// `x` `[.., depth]` times `weight` `[depth, columns]`, in the type of `x`. Weights have that type or 16 bits.
///
/// # Panics
/// When the shapes do not match.
pub fn product<const D: usize>(x: Tensor<D>, weight: Tensor<2>) -> Tensor<D> {
    let columns = weight.dims()[1];
    by_rows(x, weight, columns, divided_product)
}

/// As [`product`], plus `bias` `[columns]`, and an activation of the sum: in the same launch where no matrix units compute it.
///
/// # Panics
/// As [`product`].
pub fn biased_product<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    activation: Option<Activation>,
) -> Tensor<D> {
    let columns = weight.dims()[1];
    let is_gated = activation.is_some_and(Activation::is_gated);
    let outputs = if is_gated { columns / 2 } else { columns };
    by_rows(x, weight, outputs, |x, weight, division| {
        let after = match activation {
            None => After::Bias,
            Some(activation) => After::Activation(activation),
        };
        if !matches!(division, Division::Units(_) | Division::Matrix) && !is_gated {
            return launch(x, weight, Some(bias), after, division);
        }
        let (dtype, out) = (x.dtype(), divided_product(x, weight, division));
        match activation {
            None => out + bias.cast(dtype).unsqueeze(),
            Some(activation) => epilogue::activate(out, bias, activation),
        }
    })
}

/// Reshapes `x` to rows and computes their `outputs` with the division for the product.
fn by_rows<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    outputs: usize,
    compute: impl FnOnce(Tensor<2>, Tensor<2>, Division) -> Tensor<2>,
) -> Tensor<D> {
    let (mut shape, [depth, columns]) = (x.dims(), weight.dims());
    let rows = shape[..D - 1].iter().product();
    let division = Division::of([rows, depth, columns], weight.dtype());
    shape[D - 1] = outputs;
    if rows == 0 {
        return Tensor::zeros(shape, (&x.device(), x.dtype()));
    }
    compute(x.reshape([rows, depth]), weight, division).reshape(shape)
}

/// As [`product`], divided as given: for measurements and tests.
///
/// # Panics
/// As [`product`], and where the rows are too many for the division.
pub fn divided_product(x: Tensor<2>, weight: Tensor<2>, division: Division) -> Tensor<2> {
    launch(x, weight, None, After::Nothing, division)
}

fn launch(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, after: After, division: Division) -> Tensor<2> {
    let ([rows, inputs], [depth, _]) = (x.dims(), weight.dims());
    assert_eq!(inputs, depth, "product: depth of inputs and weights");
    assert!(
        !matches!(division, Division::Columns { .. }) || rows <= MOST_ROWS,
        "product: {rows} rows are too many for a division by columns"
    );
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    // A kernel has the same tensors in every case; without a bias this one is never read.
    let bias = bias.map_or_else(|| x.clone(), Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::divided_product(x, weight, bias, after, division))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait ProductOps: Backend {
    fn divided_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        after: After,
        division: Division,
    ) -> FloatTensor<Self>;
}

impl ProductOps for Flex {
    fn divided_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        after: After,
        _division: Division,
    ) -> FloatTensor<Self> {
        let shape = Shape::from([x.shape()[0], weight.shape()[1]]);
        let weight = if weight.dtype() == x.dtype() { weight } else { Self::float_cast(weight, FloatDType::F32) };
        let product = Self::float_reshape(Self::float_matmul(x, weight), shape);
        match after {
            After::Nothing => product,
            After::Bias => {
                let row = Shape::from([1, bias.shape()[0]]);
                Self::float_add(product, Self::float_reshape(bias, row))
            }
            After::Activation(activation) => Self::biased_activation(product, bias, activation),
        }
    }
}

#[cfg(feature = "wgpu")]
pub(crate) use kernel::on_matrix_units;

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::{Cube, TensorMetadata};
    use cubecl::prelude::*;

    use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
    use cubek::matmul::multi_level::Strategy;
    use cubek::std::InputBinding;

    use super::{After, Division, FloatTensor, ProductOps, Tile};
    use crate::epilogue::finish;

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
                    if !crate::few_rows::product(&x, &weight, bias.clone(), &out, after, units) {
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
                    return match crate::matrix_units::product(&inputs, &weight, crate::cube::float(&x), tile) {
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
    pub(crate) fn on_matrix_units(
        left: &FloatTensor<Cube>,
        right: &FloatTensor<Cube>,
        out: &FloatTensor<Cube>,
    ) -> bool {
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
}
