//! Embeddings to speakers: spectral clustering of a block, then the blocks' speakers joined by the likeness of their centres.
//!
//! The affinity is refined and the number of speakers found by its largest eigenvalue gap (von Luxburg, arXiv 0711.0189). The gap misses
//! people who speak seldom, so what it takes for one speaker is divided once more where its windows are of unlike groups. At last each
//! window is heard beside those around it.

use super::directions::{dot, mean, unit};
use super::linkage::groups;
use super::resegmentation::resegmented;
use super::spectrum::{Spectrum, SymmetricMatrix, leading};

/// Windows of a block: ten minutes at two a second.
pub const BLOCK: usize = 1200;
/// Speakers at most.
pub const MOST_SPEAKERS: usize = 20;
/// Part of a row's affinities that count, and how many do at least.
const KEPT: f64 = 0.1;
const LEAST_KEPT: usize = 10;
/// Centres at least this much alike are one speaker's.
const SAME: f32 = 0.85;
/// The one-speaker test: cut in two, one person's embeddings have centres at least this much alike; or their mean is at least
/// this long, where one odd window makes a half. These numbers and those around were chosen on conversations and readings of people
/// whom the shipped embedding was never trained on.
const HALVES_ALIKE: f32 = 0.56;
const LONG_MEAN: f32 = 0.72;
/// The division of a speaker: groups of windows that are at least this much alike in the mean are parts, those of at least so many windows,
/// and of at least this part of the block's; parts with centres at least this much alike are of one speaker.
const PART_ALIKE: f32 = 0.39;
const LEAST_PART: usize = 5;
const LEAST_SHARE: f64 = 0.02;
const CENTRES_ALIKE: f32 = 0.55;
/// Eigenvalues, of which the largest is one, that differ by less are equal.
const EQUAL: f64 = 1e-5;
/// Rounds of k-means at most.
const ROUNDS: usize = 100;

/// Joins windows to speakers while a recording is read. Memory grows by some centres a block.
#[derive(Clone, Debug, Default)]
pub struct Clustering {
    expected: Option<usize>,
    /// Embeddings of the block being read.
    block: Vec<Vec<f32>>,
    /// Centres of finished blocks, of unit length, with the number of windows behind each.
    centres: Vec<(Vec<f32>, usize)>,
    /// The centre of each window.
    of_window: Vec<usize>,
}

impl Clustering {
    /// `expected` is the number of speakers that the caller names, a hint.
    #[must_use]
    pub fn new(expected: Option<usize>) -> Self {
        Self { expected: expected.map(|count| count.clamp(1, MOST_SPEAKERS)), ..Self::default() }
    }

    /// Adds the embedding of the next window.
    pub fn push(&mut self, embedding: &[f32]) {
        self.block.push(unit(embedding.to_vec()));
        if self.block.len() == BLOCK {
            self.finish_block();
        }
    }

    /// Returns the speaker of each window, numbered by first window.
    #[must_use]
    pub fn finish(mut self) -> Vec<usize> {
        self.finish_block();
        let joined = join(&self.centres, self.expected);
        in_order(&self.of_window.iter().map(|centre| joined[*centre]).collect::<Vec<_>>())
    }

    fn finish_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let labels = cluster(&block, self.expected);
        let first = self.centres.len();
        let count = labels.iter().max().map_or(0, |last| last + 1);
        for speaker in 0..count {
            let own: Vec<&Vec<f32>> =
                block.iter().zip(&labels).filter(|(_, label)| **label == speaker).map(|(e, _)| e).collect();
            self.centres.push((unit(mean(&own)), own.len()));
        }
        self.of_window.extend(labels.iter().map(|label| first + label));
    }
}

/// Spectral clustering of one block's embeddings, which have unit length: the speaker of each, numbered by first window.
#[must_use]
pub fn cluster(embeddings: &[Vec<f32>], expected: Option<usize>) -> Vec<usize> {
    let most = expected.unwrap_or(MOST_SPEAKERS).min(embeddings.len());
    if most < 2 {
        return vec![0; embeddings.len()];
    }
    let spectrum = leading(&normalised(&affinities(embeddings)), (most + 1).min(embeddings.len()));
    if expected.is_none() && is_one_speaker(embeddings, &spectrum) {
        return vec![0; embeddings.len()];
    }
    let count = expected.map_or_else(|| largest_gap(&spectrum.values), |count| count.min(embeddings.len()));
    let mut labels = k_means(&directions(&spectrum, count), count);
    // A gap behind the first value is one speaker's, as the test above.
    if expected.is_none() && count > 1 {
        (0..count).for_each(|speaker| divide(embeddings, &mut labels, speaker));
    }
    in_order(&resegmented(embeddings, in_order(&labels)))
}

/// Gives the parts of a speaker but the first labels of their own, if there are several that are unlike each other.
fn divide(embeddings: &[Vec<f32>], labels: &mut [usize], speaker: usize) {
    let least = LEAST_PART.max((embeddings.len() as f64 * LEAST_SHARE).ceil() as usize);
    let own: Vec<usize> = (0..labels.len()).filter(|at| labels[*at] == speaker).collect();
    if own.len() < 2 * least {
        return;
    }
    let directions: Vec<&[f32]> = own.iter().map(|at| &embeddings[*at][..]).collect();
    let mut parts: Vec<Vec<&Vec<f32>>> = vec![Vec::new(); own.len()];
    for (at, group) in own.iter().zip(groups(&directions, PART_ALIKE)) {
        parts[group].push(&embeddings[*at]);
    }
    parts.retain(|part| part.len() >= least);
    let centres: Vec<Vec<f32>> = parts.iter().map(|part| unit(mean(part))).collect();
    let is_apart = |part: usize| centres[..part].iter().all(|other| dot(&centres[part], other) < CENTRES_ALIKE);
    if !(1..centres.len()).all(is_apart) {
        return;
    }
    let likeness = |at: usize, part: usize| dot(&centres[part], &embeddings[at]);
    let nearest = |at: &usize| (0..centres.len()).max_by(|a, b| likeness(*at, *a).total_cmp(&likeness(*at, *b)));
    let nearest: Vec<usize> = own.iter().filter_map(nearest).collect();
    if (0..centres.len()).any(|part| nearest.iter().filter(|nearest| **nearest == part).count() < least) {
        return;
    }
    let next = labels.iter().max().map_or(0, |last| last + 1);
    for (at, part) in own.into_iter().zip(nearest) {
        if part > 0 {
            labels[at] = next + part - 1;
        }
    }
}

/// Windows that no affinity joins are as many eigenvectors of one value, in any rotation: two of them may leave a part's rows at
/// zero, whose directions are noise. So the test takes all of them, and its parts are more than halves.
fn is_one_speaker(embeddings: &[Vec<f32>], spectrum: &Spectrum) -> bool {
    let all = mean(&embeddings.iter().collect::<Vec<_>>());
    let apart = spectrum.values.iter().take_while(|value| **value > spectrum.values[0] - EQUAL).count().max(2);
    let labels = k_means(&directions(spectrum, apart), apart);
    let centre = |part: usize| {
        let own: Vec<_> = embeddings.iter().zip(&labels).filter(|(_, label)| **label == part).map(|(e, _)| e).collect();
        (!own.is_empty()).then(|| unit(mean(&own)))
    };
    let centres: Vec<Vec<f32>> = (0..apart).filter_map(centre).collect();
    let alike = |at: usize| centres[..at].iter().all(|other| dot(&centres[at], other) >= HALVES_ALIKE);
    dot(&all, &all).sqrt() >= LONG_MEAN || (1..centres.len()).all(alike)
}

/// Cosines, 0 to 1; each row's best ones are kept, and a pair counts if either keeps it.
fn affinities(embeddings: &[Vec<f32>]) -> SymmetricMatrix {
    use rayon::prelude::*;
    let size = embeddings.len();
    let kept = ((size as f64 * KEPT).ceil() as usize).max(LEAST_KEPT).min(size);
    let cosines: Vec<Vec<f32>> =
        embeddings.par_iter().map(|a| embeddings.iter().map(|b| dot(a, b).max(0.0)).collect()).collect();
    let floors: Vec<f32> = cosines
        .par_iter()
        .map(|row| {
            let mut sorted = row.clone();
            *sorted.select_nth_unstable_by(size - kept, f32::total_cmp).1
        })
        .collect();
    let row = |(at, row): (usize, &Vec<f32>)| {
        let keeps = |(n, value): (usize, &f32)| {
            let votes = u8::from(*value >= floors[at]) + u8::from(*value >= floors[n]);
            (votes > 0 && *value > 0.0).then(|| (n as u32, value * f32::from(votes) / 2.0))
        };
        row.iter().enumerate().filter_map(keeps).collect()
    };
    SymmetricMatrix { rows: cosines.par_iter().enumerate().map(row).collect() }
}

/// `(I + D^-1/2 A D^-1/2) / 2`: its largest eigenvalues belong to the smallest of the normalised Laplacian, and none is below zero.
fn normalised(affinities: &SymmetricMatrix) -> SymmetricMatrix {
    let scale: Vec<f32> = affinities
        .rows
        .iter()
        .map(|row| 1.0 / row.iter().map(|(_, value)| *value).sum::<f32>().max(1e-12).sqrt())
        .collect();
    let row = |(at, row): (usize, &Vec<(u32, f32)>)| {
        let half = |(n, value): &(u32, f32)| {
            (*n, 0.5 * value * scale[at] * scale[*n as usize] + if *n as usize == at { 0.5 } else { 0.0 })
        };
        row.iter().map(half).collect()
    };
    SymmetricMatrix { rows: affinities.rows.iter().enumerate().map(row).collect() }
}

/// The number of eigenvalues before the largest gap.
fn largest_gap(values: &[f64]) -> usize {
    let gaps = values.windows(2).map(|pair| pair[0] - pair[1]).enumerate();
    gaps.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(1, |(at, _)| at + 1)
}

/// Rows of the first `count` eigenvectors, of unit length.
fn directions(spectrum: &Spectrum, count: usize) -> Vec<Vec<f32>> {
    let row = |row: &Vec<f64>| unit(row.iter().take(count).map(|value| *value as f32).collect());
    spectrum.vectors.iter().map(row).collect()
}

/// k-means; the first centres are the points farthest from those before them.
fn k_means(points: &[Vec<f32>], count: usize) -> Vec<usize> {
    let mut centres: Vec<Vec<f32>> = points.first().cloned().into_iter().collect();
    let mut nearest = vec![f32::INFINITY; points.len()];
    while centres.len() < count {
        let Some(last) = centres.last() else { break };
        nearest.iter_mut().zip(points).for_each(|(near, point)| *near = near.min(distance(point, last)));
        let farthest = (0..points.len()).max_by(|a, b| nearest[*a].total_cmp(&nearest[*b]));
        centres.extend(farthest.map(|at| points[at].clone()));
    }
    let mut labels = vec![0; points.len()];
    for _ in 0..ROUNDS {
        let closest = |point: &Vec<f32>| {
            (0..centres.len()).min_by(|a, b| distance(point, &centres[*a]).total_cmp(&distance(point, &centres[*b])))
        };
        let new: Vec<usize> = points.iter().map(|point| closest(point).unwrap_or_default()).collect();
        if new == labels {
            break;
        }
        labels = new;
        for (speaker, centre) in centres.iter_mut().enumerate() {
            let own: Vec<&Vec<f32>> =
                points.iter().zip(&labels).filter(|(_, label)| **label == speaker).map(|(p, _)| p).collect();
            if !own.is_empty() {
                *centre = mean(&own);
            }
        }
    }
    labels
}

/// Joins the two most alike centres while they are one speaker's, or more than expected; returns each centre's speaker.
fn join(centres: &[(Vec<f32>, usize)], expected: Option<usize>) -> Vec<usize> {
    let mut groups: Vec<(Vec<f32>, Vec<usize>)> = centres
        .iter()
        .enumerate()
        .map(|(at, (centre, windows))| (centre.iter().map(|value| value * *windows as f32).collect(), vec![at]))
        .collect();
    loop {
        let likeness = |a: usize, b: usize| dot(&unit(groups[a].0.clone()), &unit(groups[b].0.clone()));
        let pairs = (0..groups.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let best = pairs.map(|(a, b)| (likeness(a, b), a, b)).max_by(|x, y| x.0.total_cmp(&y.0));
        let wanted = expected.unwrap_or(MOST_SPEAKERS);
        match best {
            Some((alike, a, b)) if groups.len() > wanted || (alike >= SAME && expected.is_none()) => {
                let (sum, members) = groups.swap_remove(b);
                groups[a].0.iter_mut().zip(sum).for_each(|(x, y)| *x += y);
                groups[a].1.extend(members);
            }
            _ => break,
        }
    }
    let mut speakers = vec![0; centres.len()];
    for (speaker, (_, members)) in groups.iter().enumerate() {
        members.iter().for_each(|member| speakers[*member] = speaker);
    }
    speakers
}

/// Numbers labels by first use.
#[must_use]
pub fn in_order(labels: &[usize]) -> Vec<usize> {
    let mut seen: Vec<usize> = Vec::new();
    let mut number = |label: &usize| {
        seen.iter().position(|known| known == label).unwrap_or_else(|| {
            seen.push(*label);
            seen.len() - 1
        })
    };
    labels.iter().map(&mut number).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(speakers: usize, count: usize, turn: usize, noise: f32) -> (Vec<Vec<f32>>, Vec<usize>) {
        drawn(5, speakers, count, turn, noise)
    }

    /// Embeddings of speakers in turns of `turn` windows: each is its speaker's direction and noise, drawn from `state`.
    fn drawn(mut state: u64, speakers: usize, count: usize, turn: usize, noise: f32) -> (Vec<Vec<f32>>, Vec<usize>) {
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        let voices: Vec<Vec<f32>> = (0..speakers).map(|_| unit((0..64).map(|_| random()).collect())).collect();
        let truth: Vec<usize> = (0..count).map(|at| at / turn % speakers).collect();
        let heard = truth.iter().map(|speaker| {
            let other = unit((0..64).map(|_| random()).collect());
            unit(voices[*speaker].iter().zip(other).map(|(a, b)| a + noise * b).collect())
        });
        (heard.collect(), truth)
    }

    fn labels(embeddings: &[Vec<f32>], expected: Option<usize>) -> Vec<usize> {
        let mut clustering = Clustering::new(expected);
        embeddings.iter().for_each(|embedding| clustering.push(embedding));
        clustering.finish()
    }

    #[test]
    fn one_to_six_speakers_are_counted_and_told_apart() {
        for speakers in 1..=6 {
            let (heard, truth) = windows(speakers, 240, 7, 0.8);
            assert_eq!(labels(&heard, None), truth, "{speakers} speakers");
        }
    }

    #[test]
    fn speakers_of_no_likeness_are_never_one() {
        for state in 0..30 {
            let (heard, truth) = drawn(state, 5, 116, 7, 0.3);
            assert_eq!(labels(&heard, None), truth, "drawn from {state}");
        }
    }

    #[test]
    fn who_speaks_seldom_is_a_speaker_too() {
        for state in 0..20 {
            let (heard, truth) = drawn(state, 3, 150, 6, 0.8);
            let kept = |at: &usize| truth[*at] < 2 || *at < 18;
            let (heard, truth): (Vec<_>, Vec<_>) =
                (0..150).filter(kept).map(|at| (heard[at].clone(), truth[at])).unzip();
            let found = labels(&heard, None);
            let wrong = found.iter().zip(&truth).filter(|(found, truth)| found != truth).count();
            assert!(found.contains(&2) && wrong <= 1, "drawn from {state}: {found:?}");
        }
    }

    #[test]
    fn speakers_stay_the_same_over_blocks() {
        let (heard, truth) = windows(4, 3 * BLOCK + 100, 11, 0.8);
        assert_eq!(labels(&heard, None), truth);
    }

    #[test]
    fn the_expected_number_is_kept_even_where_it_is_wrong() {
        let (heard, truth) = windows(3, 90, 5, 0.7);
        assert_eq!(labels(&heard, Some(3)), truth);
        assert_eq!(labels(&heard, Some(1)), vec![0; 90]);
        for wrong in [2, 6] {
            assert_eq!(labels(&heard, Some(wrong)).into_iter().max(), Some(wrong - 1));
        }
    }

    #[test]
    fn no_window_or_one_is_no_fault() {
        assert_eq!(labels(&[], None), Vec::<usize>::new());
        assert_eq!(labels(&[], Some(4)), Vec::<usize>::new());
        let (heard, _) = windows(1, 1, 1, 0.0);
        assert_eq!(labels(&heard, None), vec![0]);
        assert_eq!(labels(&heard, Some(3)), vec![0]);
        assert_eq!(labels(&vec![vec![0.0; 8]; 5], None).len(), 5, "silence has no direction");
    }
}
