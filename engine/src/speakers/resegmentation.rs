//! Resegmentation: the windows of a clustering to its speakers once more, each heard beside those around it.
//!
//! A hidden Markov model whose states are the speakers: a window's direction follows a von Mises-Fisher density around its speaker's,
//! and a speaker mostly goes on (Banerjee et al., JMLR 6, 2005; Landini et al., arXiv 2012.14952). Some rounds of expectation
//! maximisation, and each window takes its likeliest speaker.

use super::directions::{dot, unit};

/// Concentration of the densities. This and the next were chosen on conversations of people whom the shipped embedding was never
/// trained on.
const CONCENTRATION: f64 = 15.0;
/// Probability that a speaker goes on in the next window; else it is any speaker's, the same one's included.
const STAYS: f64 = 0.8;
/// Rounds of expectation maximisation.
const ROUNDS: usize = 4;

/// Gives windows, whose directions have unit length, to their likeliest speakers. Every number below the largest label is a speaker
/// with windows, and stays one: labels by which one would have none are not taken.
#[must_use]
pub fn resegmented(directions: &[Vec<f32>], labels: Vec<usize>) -> Vec<usize> {
    let speakers = labels.iter().max().map_or(0, |last| last + 1);
    if speakers < 2 {
        return labels;
    }
    let certain = |label: &usize| (0..speakers).map(|speaker| f64::from(u8::from(speaker == *label))).collect();
    let mut shares: Vec<Vec<f64>> = labels.iter().map(certain).collect();
    for _ in 0..ROUNDS {
        let centres: Vec<Vec<f32>> = (0..speakers).map(|speaker| centre(directions, &shares, speaker)).collect();
        let likelihood = |direction: &Vec<f32>| {
            centres.iter().map(|centre| CONCENTRATION * f64::from(dot(direction, centre))).collect()
        };
        shares = posteriors(&directions.iter().map(likelihood).collect::<Vec<_>>());
    }
    let likeliest = |shares: &Vec<f64>| (0..speakers).max_by(|a, b| shares[*a].total_cmp(&shares[*b]));
    let new: Vec<usize> = shares.iter().filter_map(likeliest).collect();
    if (0..speakers).all(|speaker| new.contains(&speaker)) { new } else { labels }
}

/// The direction of a speaker, by each window's share of it.
fn centre(directions: &[Vec<f32>], shares: &[Vec<f64>], speaker: usize) -> Vec<f32> {
    let mut sum = vec![0.0; directions.first().map_or(0, Vec::len)];
    for (direction, shares) in directions.iter().zip(shares) {
        sum.iter_mut().zip(direction).for_each(|(sum, value)| *sum += shares[speaker] as f32 * value);
    }
    unit(sum)
}

/// The probability of each state in each step, given all steps: the forward-backward algorithm, scaled. `likelihoods` are logarithms,
/// `[steps][states]`, of which each step's may lack a constant.
fn posteriors(likelihoods: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let states = likelihoods.first().map_or(0, Vec::len);
    let change = (1.0 - STAYS) / states as f64;
    let emission = |step: &Vec<f64>| {
        let most = step.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scaled(step.iter().map(|value| (value - most).exp()).collect())
    };
    let emissions: Vec<Vec<f64>> = likelihoods.iter().map(emission).collect();
    let moved = |step: Vec<f64>| -> Vec<f64> {
        let all: f64 = step.iter().sum();
        step.into_iter().map(|value| STAYS * value + change * all).collect()
    };
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
    // Each step's state given the steps up to it, and then given those behind it too.
    let mut known: Vec<Vec<f64>> = Vec::with_capacity(emissions.len());
    for emission in &emissions {
        let before = known.last().map_or_else(|| vec![1.0; states], |last| moved(last.clone()));
        known.push(scaled(product(&before, emission)));
    }
    let mut behind = vec![1.0; states];
    for (known, emission) in known.iter_mut().zip(&emissions).rev() {
        *known = scaled(product(known, &behind));
        behind = scaled(moved(product(&behind, emission)));
    }
    known
}

/// Values with a sum of one.
fn scaled(mut values: Vec<f64>) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum.max(f64::MIN_POSITIVE));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// hmmlearn 0.3.3: `CategoricalHMM(3)` with equal `startprob_`, `transmat_ = 0.8 * eye(3) + 0.2 / 3`, these emissions and
    /// symbols, `predict_proba`.
    #[test]
    fn posteriors_are_those_of_hmmlearn() {
        let emissions = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.5, 0.2]];
        let symbols = [0, 0, 2, 1, 2, 2, 0, 1];
        let expected = [
            [0.634_012, 0.096_013, 0.269_975],
            [0.571_066, 0.148_684, 0.280_25],
            [0.174_727, 0.538_116, 0.287_156],
            [0.097_849, 0.588_856, 0.313_295],
            [0.059_616, 0.666_29, 0.274_094],
            [0.081_456, 0.623_849, 0.294_695],
            [0.240_448, 0.362_272, 0.397_28],
            [0.210_974, 0.345_386, 0.443_64],
        ];
        // A constant of a step changes nothing.
        let step = |(at, symbol): (usize, &usize)| emissions.iter().map(|e| f64::ln(e[*symbol]) - at as f64).collect();
        let found = posteriors(&symbols.iter().enumerate().map(step).collect::<Vec<Vec<f64>>>());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} against {expected:?}");
        }
    }

    /// Directions in a plane, by their angles.
    fn plane(angles: &[f32]) -> Vec<Vec<f32>> {
        angles.iter().map(|angle| vec![angle.cos(), angle.sin()]).collect()
    }

    #[test]
    fn a_doubtful_window_goes_with_those_around_it_and_a_certain_one_stays() {
        let angles = [0.0, 0.1, 0.62, 0.0, 0.1, 1.0, 1.1, 0.0, 1.2, 1.0, 1.1, 1.0];
        let labels = vec![0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1];
        let mut expected = labels.clone();
        expected[2] = 0;
        assert_eq!(resegmented(&plane(&angles), labels), expected);
    }

    #[test]
    fn no_speaker_is_lost() {
        let labels = vec![0, 0, 0, 1, 0, 0, 0];
        assert_eq!(resegmented(&plane(&[0.5; 7]), labels.clone()), labels, "nothing tells the two apart");
        assert_eq!(resegmented(&[], Vec::new()), Vec::<usize>::new());
        assert_eq!(resegmented(&vec![vec![0.0; 4]; 3], vec![0, 1, 0]), [0, 1, 0], "silence has no direction");
    }
}
