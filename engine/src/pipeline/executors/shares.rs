//! Places of a batch, dealt to the streams in turn.

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
