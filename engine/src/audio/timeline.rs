//! Packet times on their container's clock. Finds missing audio between packets: a lost page, or a pause that a
//! recorder did not store.

/// Least total of missing audio, in seconds, that is filled with silence: clocks of recorders have jitter.
const LEAST_S: f64 = 0.1;

/// Least of it that must be missing right before a packet: small gaps everywhere mean that the clock is wrong.
const LEAST_HERE_S: f64 = 0.03;

/// The longest gap, and the longest time before the sound of a video, that is accepted, in seconds: more is a wrong clock, and silence is
/// billed like sound.
pub(super) const LONGEST_S: f64 = 600.0;

/// Least time between the start of a video and that of its sound which is filled with silence, in seconds.
pub(super) const LEAST_LEAD_S: f64 = 0.1;

/// The decoded part of a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// Expected start of the next packet if nothing is missing, by the audio decoded since the first.
    due_s: f64,
    /// End of the last packet.
    ended_s: f64,
}

impl Timeline {
    /// The state after the first packet.
    pub fn begin(start_s: f64, length_s: f64) -> Self {
        Self { due_s: start_s + length_s, ended_s: start_s + length_s }
    }

    /// Adds a packet that begins at `start_s` and holds `length_s` seconds of audio.
    pub fn push(&mut self, start_s: f64, length_s: f64) {
        self.due_s += length_s;
        self.ended_s = start_s + length_s;
    }

    /// Seconds of audio that are missing before a packet that begins at `start_s`, at most `left_s`; they count as
    /// returned.
    pub fn missing(&mut self, start_s: f64, left_s: f64) -> Option<f64> {
        let missing = start_s - self.due_s;
        if missing <= LEAST_S || start_s - self.ended_s <= LEAST_HERE_S {
            return None;
        }
        self.due_s = start_s;
        self.ended_s = start_s;
        (missing <= left_s.min(LONGEST_S)).then_some(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of packet index and gap before it, for packets of 20 ms at these times.
    fn missing(starts_s: impl IntoIterator<Item = f64>) -> Vec<(usize, f64)> {
        let mut timeline: Option<Timeline> = None;
        let mut found = Vec::new();
        for (at, start_s) in starts_s.into_iter().enumerate() {
            match &mut timeline {
                None => timeline = Some(Timeline::begin(start_s, 0.02)),
                Some(timeline) => {
                    found.extend(timeline.missing(start_s, 60.0).map(|s| (at, (s * 1e3).round() / 1e3)));
                    timeline.push(start_s, 0.02);
                }
            }
        }
        found
    }

    #[test]
    fn a_gap_is_found_once_and_a_trembling_or_wrong_clock_is_none() {
        let packets = |count: usize| (0..count).map(|at| 5.0 + at as f64 * 0.02);
        assert_eq!(missing(packets(500)), []);
        assert_eq!(missing(packets(500).filter(|s| !(6.0..7.0).contains(s))), [(50, 1.0)]);
        let trembling = |(at, s): (usize, f64)| s + [0.0, 0.04, -0.03, 0.06][at % 4];
        assert_eq!(missing(packets(500).enumerate().map(trembling)), []);
        assert_eq!(missing((0..500).map(|at| at as f64 * 0.04)), [], "half of everything");
        assert_eq!(missing(packets(500).map(|s| if s > 6.0 { s + 100.0 } else { s })), [], "more than there may be");
    }
}
