//! The leading eigenvectors of a symmetric matrix, by subspace iteration with a Chebyshev filter: the affinities of a block have more
//! than a thousand rows, of which no more than twenty eigenvectors are wanted.

use rayon::prelude::*;

/// Rounds of the iteration at most.
const ROUNDS: usize = 50;
/// Degree of the filter at most, and the most that it may raise the largest eigenvalue over those that are not wanted: beyond, the
/// vectors between would be lost in rounding.
const DEGREE: usize = 8;
const AMPLIFICATION: f64 = 1e6;
/// Relative change of the eigenvalues that ends it.
const TOLERANCE: f64 = 1e-5;
/// Sweeps of the small problem's Jacobi rotations; some six suffice.
const SWEEPS: usize = 30;

/// A symmetric matrix `[rows, rows]`; rows hold the columns that are not zero.
#[derive(Clone, Debug, Default)]
pub struct SymmetricMatrix {
    /// For each row its columns and values.
    pub rows: Vec<Vec<(u32, f32)>>,
}

/// Eigenvalues in falling order, and for each row of the matrix its part in every eigenvector.
#[derive(Clone, Debug, Default)]
pub struct Spectrum {
    /// The largest eigenvalues.
    pub values: Vec<f64>,
    /// `[rows][values]`
    pub vectors: Vec<Vec<f64>>,
}

/// Computes the `count` largest eigenvalues and their vectors; the matrix has no eigenvalue below zero.
#[must_use]
pub fn leading(matrix: &SymmetricMatrix, count: usize) -> Spectrum {
    let size = matrix.rows.len();
    // Some vectors more than are wanted: the last ones converge slowly.
    let width = (count + 4).min(size);
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    let mut basis: Vec<Vec<f64>> = (0..size).map(|_| (0..width).map(|_| random()).collect()).collect();
    orthonormalise(&mut basis, width);
    let mut values = vec![0.0; width];
    // The filter needs a bound of what is not wanted, which the first round finds.
    let mut unwanted = 0.0;
    for _ in 0..ROUNDS {
        if unwanted > 0.0 {
            basis = filtered(matrix, basis, width, [unwanted, values[0]]);
            orthonormalise(&mut basis, width);
        }
        let mut image = product(matrix, &basis, width);
        // The matrix as the basis sees it, `[width, width]`.
        let mut small = vec![vec![0.0; width]; width];
        for (row, image) in basis.iter().zip(&image) {
            for (a, small) in row.iter().zip(&mut small) {
                small.iter_mut().zip(image).for_each(|(sum, b)| *sum += a * b);
            }
        }
        let (found, rotation) = jacobi(small);
        image.par_iter_mut().for_each(|row| *row = rotated(row, &rotation));
        unwanted = found.last().copied().unwrap_or_default();
        let largest = found.first().copied().unwrap_or_default().abs().max(1e-300);
        let change =
            found.iter().zip(&values).take(count).map(|(a, b): (&f64, &f64)| (a - b).abs()).fold(0.0, f64::max);
        values = found;
        basis = image;
        orthonormalise(&mut basis, width);
        if change / largest < TOLERANCE {
            break;
        }
    }
    let count = count.min(width);
    values.truncate(count);
    basis.iter_mut().for_each(|row| row.truncate(count));
    Spectrum { values, vectors: basis }
}

/// The Chebyshev polynomial of the matrix, times a basis: it stays within one for eigenvalues from zero to `unwanted`, and grows fast
/// beyond.
fn filtered(
    matrix: &SymmetricMatrix,
    basis: Vec<Vec<f64>>,
    width: usize,
    [unwanted, largest]: [f64; 2],
) -> Vec<Vec<f64>> {
    let half = unwanted / 2.0;
    let growth = ((largest - half) / half).max(1.0 + 1e-9).acosh();
    let degree = ((2.0 * AMPLIFICATION).ln() / growth).clamp(1.0, DEGREE as f64) as usize;
    // The eigenvalues from zero to `unwanted` lie between -1 and 1 of the polynomial's argument.
    let argument = |basis: &[Vec<f64>]| {
        let mut image = product(matrix, basis, width);
        let shift = |(image, row): (&mut Vec<f64>, &Vec<f64>)| {
            image.iter_mut().zip(row).for_each(|(image, value)| *image = (*image - half * value) / half);
        };
        image.par_iter_mut().zip(basis.par_iter()).for_each(shift);
        image
    };
    let mut now = argument(&basis);
    let mut before = basis;
    for _ in 1..degree {
        let mut next = argument(&now);
        let recur = |(next, before): (&mut Vec<f64>, &Vec<f64>)| {
            next.iter_mut().zip(before).for_each(|(next, before)| *next = 2.0 * *next - before);
        };
        next.par_iter_mut().zip(before.par_iter()).for_each(recur);
        before = std::mem::replace(&mut now, next);
    }
    now
}

/// `matrix * basis`, `[rows][width]`.
fn product(matrix: &SymmetricMatrix, basis: &[Vec<f64>], width: usize) -> Vec<Vec<f64>> {
    let one = |row: &Vec<(u32, f32)>| {
        let mut sums = vec![0.0; width];
        for (column, value) in row {
            let value = f64::from(*value);
            sums.iter_mut().zip(&basis[*column as usize]).for_each(|(sum, b)| *sum += value * b);
        }
        sums
    };
    matrix.rows.par_iter().map(one).collect()
}

/// A row times a rotation whose columns are `rotation`'s entries.
fn rotated(row: &[f64], rotation: &[Vec<f64>]) -> Vec<f64> {
    rotation.iter().map(|column| row.iter().zip(column).map(|(a, b)| a * b).sum()).collect()
}

/// Makes the columns of `basis` orthogonal and of unit length (modified Gram-Schmidt).
fn orthonormalise(basis: &mut [Vec<f64>], width: usize) {
    for column in 0..width {
        for before in 0..column {
            let along: f64 = basis.iter().map(|row| row[column] * row[before]).sum();
            basis.iter_mut().for_each(|row| row[column] -= along * row[before]);
        }
        let length = basis.iter().map(|row| row[column] * row[column]).sum::<f64>().sqrt();
        if length > 1e-12 {
            basis.iter_mut().for_each(|row| row[column] /= length);
        } else {
            basis.iter_mut().for_each(|row| row[column] = 0.0);
        }
    }
}

/// Eigenvalues in falling order and their vectors, one after the other, by cyclic Jacobi rotations.
fn jacobi(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let size = matrix.len();
    let mut vectors: Vec<Vec<f64>> =
        (0..size).map(|n| (0..size).map(|m| f64::from(u8::from(n == m))).collect()).collect();
    let scale: f64 = matrix.iter().flatten().map(|v| v * v).sum();
    for _ in 0..SWEEPS {
        let off: f64 =
            (0..size).flat_map(|p| (0..p).map(move |q| (p, q))).map(|(p, q)| matrix[p][q] * matrix[p][q]).sum();
        if off <= scale * 1e-24 {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                if matrix[p][q].abs() < 1e-300 {
                    continue;
                }
                let ratio = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
                let tangent = ratio.signum() / (ratio.abs() + (ratio * ratio + 1.0).sqrt());
                let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
                let sine = tangent * cosine;
                for row in &mut matrix {
                    (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
                }
                for n in 0..size {
                    let (a, b) = (matrix[p][n], matrix[q][n]);
                    (matrix[p][n], matrix[q][n]) = (cosine * a - sine * b, sine * a + cosine * b);
                    let (a, b) = (vectors[p][n], vectors[q][n]);
                    (vectors[p][n], vectors[q][n]) = (cosine * a - sine * b, sine * a + cosine * b);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|a, b| matrix[*b][*b].total_cmp(&matrix[*a][*a]));
    (order.iter().map(|n| matrix[*n][*n]).collect(), order.iter().map(|n| vectors[*n].clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(rows: &[Vec<f64>]) -> SymmetricMatrix {
        let row = |row: &Vec<f64>| row.iter().enumerate().map(|(n, v)| (n as u32, *v as f32)).collect();
        SymmetricMatrix { rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn eigenvalues_of_a_known_matrix() {
        // The second difference of a line of n points: 2 - 2 cos(pi k / (n + 1)).
        let n = 30;
        let entry = |a: usize, b: usize| if a == b { 2.0 } else { f64::from(u8::from(a.abs_diff(b) == 1)) };
        let rows: Vec<Vec<f64>> = (0..n).map(|a| (0..n).map(|b| entry(a, b)).collect()).collect();
        let spectrum = leading(&dense(&rows), 3);
        for (k, value) in spectrum.values.iter().enumerate() {
            let expected = 2.0 + 2.0 * (std::f64::consts::PI * (k + 1) as f64 / (n + 1) as f64).cos();
            assert!((value - expected).abs() < 1e-3, "{value} against {expected}");
        }
    }

    /// The eigenvalues lie close together, as those of the affinities of people who sound alike.
    #[test]
    fn close_eigenvalues_are_told_apart() {
        let n = 400;
        let entry = |a: usize, b: usize| if a == b { 2.0 } else { f64::from(u8::from(a.abs_diff(b) == 1)) };
        let rows: Vec<Vec<f64>> = (0..n).map(|a| (0..n).map(|b| entry(a, b)).collect()).collect();
        let spectrum = leading(&dense(&rows), 8);
        for (k, value) in spectrum.values.iter().enumerate() {
            let expected = 2.0 + 2.0 * (std::f64::consts::PI * (k + 1) as f64 / (n + 1) as f64).cos();
            assert!((value - expected).abs() < 1e-4, "{value} against {expected}");
        }
    }

    #[test]
    fn equal_eigenvalues_have_vectors_of_their_own() {
        // Three blocks of ones that do not touch: the eigenvalue 4 three times.
        let rows: Vec<Vec<f64>> =
            (0..12).map(|a| (0..12).map(|b| f64::from(u8::from(a / 4 == b / 4))).collect()).collect();
        let spectrum = leading(&dense(&rows), 4);
        assert!(spectrum.values[..3].iter().all(|value| (value - 4.0).abs() < 1e-6) && spectrum.values[3].abs() < 1e-6);
        let along = |a: usize, b: usize| spectrum.vectors.iter().map(|row| row[a] * row[b]).sum::<f64>();
        assert!((along(0, 0) - 1.0).abs() < 1e-9 && along(0, 1).abs() < 1e-9 && along(1, 2).abs() < 1e-9);
    }
}
