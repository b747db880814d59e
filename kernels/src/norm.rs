//! Layer normalisation of values that are no tensor.

const LANES: usize = 16;
/// As in all published classes.
const EPSILON: f32 = 1e-5;

/// Each row of `x` `[rows, size]`, less its mean and over its deviation, times `gamma` and with `beta` added, to `out` of the
/// same shape; `gamma` and `beta` are `[size]`, epsilon is 1e-5. In the widest vectors the processor has.
///
/// # Panics
/// When the lengths do not fit together.
pub fn layer_norm(x: &[f32], gamma: &[f32], beta: &[f32], out: &mut [f32]) {
    let size = gamma.len();
    assert!(beta.len() == size && out.len() == x.len() && x.len().is_multiple_of(size), "the rows of a norm");
    pulp::Arch::new().dispatch(LayerNorm { x, gamma, beta, out });
}

struct LayerNorm<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let size = self.gamma.len();
        for (x, out) in self.x.chunks_exact(size).zip(self.out.chunks_exact_mut(size)) {
            let mean = sum(x, |value| value) / size as f32;
            let variance = sum(x, |value| (value - mean) * (value - mean)) / size as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            let weights = self.gamma.iter().zip(self.beta);
            for ((out, value), (gamma, beta)) in out.iter_mut().zip(x).zip(weights) {
                *out = (value - mean) * scale * gamma + beta;
            }
        }
    }
}

#[inline(always)]
fn sum(x: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0f32; LANES];
    let (lanes, rest) = x.as_chunks::<LANES>();
    for lane in lanes {
        for (sum, value) in sums.iter_mut().zip(lane) {
            *sum += of(*value);
        }
    }
    let mut total = 0.0;
    for value in rest {
        total += of(*value);
    }
    for sum in sums {
        total += sum;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_norm_is_that_of_the_definition() {
        for size in [1, 15, 16, 37, 256] {
            let x: Vec<f32> = (0..3 * size).map(|n| (n as f32 * 0.7).sin() * 9.0 + 4.0).collect();
            let gamma: Vec<f32> = (0..size).map(|n| (n as f32 * 1.3).cos()).collect();
            let beta: Vec<f32> = (0..size).map(|n| n as f32 * 0.01).collect();
            let mut out = vec![0.0; 3 * size];
            layer_norm(&x, &gamma, &beta, &mut out);
            for (row, (x, out)) in x.chunks_exact(size).zip(out.chunks_exact(size)).enumerate() {
                let mean = x.iter().copied().map(f64::from).sum::<f64>() / size as f64;
                let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / size as f64;
                for at in 0..size {
                    let exact = (f64::from(x[at]) - mean) / (variance + 1e-5).sqrt() * f64::from(gamma[at]);
                    let error = (f64::from(out[at]) - exact - f64::from(beta[at])).abs();
                    assert!(error < 5e-6, "{size}, row {row}, {at}: {error}");
                }
            }
        }
    }
}
