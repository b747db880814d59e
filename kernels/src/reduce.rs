//! Reductions over the units of a cube, without subgroup operations, which software rasterisers lack.

use cubecl::prelude::*;

/// The largest `value` of the `units` of a cube. `units` is a power of two, and `values` has as many elements.
#[cube]
pub(crate) fn cube_max(values: &mut Shared<[f32]>, value: f32, #[comptime] units: usize) -> f32 {
    let unit = UNIT_POS as usize;
    values[unit] = value;
    sync_cube();
    let mut reach = comptime!(units / 2).runtime();
    while reach > 0 {
        if unit < reach {
            values[unit] = max(values[unit], values[unit + reach]);
        }
        sync_cube();
        reach /= 2;
    }
    let result = values[0];
    // All units read the result before the next use of `values` writes.
    sync_cube();
    result
}

/// The sum of `value` over the `units` of a cube, as [`cube_max`].
#[cube]
pub(crate) fn cube_sum(values: &mut Shared<[f32]>, value: f32, #[comptime] units: usize) -> f32 {
    let unit = UNIT_POS as usize;
    values[unit] = value;
    sync_cube();
    let mut reach = comptime!(units / 2).runtime();
    while reach > 0 {
        if unit < reach {
            values[unit] += values[unit + reach];
        }
        sync_cube();
        reach /= 2;
    }
    let result = values[0];
    sync_cube();
    result
}
