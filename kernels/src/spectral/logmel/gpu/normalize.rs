//! The second launch, for front ends that normalise over an utterance.

use cubecl::prelude::*;

use crate::reduce;
use crate::spectral::logmel::cpu::STD_GUARD;

/// Mel bands a cube of [`per_feature_kernel`] takes, and units that share the frames of each.
pub(crate) const COLUMNS: usize = 16;
pub(crate) const LANES: usize = 16;

/// Units of a cube of [`whisper_kernel`], and values each of them rewrites.
pub(crate) const UNITS: usize = 256;
pub(crate) const VALUES: usize = 8;

/// Every mel band of every row to mean 0 and unbiased deviation 1, in place.
///
/// - `frames` `[rows, frames, mels]`
/// - `extents` `[rows, 2]`, flat: the second is the row's valid frames
#[cube(launch)]
pub(crate) fn per_feature_kernel(frames: &mut Tensor<f32>, extents: &Tensor<i32>) {
    let row = CUBE_POS_Y as usize;
    let mel = CUBE_POS_X as usize * COLUMNS + UNIT_POS_X as usize;
    let lane = UNIT_POS_Y as usize;
    let valid = extents[row * 2 + 1] as usize;
    let active = mel < frames.shape(2);
    let base = row * frames.stride(0) + mel * frames.stride(2);
    let step = frames.stride(1);

    // Idle units of the last cube reach the barriers too.
    let mut end = valid;
    if !active {
        end = 0;
    }
    let mut sum = f32::new(0.0);
    let mut frame = lane;
    while frame < end {
        sum += frames[base + frame * step];
        frame += LANES;
    }
    let mean = column_sum(sum) / max(f32::cast_from(valid as u32), f32::new(1.0));

    let mut squares = f32::new(0.0);
    frame = lane;
    while frame < end {
        let difference = frames[base + frame * step] - mean;
        squares += difference * difference;
        frame += LANES;
    }
    let freedom = max(f32::cast_from(valid as u32) - f32::new(1.0), f32::new(1.0));
    let deviation = (column_sum(squares) / freedom).sqrt() + f32::new(comptime!(STD_GUARD));

    frame = lane;
    while frame < end {
        frames[base + frame * step] = (frames[base + frame * step] - mean) / deviation;
        frame += LANES;
    }
}

/// The sum of `value` over the units of one column.
#[cube]
fn column_sum(value: f32) -> f32 {
    let mut partial = Shared::<[f32]>::new_slice(comptime!(COLUMNS * LANES));
    let column = UNIT_POS_X as usize;
    partial[UNIT_POS_Y as usize * COLUMNS + column] = value;
    sync_cube();
    let mut sum = f32::new(0.0);
    #[unroll]
    for lane in 0..LANES {
        sum += partial[lane * COLUMNS + column];
    }
    sum
}

/// Every row cut to 8 decades below its largest value and centred, in place.
///
/// - `frames` `[rows, frames, mels]`
/// - `peaks` `[rows, groups]`: the largest values of parts of the row
#[cube(launch)]
pub(crate) fn whisper_kernel(frames: &mut Tensor<f32>, peaks: &Tensor<f32>) {
    let row = CUBE_POS_Y as usize;
    let unit = UNIT_POS as usize;
    let mut peak = f32::new(-1.0e30);
    let mut group = unit;
    while group < peaks.shape(1) {
        peak = max(peak, peaks[row * peaks.stride(0) + group * peaks.stride(1)]);
        group += UNITS;
    }
    let floor = cube_max(peak, UNITS) - f32::new(8.0);

    let mels = frames.shape(2);
    let values = frames.shape(1) * mels;
    let mut value = CUBE_POS_X as usize * comptime!(UNITS * VALUES) + unit;
    for _ in 0..VALUES {
        if value < values {
            let place = row * frames.stride(0) + (value / mels) * frames.stride(1) + (value % mels) * frames.stride(2);
            frames[place] = (max(frames[place], floor) + f32::new(4.0)) * f32::new(0.25);
        }
        value += UNITS;
    }
}

/// The largest `value` of a cube's units, of which there are `units`, a power of two.
#[cube]
pub(crate) fn cube_max(value: f32, #[comptime] units: usize) -> f32 {
    let mut partial = Shared::<[f32]>::new_slice(units);
    reduce::cube_max(&mut partial, value, units)
}
