//! Agglomerative clustering by average linkage: the two groups that are most alike in the mean become one, again and again.

use rayon::prelude::*;

use super::directions::dot;

/// Joins groups of directions while two are at least this much alike in the mean of their pairs' cosines; returns each direction's group,
/// named by one of its members.
#[must_use]
pub fn groups(directions: &[&[f32]], alike: f32) -> Vec<usize> {
    let size = directions.len();
    let row = |at: usize| (0..size).map(|other| dot(directions[at], directions[other])).collect();
    // The mean of two groups' pairs. Rows and columns of groups that others have taken in are no longer read.
    let mut likeness: Vec<Vec<f32>> = (0..size).into_par_iter().map(row).collect();
    // The directions of each group; 0 once another has taken it in.
    let mut members = vec![1usize; size];
    let mut group: Vec<usize> = (0..size).collect();
    let closest = |at: usize, likeness: &[Vec<f32>], members: &[usize]| {
        let others = (0..size).filter(|other| *other != at && members[*other] > 0);
        others.max_by(|a, b| likeness[at][*a].total_cmp(&likeness[at][*b]))
    };
    let mut nearest: Vec<Option<usize>> = (0..size).map(|at| closest(at, &likeness, &members)).collect();
    loop {
        let pairs = (0..size).filter(|at| members[*at] > 0).filter_map(|at| nearest[at].map(|other| (at, other)));
        let best = pairs.max_by(|(a, b), (c, d)| likeness[*a][*b].total_cmp(&likeness[*c][*d]));
        let Some((a, b)) = best.filter(|(a, b)| likeness[*a][*b] >= alike) else { return group };
        let (own, taken) = (members[a] as f32, members[b] as f32);
        let pairs = likeness[a].iter().zip(&likeness[b]);
        let means: Vec<f32> =
            pairs.map(|(to_own, to_taken)| (own * to_own + taken * to_taken) / (own + taken)).collect();
        likeness.iter_mut().zip(&means).for_each(|(row, mean)| row[a] = *mean);
        likeness[a] = means;
        members[a] += std::mem::take(&mut members[b]);
        group.iter_mut().filter(|group| **group == b).for_each(|group| *group = a);
        for at in (0..size).filter(|at| members[*at] > 0) {
            // A mean is no nearer than what was nearest: only those who were nearest to the two look anew.
            if at == a || nearest[at].is_some_and(|other| other == a || other == b) {
                nearest[at] = closest(at, &likeness, &members);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each direction the first one of its group.
    fn joined(angles: &[f32], alike: f32) -> Vec<usize> {
        let directions: Vec<[f32; 2]> = angles.iter().map(|angle| [angle.cos(), angle.sin()]).collect();
        let directions: Vec<&[f32]> = directions.iter().map(|direction| &direction[..]).collect();
        let groups = groups(&directions, alike);
        groups.iter().map(|group| groups.iter().position(|other| other == group).unwrap()).collect()
    }

    #[test]
    fn directions_that_are_alike_are_one_group() {
        assert_eq!(joined(&[0.0, 1.5, 0.1, 1.6, 0.05, 3.1], 0.9), [0, 1, 0, 1, 0, 5]);
        assert_eq!(joined(&[0.0, 1.5, 0.1], -1.1), [0, 0, 0]);
        assert_eq!(joined(&[0.0, 0.3], 0.99), [0, 1]);
        assert_eq!(joined(&[0.5], 0.9), [0]);
        assert_eq!(joined(&[], 0.9), [0usize; 0]);
    }

    /// A chain, whose neighbours are alike and whose ends are not: the mean of a group's pairs counts, not its nearest.
    #[test]
    fn a_chain_is_cut() {
        let chain: Vec<f32> = (0..12).map(|at| at as f32 * 0.2).collect();
        let mut groups = joined(&chain, 0.9);
        assert!(groups.is_sorted(), "{groups:?}");
        groups.dedup();
        assert!((3..=6).contains(&groups.len()), "{groups:?}");
    }
}
