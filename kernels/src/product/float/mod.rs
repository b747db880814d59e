//! Matrix products on GPUs: rows of inputs times weights `[inputs, outputs]`, without a search for the fastest kernel at run time.
//!
//! Few rows read the weights once, each cube a few columns and all of the depth. More rows are divided into tiles, whose units are in
//! groups that share the depth, so that a product with few tiles still occupies a card. Sums are f32 whatever the tensors hold: weights of
//! 16 bits may multiply inputs of 32, as a decoder reads them once for a few rows. Models on the CPU use [`gemv`](super::gemv).

#[cfg(feature = "wgpu")]
mod gpu;
#[cfg(feature = "wgpu")]
mod matrix_units;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{DType, Tensor};

use crate::activation::Activation;
use crate::product::epilogue::{self, After};

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

/// The tile of a cube on matrix units, and how the cube divides its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitTile {
    /// Rows of the product.
    pub rows: usize,
    /// Columns of the product.
    pub columns: usize,
    /// Depth of a step.
    pub depth: usize,
    /// Planes along the rows.
    pub planes_down: usize,
    /// Planes along the columns.
    pub planes_along: usize,
    /// Steps in shared memory at a time: 1 or 2.
    pub buffers: usize,
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

#[cfg(feature = "wgpu")]
pub(crate) use gpu::on_matrix_units;
