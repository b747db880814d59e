//! Vectors of which the direction counts.

/// The product of two vectors: their cosine, if both have unit length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    // A sum for each of eight neighbours: one sum of all would be added up in order, value by value.
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
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
