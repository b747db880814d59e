//! Windows inside detected speech, and the part of it that each of them decides.

use std::ops::Range;

/// Length of a window, in frames of 10 ms.
pub const LENGTH: usize = 150;
/// From one window to the next.
pub const HOP: usize = 50;
/// Speech shorter than this gets no window: an embedding of so little says nothing.
pub const SHORTEST: usize = 40;

/// A stretch of speech that is embedded, in frames of 10 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The frames that the embedding hears, at most [`LENGTH`] frames.
    pub heard: Range<usize>,
    /// The frames that the embedding's speaker is said of: up to the middle between this window's centre and its neighbour's.
    pub decided: Range<usize>,
}

/// Places windows inside segments of speech, in frames. The last window of a segment ends where the segment does.
#[must_use]
pub fn place(segments: &[Range<usize>]) -> Vec<Window> {
    let mut windows = Vec::new();
    for segment in segments.iter().filter(|segment| segment.len() >= SHORTEST) {
        let last = segment.end.saturating_sub(LENGTH).max(segment.start);
        let mut starts: Vec<usize> = (segment.start..last).step_by(HOP).collect();
        starts.push(last);
        for (at, start) in starts.iter().enumerate() {
            let middle = |other: usize| (start + other + LENGTH.min(segment.len())) / 2;
            windows.push(Window {
                heard: *start..(start + LENGTH).min(segment.end),
                decided: at.checked_sub(1).map_or(segment.start, |before| middle(starts[before]))
                    ..starts.get(at + 1).map_or(segment.end, |after| middle(*after)),
            });
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_each_segment_once() {
        let segments = [3..20, 100..160, 200..350, 400..777];
        let windows = place(&segments);
        assert!(windows.iter().all(|window| window.heard.len() <= LENGTH && !window.decided.is_empty()));
        for segment in &segments[1..] {
            let own: Vec<&Window> = windows.iter().filter(|window| segment.contains(&window.heard.start)).collect();
            assert_eq!((own[0].decided.start, own[own.len() - 1].decided.end), (segment.start, segment.end));
            assert!(own.windows(2).all(|pair| pair[0].decided.end == pair[1].decided.start));
            assert!(own.iter().all(|window| window.heard.end <= segment.end));
        }
        assert_eq!(windows.len(), 1 + 1 + 6, "a segment that is too short has none: {windows:?}");
    }
}
