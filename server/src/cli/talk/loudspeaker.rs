//! A loudspeaker: audio of replies in as it comes, samples out as they are played.

use std::collections::VecDeque;

/// The audio of the current reply that is not played yet.
#[derive(Debug, Default)]
pub struct Loudspeaker {
    queue: VecDeque<i16>,
}

impl Loudspeaker {
    /// Takes audio.
    pub fn push(&mut self, samples: &[i16]) {
        self.queue.extend(samples);
    }

    /// Drops what is not played yet: the reply was interrupted.
    pub fn stop(&mut self) {
        self.queue.clear();
    }

    /// True if nothing waits to be played.
    pub fn is_silent(&self) -> bool {
        self.queue.is_empty()
    }

    /// Plays this many samples; silence where there is no audio.
    pub fn play(&mut self, count: usize) -> Vec<i16> {
        let mut played: Vec<i16> = self.queue.drain(..count.min(self.queue.len())).collect();
        played.resize(count, 0);
        played
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_fills_up_and_a_stop_drops_the_rest() {
        let mut loudspeaker = Loudspeaker::default();
        loudspeaker.push(&[1, 2, 3]);
        assert_eq!(loudspeaker.play(2), [1, 2]);
        assert_eq!(loudspeaker.play(2), [3, 0]);
        loudspeaker.push(&[4, 5]);
        loudspeaker.stop();
        assert!(loudspeaker.is_silent());
        assert_eq!(loudspeaker.play(1), [0]);
    }
}
