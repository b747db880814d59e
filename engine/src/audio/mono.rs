//! Mixes many channels to one.

use super::LIMIT;

/// Appends the mean of `channels` interleaved channels to `out`: `[frames * channels]` -> `[frames]`.
///
/// The mean, not a surround down-mix: speech may be in any one channel (a call with one speaker per side, a conference
/// recorder with 64 microphones), and the mean loses none of them and cannot clip.
pub(super) fn mix(interleaved: &[f32], channels: usize, out: &mut Vec<f32>) {
    out.reserve(interleaved.len() / channels.max(1));
    match channels {
        0 => {}
        1 => out.extend(interleaved.iter().copied().map(sanitize)),
        2 => out.extend(interleaved.as_chunks::<2>().0.iter().map(|[l, r]| (sanitize(*l) + sanitize(*r)) * 0.5)),
        _ => {
            let scale = 1.0 / channels as f32;
            let frames = interleaved.chunks_exact(channels);
            out.extend(frames.map(|frame| frame.iter().copied().map(sanitize).sum::<f32>() * scale));
        }
    }
}

/// Replaces NaN and infinities by 0 and clips other values to +-[`LIMIT`].
pub(crate) fn sanitize(sample: f32) -> f32 {
    if sample.is_finite() { sample.clamp(-LIMIT, LIMIT) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(interleaved: &[f32], channels: usize) -> Vec<f32> {
        let mut out = Vec::new();
        mix(interleaved, channels, &mut out);
        out
    }

    #[test]
    fn channels_are_averaged() {
        assert_eq!(mixed(&[0.5, -0.25], 1), [0.5, -0.25]);
        assert_eq!(mixed(&[0.5, 0.25, 1.0, -1.0], 2), [0.375, 0.0]);
        assert_eq!(mixed(&[0.3, 0.6, 0.9], 3), [0.6]);
        assert_eq!(mixed(&[1.0; 64], 64), [1.0]);
    }

    #[test]
    fn an_incomplete_last_frame_is_dropped() {
        assert_eq!(mixed(&[1.0, 1.0, 1.0], 2), [1.0]);
        assert_eq!(mixed(&[1.0, 1.0, 1.0, 1.0], 3), [1.0]);
        assert!(mixed(&[1.0], 0).is_empty());
    }

    #[test]
    fn a_bad_sample_spoils_neither_its_frame_nor_its_neighbours() {
        assert_eq!(mixed(&[f32::NAN, 0.5, f32::INFINITY, -0.5], 2), [0.25, -0.25]);
        assert_eq!(mixed(&[f32::NAN, f32::NEG_INFINITY], 1), [0.0, 0.0]);
        assert_eq!(mixed(&[1.5, -1.5, 1e30], 1), [1.5, -1.5, LIMIT]);
    }
}
