use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::LikeliestOps;

/// Units of a cube: a power of two.
const UNITS: usize = 256;
/// Scores of a cube. Many cubes read a row, as few would wait for memory.
const PART: usize = 4096;

impl LikeliestOps for Cube {
    fn likeliest_of_rows(scores: FloatTensor<Self>) -> FloatTensor<Self> {
        let scores = crate::cube::contiguous(scores);
        let (client, device) = (scores.client.clone(), scores.device());
        let (rows, tokens) = (scores.shape()[0], scores.shape()[1]);
        let empty = |width: usize| Self::float_empty([rows, width].into(), &device, FloatDType::F32);
        let parts = tokens.div_ceil(PART).max(1);
        let (best, places, out) = (empty(parts), empty(parts), empty(1));
        let launch = |[values, of, best, place]: [&FloatTensor<Self>; 4], [parts, width]: [usize; 2], has_places| {
            best_kernel::launch(
                &client,
                CubeCount::Static(parts as u32, rows as u32, 1),
                CubeDim::new_1d(UNITS as u32),
                values.clone().into_tensor_arg(),
                of.clone().into_tensor_arg(),
                best.clone().into_tensor_arg(),
                place.clone().into_tensor_arg(),
                width as u32,
                has_places,
            );
        };
        // Without places the scores stand in for them, and are not read.
        launch([&scores, &scores, &best, &places], [parts, tokens], false);
        launch([&best, &places, &empty(1), &out], [1, parts], true);
        out
    }
}

/// A cube finds the largest of a part of a row: its value and its place, which is that in `of` where `has_places`. All tensors are
/// contiguous.
#[cube(launch)]
fn best_kernel(
    values: &Tensor<f32>,
    of: &Tensor<f32>,
    best: &mut Tensor<f32>,
    place: &mut Tensor<f32>,
    width: u32,
    #[comptime] has_places: bool,
) {
    let mut shared_values = Shared::<[f32]>::new_slice(UNITS);
    let mut shared_places = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let width = width as usize;
    let start = CUBE_POS_Y as usize * width;
    let from = CUBE_POS_X as usize * PART;
    let end = min(from + PART, width);
    let mut most = f32::new(-3.4e38);
    let mut found = f32::new(-1.0);
    let mut at = from + unit;
    while at < end {
        let value = values[start + at];
        // No comparison holds for what is no number.
        if value > most && value < 3.4e38 {
            most = value;
            found = f32::cast_from(at as u32);
        }
        at += UNITS;
    }
    if comptime!(has_places) && found >= 0.0 {
        found = of[start + u32::cast_from(found) as usize];
    }
    shared_values[unit] = most;
    shared_places[unit] = found;
    sync_cube();
    let mut reach = comptime!(UNITS / 2).runtime();
    while reach > 0 {
        if unit < reach {
            let (value, place) = (shared_values[unit + reach], shared_places[unit + reach]);
            let (own, own_place) = (shared_values[unit], shared_places[unit]);
            if place >= 0.0 && (value > own || own_place < 0.0 || (value == own && place < own_place)) {
                shared_values[unit] = value;
                shared_places[unit] = place;
            }
        }
        sync_cube();
        reach /= 2;
    }
    if unit == 0 {
        let to = (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize;
        best[to] = shared_values[0];
        place[to] = shared_places[0];
    }
}
