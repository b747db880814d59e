//! Vectors of which the direction counts.

/// The product of two vectors: their cosine, if both have unit length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The vector with unit length.
pub fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = dot(&vector, &vector).sqrt().max(1e-12);
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

/// The mean of vectors, of which there is at least one.
pub fn mean(vectors: &[&Vec<f32>]) -> Vec<f32> {
    let mut sum = vec![0.0; vectors.first().map_or(0, |vector| vector.len())];
    for vector in vectors {
        sum.iter_mut().zip(vector.iter()).for_each(|(sum, value)| *sum += value / vectors.len() as f32);
    }
    sum
}
