//! The sums of the bodies that tests compare a GPU's with: by definition, one value at a time.

/// Adds the product of `x` `[inputs]` and `weight` `[inputs, outputs]` to `sums` `[outputs]`.
pub(crate) fn add_product(sums: &mut [f32], x: impl IntoIterator<Item = f32>, weight: &[f32]) {
    for (value, weight) in x.into_iter().zip(weight.chunks_exact(sums.len())) {
        sums.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += value * weight);
    }
}

/// The inner product.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The sum of `values` `[head]`, one for each score, weighted by the softmax of `scores`, to `out` `[head]`, which is 0 before.
pub(crate) fn attend(scores: &[f32], values: impl Iterator<Item = Vec<f32>>, out: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - most).exp()).sum();
    add_product(out, scores.iter().map(|score| (score - most).exp() / sum), &values.flatten().collect::<Vec<f32>>());
}
