//! One pass of the detector over a recording that several readers hear.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stream::VadStream;
use crate::error::Result;
use crate::models::silero::{CHUNK, Silero};

/// The speech probabilities of a recording, for one of its readers. All readers take the same samples, each at its own pace: the first
/// to come to some runs the detector, the others get what it found. A clone is a reader that goes on from the same sample.
#[derive(Debug)]
pub struct SharedVad {
    pass: Arc<Mutex<Pass>>,
    /// The reader's place in [`Pass::next`].
    reader: usize,
    /// Samples that the reader has taken.
    samples: usize,
}

/// The detector's pass, as far as the foremost reader has come.
#[derive(Debug)]
struct Pass {
    stream: VadStream<Arc<Silero>>,
    /// Samples that the detector has heard.
    samples: usize,
    /// Probabilities from chunk `first` on: those that a reader still has to take.
    probabilities: VecDeque<f32>,
    first: usize,
    /// The next chunk of each reader. One that is gone wants none.
    next: Vec<usize>,
}

const GONE: usize = usize::MAX;

impl SharedVad {
    /// The only reader of a recording without samples.
    #[must_use]
    pub fn new(detector: Arc<Silero>) -> Self {
        let stream = VadStream::new(detector);
        let pass = Pass { stream, samples: 0, probabilities: VecDeque::new(), first: 0, next: vec![0] };
        Self { pass: Arc::new(Mutex::new(pass)), reader: 0, samples: 0 }
    }

    /// Takes samples at 16 kHz; returns the speech probability, 0 to 1, of every chunk of [`CHUNK`] that they complete.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        let mut pass = lock(&self.pass);
        self.samples += samples.len();
        if let Some(new) = self.samples.checked_sub(pass.samples) {
            let found = pass.stream.push(&samples[samples.len() - new..])?;
            pass.probabilities.extend(found);
            pass.samples = self.samples;
        }
        let next = self.samples / CHUNK;
        let wanted = pass.next[self.reader] - pass.first..next - pass.first;
        let found = pass.probabilities.range(wanted).copied().collect();
        pass.moves(self.reader, next);
        Ok(found)
    }

    /// Pads an incomplete last chunk with zeros and returns its probability.
    ///
    /// # Errors
    /// As [`SharedVad::push`].
    pub fn finish(mut self) -> Result<Vec<f32>> {
        let missing = self.samples.next_multiple_of(CHUNK) - self.samples;
        self.push(&vec![0.0; missing])
    }
}

fn lock(pass: &Mutex<Pass>) -> MutexGuard<'_, Pass> {
    pass.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clone for SharedVad {
    fn clone(&self) -> Self {
        let mut pass = lock(&self.pass);
        let next = pass.next[self.reader];
        pass.next.push(next);
        Self { pass: self.pass.clone(), reader: pass.next.len() - 1, samples: self.samples }
    }
}

impl Drop for SharedVad {
    fn drop(&mut self) {
        lock(&self.pass).moves(self.reader, GONE);
    }
}

impl Pass {
    /// Moves a reader on, and forgets what nobody wants any more.
    fn moves(&mut self, reader: usize, next: usize) {
        self.next[reader] = next;
        let wanted = self.next.iter().copied().min().unwrap_or(GONE);
        let past = wanted.saturating_sub(self.first).min(self.probabilities.len());
        self.probabilities.drain(..past);
        self.first += past;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn detector() -> Arc<Silero> {
        Arc::new(Silero::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/starter/vad")).unwrap())
    }

    /// A tone that comes and goes, with a last chunk that is not whole.
    fn sound() -> Vec<f32> {
        let wave = |n: usize| (n as f32 * 0.11).sin() * (n as f32 * 0.0007).sin().max(0.0);
        (0..90 * CHUNK + 77).map(wave).collect()
    }

    fn alone(detector: &Arc<Silero>, blocks: &[&[f32]]) -> Vec<f32> {
        let mut stream = VadStream::new(detector.clone());
        let mut found: Vec<f32> = blocks.iter().flat_map(|block| stream.push(block).unwrap()).collect();
        found.extend(stream.finish().unwrap());
        found
    }

    #[test]
    fn each_reader_gets_what_a_detector_of_its_own_would_tell() {
        let (detector, sound) = (detector(), sound());
        let blocks: Vec<&[f32]> = sound.chunks(8000).collect();
        let expected = alone(&detector, &blocks);
        assert_eq!(expected.len(), 91);
        let mut first = SharedVad::new(detector);
        let mut second = first.clone();
        let (mut heard, mut again) = (Vec::new(), Vec::new());
        // Now the one is ahead, now the other.
        for (at, turn) in [(3, true), (2, false), (5, false), (6, true)] {
            let (reader, found) = if turn { (&mut first, &mut heard) } else { (&mut second, &mut again) };
            let from = reader.samples / 8000;
            blocks[from..(from + at).min(blocks.len())].iter().for_each(|b| found.extend(reader.push(b).unwrap()));
        }
        assert_eq!((first.samples, second.samples), (sound.len(), sound.len().min(7 * 8000)));
        heard.extend(first.finish().unwrap());
        again.extend(second.finish().unwrap());
        assert_eq!((heard, again), (expected.clone(), expected));
    }

    /// The second reader's samples are other ones: if they were heard, the probabilities would be too.
    #[test]
    fn the_detector_runs_once_and_what_is_read_is_forgotten() {
        let sound = sound();
        let mut first = SharedVad::new(detector());
        let mut second = first.clone();
        let found = first.push(&sound).unwrap();
        assert_eq!(lock(&first.pass).probabilities.len(), 90);
        let silence = vec![0.0; 40 * CHUNK];
        assert_eq!(second.push(&silence).unwrap(), found[..40]);
        assert_eq!(lock(&first.pass).probabilities.len(), 50);
        let third = second.clone();
        drop(second);
        assert_eq!(lock(&first.pass).probabilities.len(), 50, "the clone goes on from where it was made");
        drop(third);
        first.push(&sound).unwrap();
        assert_eq!(lock(&first.pass).probabilities.len(), 0, "what only one reader takes is never kept");
    }
}
