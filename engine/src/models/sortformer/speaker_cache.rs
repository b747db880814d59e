//! The frames that the speaker cache keeps when it overflows: the stages of the choice, each a function of its own.
//!
//! Activities and scores are `[frames][speakers]`, row-major. A frame is an encoder frame.

use std::cmp::Ordering;

use super::config::CacheConfig;

/// Boosts lift the best frames of each speaker above the rest of all: by the logarithm of 4, and by that of 2.
const STRONG_BOOST: f32 = 2.0 * std::f32::consts::LN_2;
const WEAK_BOOST: f32 = std::f32::consts::LN_2;
/// A speaker is active in a frame above this probability.
const ACTIVE: f32 = 0.5;

/// The rule by which an overflowing cache is cut.
#[derive(Clone, Debug)]
pub struct CachePolicy {
    speakers: usize,
    length: usize,
    silence_frames: usize,
    threshold: f32,
    latest_boost: f32,
    /// A speaker with so many clear frames loses those of overlap.
    clear_frames: usize,
    strong_frames: usize,
    weak_frames: usize,
}

impl CachePolicy {
    /// The policy of a checkpoint.
    #[must_use]
    pub fn new(config: &CacheConfig, speakers: usize) -> Self {
        let silence_frames = config.speaker_cache_silence_frames_per_speaker;
        // A speaker's part of the cache, without the silence.
        let share = (config.speaker_cache_length / speakers).saturating_sub(silence_frames) as f64;
        let part = |rate: f64| (share * rate).floor() as usize;
        Self {
            speakers,
            length: config.speaker_cache_length,
            silence_frames,
            threshold: config.prediction_score_threshold,
            latest_boost: config.latest_frames_score_boost,
            clear_frames: part(config.min_positive_scores_rate),
            strong_frames: part(config.strong_boost_rate),
            weak_frames: part(config.weak_boost_rate),
        }
    }

    /// Most frames of the cache.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Scores frames for each speaker: high where the speaker alone is surely active, minus infinity where the speaker is silent, and
    /// where others speak too if there are enough frames without them.
    #[must_use]
    pub fn scores(&self, activity: &[f32]) -> Vec<f32> {
        let mut scores = Vec::with_capacity(activity.len());
        for frame in activity.chunks_exact(self.speakers) {
            let rest = |active: f32| (1.0 - active).max(self.threshold).ln();
            let all_rest: f32 = frame.iter().map(|active| rest(*active)).sum();
            scores.extend(frame.iter().map(|active| match *active > ACTIVE {
                true => active.max(self.threshold).ln() - rest(*active) + all_rest + std::f32::consts::LN_2,
                false => f32::NEG_INFINITY,
            }));
        }
        for speaker in 0..self.speakers {
            let of_speaker = || (speaker..activity.len()).step_by(self.speakers);
            let clear = of_speaker().filter(|at| scores[*at] > 0.0).count();
            if clear >= self.clear_frames {
                for at in of_speaker() {
                    if scores[at] <= 0.0 {
                        scores[at] = f32::NEG_INFINITY;
                    }
                }
            }
        }
        scores
    }

    /// Adds a little to the scores of the frames beyond the cache's length, which have come from the queue.
    pub fn boost_latest(&self, scores: &mut [f32]) {
        scores.iter_mut().skip(self.length * self.speakers).for_each(|score| *score += self.latest_boost);
    }

    /// Lifts the best frames of each speaker, so that each keeps some.
    pub fn boost_strongly(&self, scores: &mut [f32]) {
        self.boost(scores, self.strong_frames, STRONG_BOOST);
    }

    /// Lifts more frames of each speaker by less, so that none takes the whole cache.
    pub fn boost_weakly(&self, scores: &mut [f32]) {
        self.boost(scores, self.weak_frames, WEAK_BOOST);
    }

    /// Adds to the `count` best scores of each speaker; the earliest of equal ones go first.
    fn boost(&self, scores: &mut [f32], count: usize, boost: f32) {
        for speaker in 0..self.speakers {
            let own = (speaker..scores.len()).step_by(self.speakers).collect();
            best(own, count, |at| scores[at]).into_iter().for_each(|at| scores[at] += boost);
        }
    }

    /// Chooses the frames of the full cache by their boosted scores: grouped by speaker, in their order within a group, each group
    /// with its frames of silence (none) at the end, and at the very end silence in place of frames in which nobody speaks.
    #[must_use]
    pub fn select(&self, scores: &[f32]) -> Vec<Option<usize>> {
        let frames = scores.len() / self.speakers;
        let rows = frames + self.silence_frames;
        // Places by speaker, then frame; silence stands behind the last frame of each speaker.
        let score = |place: usize| match place % rows {
            frame if frame < frames => scores[frame * self.speakers + place / rows],
            _ => f32::INFINITY,
        };
        let mut chosen = best((0..rows * self.speakers).collect(), self.length, score);
        chosen.retain(|place| score(*place) > f32::NEG_INFINITY);
        chosen.sort_unstable();
        let mut kept: Vec<Option<usize>> =
            chosen.into_iter().map(|place| Some(place % rows).filter(|frame| *frame < frames)).collect();
        kept.resize(self.length, None);
        kept
    }

    /// The frames that a cache keeps of more frames than it holds; none is the learned silence.
    #[must_use]
    pub fn keep(&self, activity: &[f32]) -> Vec<Option<usize>> {
        let mut scores = self.scores(activity);
        self.boost_latest(&mut scores);
        self.boost_strongly(&mut scores);
        self.boost_weakly(&mut scores);
        self.select(&scores)
    }
}

/// The `count` places of the highest scores; the first of equal ones.
fn best(mut places: Vec<usize>, count: usize, score: impl Fn(usize) -> f32) -> Vec<usize> {
    let order = |a: &usize, b: &usize| -> Ordering { score(*b).total_cmp(&score(*a)).then(a.cmp(b)) };
    if count < places.len() {
        places.select_nth_unstable_by(count, order);
        places.truncate(count);
    }
    places
}

/// Activities of encoder frames: the mean probability over the `factor` frames of `logits` that each stands for.
#[must_use]
pub fn pool(logits: &[f32], speakers: usize, factor: usize) -> Vec<f32> {
    let mut pooled = Vec::with_capacity(logits.len() / factor);
    for group in logits.chunks_exact(factor * speakers) {
        let mean = |speaker: usize| {
            group.iter().skip(speaker).step_by(speakers).map(|logit| sigmoid(*logit)).sum::<f32>() / factor as f32
        };
        pooled.extend((0..speakers).map(mean));
    }
    pooled
}

/// The frames that leave a queue of so many `frames`: none while they fit, else `moved` or as many more as are too many.
#[must_use]
pub fn frames_moved(frames: usize, queue: usize, moved: usize) -> usize {
    if frames <= queue { 0 } else { moved.max(frames - queue).min(frames) }
}

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}
