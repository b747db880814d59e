//! Places of a batch, dealt to the streams in turn, and what of a batch is computed together.

/// How many of its pieces each of several takes, one of each in turn up to `most` together, so that a long one does not delay
/// the others.
pub fn in_turn(waiting: &[usize], most: usize) -> Vec<usize> {
    let mut counts = vec![0; waiting.len()];
    let mut left = most.min(waiting.iter().sum());
    while left > 0 {
        for (count, waiting) in counts.iter_mut().zip(waiting) {
            if left > 0 && *count < *waiting {
                (*count, left) = (*count + 1, left - 1);
            }
        }
    }
    counts
}

/// Divides pieces into groups of similar length, which are computed one after another, each padded to its longest. A group costs its padded
/// length and `overhead`, in the same unit; the division has the lowest sum. Gives the numbers of the pieces of each group.
pub fn by_length(lengths: &[usize], overhead: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|piece| std::cmp::Reverse(lengths[*piece]));
    // Of the first pieces in that order: the lowest cost, and where its last group begins.
    let mut best = vec![(0, 0)];
    for end in 1..=order.len() {
        let cost = |begin: usize| best[begin].0 + lengths[order[begin]] * (end - begin) + overhead;
        let next = (0..end).map(|begin| (cost(begin), begin)).min().unwrap_or_default();
        best.push(next);
    }
    let (mut groups, mut end) = (Vec::new(), order.len());
    while end > 0 {
        let begin = best[end].1;
        groups.push(order[begin..end].to_vec());
        end = begin;
    }
    groups.reverse();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_divided_where_padding_costs_more_than_another_group() {
        assert!(by_length(&[], 5).is_empty());
        assert_eq!(by_length(&[30, 30, 29], 20), [[0, 1, 2]]);
        assert_eq!(by_length(&[3, 30, 4, 30, 2], 20), [vec![1, 3], vec![2, 0, 4]]);
        // 27 seconds of padding are cheaper than another group of 28.
        assert_eq!(by_length(&[3, 30], 28), [[1, 0]]);
        assert_eq!(by_length(&[3, 30], 26), [[1], [0]]);
    }

    #[test]
    fn no_division_is_cheaper() {
        let lengths = [30, 1, 17, 8, 30, 22, 3, 9];
        let cost = |groups: &[Vec<usize>]| -> usize {
            let of = |group: &Vec<usize>| group.iter().map(|piece| lengths[*piece]).max().unwrap() * group.len() + 12;
            groups.iter().map(of).sum()
        };
        let found = by_length(&lengths, 12);
        let mut all: Vec<usize> = found.concat();
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<_>>());
        // Each piece in any of at most four groups.
        for code in 0..4usize.pow(8) {
            let mut groups = vec![Vec::new(); 4];
            (0..8).for_each(|piece| groups[code / 4usize.pow(piece as u32) % 4].push(piece));
            groups.retain(|group| !group.is_empty());
            assert!(cost(&found) <= cost(&groups), "{groups:?} is cheaper than {found:?}");
        }
    }
}
