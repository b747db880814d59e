//! Durations of symbols, in frames.

/// Frames of an utterance at most: half a minute and more of any published frame rate. A network whose durations are nonsense asks for
/// no memory.
pub const MOST_FRAMES: usize = 6_000;

/// Frames of each symbol from what the network predicts, the logarithm of one frame more; each times `scale`, as published: rounded
/// before and after. None if a value is no number or the sum exceeds [`MOST_FRAMES`].
pub fn durations(predicted: &[f32], scale: f32) -> Option<Vec<usize>> {
    let frames = |log: &f32| {
        let frames = (log.exp() - 1.0).round_ties_even().max(0.0);
        if scale == 1.0 { frames } else { (frames * scale).round_ties_even() }
    };
    let frames: Vec<f32> = predicted.iter().map(frames).collect();
    if predicted.iter().any(|log| log.is_nan()) || frames.iter().sum::<f32>() > MOST_FRAMES as f32 {
        return None;
    }
    let mut frames: Vec<usize> = frames.into_iter().map(|frames| frames as usize).collect();
    if frames.iter().all(|frames| *frames == 0) {
        // The published class gives every symbol a frame then.
        frames.fill(1);
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_as_published() {
        let logs: Vec<f32> = [1.0f32, 3.4, 3.5, 4.5, 0.2].iter().map(|frames| (frames + 1.0).ln()).collect();
        assert_eq!(durations(&logs, 1.0), Some(vec![1, 3, 4, 4, 0]));
        assert_eq!(durations(&logs, 0.5), Some(vec![0, 2, 2, 2, 0]));
        assert_eq!(durations(&[-3.0, 0.0], 1.0), Some(vec![1, 1]));
    }

    #[test]
    fn nonsense_has_no_durations() {
        assert_eq!(durations(&[1.0, f32::NAN], 1.0), None);
        assert_eq!(durations(&[1.0, f32::INFINITY], 1.0), None);
        assert_eq!(durations(&[30.0], 1.0), None);
    }
}
