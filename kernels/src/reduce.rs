//! What the units of a cube find together; no subgroup operation, which software rasterisers lack.

use cubecl::prelude::*;

/// The largest value of a cube's `units`, a power of two; `values` is shared memory of as many.
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
    let found = values[0];
    // All have read it before the next use writes.
    sync_cube();
    found
}

/// The sum of the values of a cube's `units`, as [`cube_max`].
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
    let found = values[0];
    sync_cube();
    found
}
