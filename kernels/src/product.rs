//! Matrix products on GPUs: rows of inputs times weights `[inputs, outputs]`, without a search for the fastest kernel at run time.
//!
//! Few rows read the weights once, each cube a few columns and all of the depth. More rows are divided into tiles, whose units are in
//! groups that share the depth, so that a product with few tiles still occupies a card. Sums are f32 whatever the tensors hold.
//! On the CPU the product is burn's, for tests; models have bodies of their own there.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};

/// How a product is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Cubes of `columns` columns and all rows, at most [`MOST_ROWS`].
    Columns {
        /// Columns of a cube: a power of two, at most 32.
        columns: usize,
    },
    /// Cubes of a tile of the product.
    Tiles(Tile),
    /// A routine of `cubek` for matrix units; on a device without them, as [`Division::without_units`].
    Matrix(MatrixRoutine),
}

/// A routine for matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixRoutine {
    /// One buffer, filled in turn.
    Simple,
    /// One buffer, filled by tile.
    SimpleTilewise,
    /// Two buffers, filled in turn.
    Double,
    /// Two buffers, filled by tile.
    DoubleTilewise,
    /// Two buffers, in order.
    Ordered,
    /// Planes that load and planes that compute.
    Specialized,
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

/// Cubes that keep a large card busy.
const ENOUGH_CUBES: usize = 120;

impl Division {
    /// The division for a product `[rows, depth]` times `[depth, columns]` of this type.
    pub fn of([rows, depth, columns]: [usize; 3], dtype: DType) -> Self {
        match dtype {
            DType::F16 if rows >= MATRIX_ROWS => Self::Matrix(MatrixRoutine::Simple),
            _ => Self::without_units([rows, depth, columns]),
        }
    }

    /// The division without matrix units: the largest tiles that keep a large card busy.
    pub fn without_units([rows, depth, columns]: [usize; 3]) -> Self {
        if rows <= MOST_ROWS {
            return Self::Columns { columns: if depth < 2048 { 8 } else { 4 } };
        }
        // Shared memory stays within the 16 KiB that every device has.
        let tile = |[rows, columns, unit_rows, unit_columns, groups, depth]: [usize; 6]| Tile {
            rows,
            columns,
            unit_rows,
            unit_columns,
            groups,
            depth,
        };
        let tiles = [[128, 128, 8, 8, 1, 8], [64, 64, 8, 4, 2, 8], [64, 32, 4, 4, 2, 16]].map(tile);
        let is_enough = |tile: &&Tile| {
            let [down, along] = [rows.div_ceil(tile.rows), columns.div_ceil(tile.columns)];
            // A tile that is mostly padding is too large.
            rows * 4 >= tile.rows * 3 && down * along >= ENOUGH_CUBES
        };
        let small = if rows <= 16 { [16, 32, 4, 4, 8, 8] } else { [32, 32, 4, 4, 4, 8] };
        Self::Tiles(tiles.iter().find(is_enough).copied().unwrap_or_else(|| tile(small)))
    }
}

impl Tile {
    /// Units along the rows and along the columns.
    #[cfg(feature = "wgpu")]
    fn units(&self) -> [usize; 2] {
        [self.rows / self.unit_rows, self.columns / self.unit_columns]
    }

    /// Values of one group's part of the inputs in shared memory. A row is one value longer than its use, so that units write to
    /// different banks.
    #[cfg(feature = "wgpu")]
    fn inputs(&self) -> usize {
        self.depth * (self.rows + 1)
    }

    /// Values of shared memory.
    #[cfg(feature = "wgpu")]
    fn shared(&self) -> usize {
        let loaded = self.groups * (self.inputs() + self.depth * self.columns);
        loaded.max((self.groups - 1) * self.rows * self.columns)
    }
}

/// `x` `[.., depth]` times `weight` `[depth, columns]`, both of the same type, which the product has too.
///
/// # Panics
/// When the shapes do not match.
pub fn product<const D: usize>(x: Tensor<D>, weight: Tensor<2>) -> Tensor<D> {
    let (mut shape, [depth, columns]) = (x.dims(), weight.dims());
    let rows = shape[..D - 1].iter().product();
    shape[D - 1] = columns;
    if rows == 0 {
        return Tensor::zeros(shape, (&x.device(), x.dtype()));
    }
    let division = Division::of([rows, depth, columns], x.dtype());
    divided_product(x.reshape([rows, depth]), weight, division).reshape(shape)
}

/// As [`product`], divided as given: for measurements and tests.
///
/// # Panics
/// As [`product`], and where the rows are too many for the division.
pub fn divided_product(x: Tensor<2>, weight: Tensor<2>, division: Division) -> Tensor<2> {
    let ([rows, inputs], [depth, _]) = (x.dims(), weight.dims());
    assert_eq!(inputs, depth, "product: depth of inputs and weights");
    assert!(
        !matches!(division, Division::Columns { .. }) || rows <= MOST_ROWS,
        "product: {rows} rows are too many for a division by columns"
    );
    Tensor::from_dispatch(Dispatch::divided_product(x.into_dispatch(), weight.into_dispatch(), division))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait ProductOps: Backend {
    fn divided_product(x: FloatTensor<Self>, weight: FloatTensor<Self>, division: Division) -> FloatTensor<Self>;
}

impl ProductOps for Flex {
    fn divided_product(x: FloatTensor<Self>, weight: FloatTensor<Self>, _division: Division) -> FloatTensor<Self> {
        let shape = Shape::from([x.shape()[0], weight.shape()[1]]);
        Self::float_reshape(Self::float_matmul(x, weight), shape)
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::{Cube, TensorMetadata};
    use cubecl::prelude::*;

    use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError};
    use cubek::matmul::multi_level::Strategy;
    use cubek::std::InputBinding;

    use super::{Division, FloatTensor, MatrixRoutine, ProductOps, Tile};

    /// Units of a cube in [`Division::Columns`].
    const UNITS: usize = 256;

    impl ProductOps for Cube {
        fn divided_product(x: FloatTensor<Self>, weight: FloatTensor<Self>, division: Division) -> FloatTensor<Self> {
            let (x, weight) = (crate::cube::contiguous(x), crate::cube::contiguous(weight));
            let (client, device) = (x.client.clone(), x.device());
            let (rows, depth, columns) = (x.shape()[0], x.shape()[1], weight.shape()[1]);
            let dtype = dtype_to_storage_type(x.dtype);
            let out = Self::float_empty([rows, columns].into(), &device, crate::cube::float(&x));
            match division {
                Division::Columns { columns: width } => columns_kernel::launch(
                    &client,
                    crate::cube::cubes(columns.div_ceil(width)),
                    CubeDim::new_1d(UNITS as u32),
                    x.into_tensor_arg(),
                    weight.into_tensor_arg(),
                    out.clone().into_tensor_arg(),
                    depth as u32,
                    columns as u32,
                    rows,
                    width,
                    dtype,
                ),
                Division::Tiles(tile) => {
                    let [down, along] = tile.units();
                    tiles_kernel::launch(
                        &client,
                        CubeCount::Static(columns.div_ceil(tile.columns) as u32, rows.div_ceil(tile.rows) as u32, 1),
                        CubeDim::new_1d((down * along * tile.groups) as u32),
                        x.into_tensor_arg(),
                        weight.into_tensor_arg(),
                        out.clone().into_tensor_arg(),
                        rows as u32,
                        depth as u32,
                        columns as u32,
                        tile,
                        dtype,
                    );
                }
                Division::Matrix(routine) => {
                    let elements = MatmulGlobalElems { lhs: dtype, rhs: dtype, out: dtype };
                    let has_units = !client.properties().features.matmul.cmma.is_empty();
                    if !has_units || matrix_product(&x, &weight, &out, routine, elements).is_err() {
                        return Self::divided_product(x, weight, Division::without_units([rows, depth, columns]));
                    }
                }
            }
            out
        }
    }

    fn matrix_product(
        x: &FloatTensor<Cube>,
        weight: &FloatTensor<Cube>,
        out: &FloatTensor<Cube>,
        routine: MatrixRoutine,
        elements: MatmulGlobalElems,
    ) -> Result<(), MatmulSetupError> {
        let strategy = match routine {
            MatrixRoutine::Simple => Strategy::SimpleCyclicCmma(Default::default()),
            MatrixRoutine::SimpleTilewise => Strategy::SimpleTilewiseCmma(Default::default()),
            MatrixRoutine::Double => Strategy::DoubleCyclicCmma(Default::default()),
            MatrixRoutine::DoubleTilewise => Strategy::DoubleTilewiseCmma(Default::default()),
            MatrixRoutine::Ordered => Strategy::OrderedDoubleCmma(Default::default()),
            MatrixRoutine::Specialized => Strategy::SpecializedCyclicCmma(Default::default()),
        };
        cubek::matmul::launch::launch_ref(
            &strategy.into(),
            &out.client,
            InputBinding::new(x.clone().binding(), elements.lhs),
            InputBinding::new(weight.clone().binding(), elements.rhs),
            out.clone().binding(),
            &mut MatmulElems::from_globals(&elements),
        )
    }

    /// A cube computes `width` columns of all rows; its units share the depth.
    #[cube(launch)]
    fn columns_kernel<F: Float>(
        x: &Tensor<F>,
        weight: &Tensor<F>,
        out: &mut Tensor<F>,
        depth: u32,
        columns: u32,
        #[comptime] rows: usize,
        #[comptime] width: usize,
        #[define(F)] _dtype: ElemType,
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
                out[row * columns + place] = F::cast_from(sum);
            }
            at += UNITS;
        }
    }

    /// A cube computes a tile. Units of a group have every so many rows and columns of it, so that neighbours read neighbouring values.
    #[cube(launch)]
    fn tiles_kernel<F: Float>(
        x: &Tensor<F>,
        weight: &Tensor<F>,
        out: &mut Tensor<F>,
        rows: u32,
        depth: u32,
        columns: u32,
        #[comptime] tile: Tile,
        #[define(F)] _dtype: ElemType,
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
                    if first_row + of_row < rows && first_column + of_column < columns {
                        out[(first_row + of_row) * columns + first_column + of_column] = F::cast_from(sum);
                    }
                }
            }
        }
    }
}
