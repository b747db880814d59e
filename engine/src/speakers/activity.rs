//! Logits of frames to stretches of speech, in memory that grows by the stretches alone.

use super::words::Activity;

/// Gathers the stretches in which each speaker is more likely active than not.
#[derive(Clone, Debug)]
pub struct ActiveSpans {
    frame_ms: f64,
    /// Frames so far.
    frames: usize,
    /// The first frame of each speaker's stretch that goes on.
    began: Vec<Option<usize>>,
    spans: Vec<Activity>,
}

impl ActiveSpans {
    /// A recording without frames; a frame lasts `frame_ms`.
    #[must_use]
    pub fn new(speakers: usize, frame_ms: f64) -> Self {
        Self { frame_ms, frames: 0, began: vec![None; speakers], spans: Vec::new() }
    }

    /// Adds the logits of the next frames, `[frames][speakers]`.
    pub fn push(&mut self, logits: &[f32]) {
        for frame in logits.chunks_exact(self.began.len()) {
            for (speaker, logit) in frame.iter().enumerate() {
                match (*logit > 0.0, self.began[speaker]) {
                    (true, None) => self.began[speaker] = Some(self.frames),
                    (false, Some(first)) => self.end(speaker, first),
                    (true, Some(_)) | (false, None) => {}
                }
            }
            self.frames += 1;
        }
    }

    /// The stretches, by their start, then speaker.
    #[must_use]
    pub fn finish(mut self) -> Vec<Activity> {
        for speaker in 0..self.began.len() {
            if let Some(first) = self.began[speaker] {
                self.end(speaker, first);
            }
        }
        self.spans.sort_by_key(|one| (one.span.start, one.speaker));
        self.spans
    }

    fn end(&mut self, speaker: usize, first: usize) {
        let ms = |frame: usize| (frame as f64 * self.frame_ms).round() as u64;
        self.spans.push(Activity { span: ms(first)..ms(self.frames), speaker });
        self.began[speaker] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_may_overlap_and_go_on_from_push_to_push() {
        let mut spans = ActiveSpans::new(2, 10.0);
        spans.push(&[-1.0, 2.0, 0.5, 2.0]);
        spans.push(&[]);
        spans.push(&[0.5, -2.0, -0.1, 3.0]);
        let found: Vec<_> = spans.finish().into_iter().map(|one| (one.speaker, one.span)).collect();
        assert_eq!(found, [(1, 0..20), (0, 10..30), (1, 30..40)]);
        assert_eq!(ActiveSpans::new(2, 10.0).finish(), []);
    }
}
