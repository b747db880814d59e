//! Weights that are published as directions and lengths.

use crate::error::Result;
use crate::weights::Scope;

/// The values of `weight`, of `weight_v` with the lengths `weight_g`, or of the two under the names of PyTorch's parametrisations; each row
/// of the first dimension has a length.
///
/// # Errors
/// As [`Scope::values`].
pub fn weight(scope: &Scope, shape: &[usize]) -> Result<Vec<f32>> {
    let [lengths, directions] = if scope.has("weight_v") {
        ["weight_g", "weight_v"]
    } else if scope.has("parametrizations.weight.original1") {
        ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    } else {
        return scope.values("weight", shape);
    };
    let mut lengths_shape = vec![1; shape.len()];
    lengths_shape[0] = shape[0];
    let lengths = scope.values(lengths, &lengths_shape)?;
    let mut values = scope.values(directions, shape)?;
    let width = values.len() / shape[0];
    for (row, length) in values.chunks_exact_mut(width.max(1)).zip(lengths) {
        let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let scale = (f64::from(length) / norm) as f32;
        row.iter_mut().for_each(|value| *value *= scale);
    }
    Ok(values)
}

/// The shape of the weight.
pub fn shape(scope: &Scope) -> Option<Vec<usize>> {
    let names = ["weight", "weight_v", "parametrizations.weight.original1"];
    names.into_iter().find_map(|name| scope.shape(name)).map(<[usize]>::to_vec)
}
