//! Names for the speakers of a recording: the known person whose voice a speaker's is like.
//!
//! A cosine alone says little, since some voices are like many. A score is the cosine in units of what each of the two voices has
//! in common with a cohort of other people (adaptive symmetric normalisation; Matejka et al., Interspeech 2017).

use std::ops::Range;

use super::directions::{dot, mean, unit};
use super::words::{Activity, SortedActivity, shares};

/// People of the cohort, those most alike, that a voice is compared with.
const NEAREST: usize = 50;
/// The score of one known person from which a speaker has the name, and what each e-fold of known people adds: the more there are, the
/// more often one of them is like a stranger.
const THRESHOLD: f32 = 3.0;
const FOR_EACH_FOLD: f32 = 0.4;
/// The score of every other person is below the one's by this.
const MARGIN: f32 = 0.5;
/// A speaker with fewer windows, about three seconds of speech, has no name.
const LEAST_WINDOWS: usize = 4;
/// A diarizer may take two people for one. So a window and those of its speaker around it, so many on each side and so near in ms, must
/// be like the named person by themselves, with at least this score; and so must its neighbours. This and the threshold were chosen on
/// people whom the shipped embedding was never trained on, so that at most one reading of a stranger in a hundred has a name.
const AROUND: usize = 2;
const NEAR_MS: u64 = 3000;
const LEAST_SCORE: f32 = 2.0;

/// A window of speech: the part of the recording that it decides, in ms, and its direction.
pub type DirectedWindow = (Range<u64>, Vec<f32>);

/// A direction with what it has in common with the cohort.
struct Voice {
    direction: Vec<f32>,
    mean: f32,
    deviation: f32,
}

impl Voice {
    fn new(direction: Vec<f32>, cohort: &[Vec<f32>]) -> Self {
        let mut cosines: Vec<f32> = cohort.iter().map(|other| dot(&direction, other)).collect();
        cosines.sort_by(|a, b| b.total_cmp(a));
        cosines.truncate(NEAREST);
        let count = cosines.len().max(1) as f32;
        let mean = cosines.iter().sum::<f32>() / count;
        let variance = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>() / count;
        Self { direction, mean, deviation: variance.sqrt().max(1e-6) }
    }

    /// The voice of some windows.
    fn of(windows: &[&DirectedWindow], cohort: &[Vec<f32>]) -> Self {
        let directions: Vec<&Vec<f32>> = windows.iter().map(|(_, direction)| direction).collect();
        Self::new(unit(mean(&directions)), cohort)
    }

    fn score(&self, other: &Self) -> f32 {
        let cosine = dot(&self.direction, &other.direction);
        ((cosine - self.mean) / self.deviation + (cosine - other.mean) / other.deviation) / 2.0
    }
}

/// Known people, compared with a cohort of others. All directions have unit length.
pub struct KnownVoices<'a> {
    known: Vec<Voice>,
    cohort: &'a [Vec<f32>],
}

impl<'a> KnownVoices<'a> {
    /// The people of these directions.
    #[must_use]
    pub fn new<'b>(known: impl IntoIterator<Item = &'b [f32]>, cohort: &'a [Vec<f32>]) -> Self {
        let voice = |direction: &[f32]| Voice::new(direction.to_vec(), cohort);
        Self { known: known.into_iter().map(voice).collect(), cohort }
    }

    /// The stretches, in ms, in which the speakers of a recording are surely one of the people, by window: no two speakers are the same
    /// one. `speaker` of a stretch is the person's number here.
    #[must_use]
    pub fn identify(&self, windows: &[DirectedWindow], activity: &[Activity]) -> Vec<(usize, Activity)> {
        let speakers = windows_of_speakers(windows, activity);
        let mut sure: Vec<(f32, usize, usize, Vec<&DirectedWindow>)> = Vec::new();
        for (speaker, own) in speakers.into_iter().enumerate() {
            let Some((_, person)) = self.likest(&own) else { continue };
            let theirs = self.alike(&own, person);
            if let Some((score, again)) = self.likest(&theirs)
                && again == person
            {
                sure.push((score, speaker, person, theirs));
            }
        }
        sure.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut taken = vec![false; self.known.len()];
        let mut stretches = Vec::new();
        for (_, speaker, person, theirs) in sure {
            if !std::mem::replace(&mut taken[person], true) {
                let stretch = |(span, _): &DirectedWindow| (person, Activity { span: span.clone(), speaker });
                stretches.extend(theirs.into_iter().map(stretch));
            }
        }
        stretches
    }

    /// The person that the windows together are surely of, with the score.
    fn likest(&self, windows: &[&DirectedWindow]) -> Option<(f32, usize)> {
        if windows.len() < LEAST_WINDOWS {
            return None;
        }
        let voice = Voice::of(windows, self.cohort);
        let mut scores: Vec<(f32, usize)> = self.known.iter().map(|one| voice.score(one)).zip(0..).collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (score, person) = *scores.first()?;
        let second = scores.get(1).map_or(f32::NEG_INFINITY, |(score, _)| *score);
        let threshold = THRESHOLD + FOR_EACH_FOLD * (self.known.len() as f32).ln();
        (score >= threshold && score - second >= MARGIN).then_some((score, person))
    }

    /// The windows of one speaker that are a person's.
    fn alike<'b>(&self, windows: &[&'b DirectedWindow], person: usize) -> Vec<&'b DirectedWindow> {
        let around = |at: usize, reach: usize| {
            let near = move |other: &usize| windows[*other].0.start.abs_diff(windows[at].0.start) <= NEAR_MS;
            (at.saturating_sub(reach)..(at + reach + 1).min(windows.len())).filter(near)
        };
        let is_alike = |at: usize| {
            let own: Vec<&DirectedWindow> = around(at, AROUND).map(|other| windows[other]).collect();
            Voice::of(&own, self.cohort).score(&self.known[person]) >= LEAST_SCORE
        };
        let alike: Vec<bool> = (0..windows.len()).map(is_alike).collect();
        let is_sure = |at: &usize| around(*at, 1).all(|other| alike[other]);
        (0..windows.len()).filter(is_sure).map(|at| windows[at]).collect()
    }
}

/// The windows of each speaker, in order. One in which several speak, or nobody, is nobody's.
fn windows_of_speakers<'a>(windows: &'a [DirectedWindow], activity: &[Activity]) -> Vec<Vec<&'a DirectedWindow>> {
    let count = activity.iter().map(|one| one.speaker + 1).max().unwrap_or(0);
    let mut speakers = vec![Vec::new(); count];
    let sorted = SortedActivity::new(activity);
    for window in windows {
        let (span, _) = window;
        if let [(speaker, ms)] = shares(span, sorted.near(span))[..]
            && 2 * ms > span.end - span.start
        {
            speakers[speaker].push(window);
        }
    }
    speakers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directions that are drawn from a state.
    struct Draws(u64);

    impl Draws {
        fn direction(&mut self) -> Vec<f32> {
            let mut random = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            };
            unit((0..64).map(|_| random()).collect())
        }

        fn directions(&mut self, count: usize) -> Vec<Vec<f32>> {
            (0..count).map(|_| self.direction()).collect()
        }

        /// Windows of half a second each, one voice after another, and who speaks in them.
        fn recording(&mut self, voices: &[(&Vec<f32>, usize, usize)]) -> (Vec<DirectedWindow>, Vec<Activity>) {
            let (mut windows, mut activity) = (Vec::new(), Vec::new());
            for (voice, speaker, count) in voices {
                for _ in 0..*count {
                    let start = 500 * windows.len() as u64;
                    let other = self.direction();
                    let direction = unit(voice.iter().zip(other).map(|(a, b)| a + 0.5 * b).collect());
                    windows.push((start..start + 500, direction));
                    activity.push(Activity { span: start..start + 500, speaker: *speaker });
                }
            }
            (windows, activity)
        }
    }

    fn slices(directions: &[Vec<f32>]) -> impl Iterator<Item = &[f32]> {
        directions.iter().map(Vec::as_slice)
    }

    /// The windows in which a speaker is a person: person, speaker, number.
    fn counts(found: &[(usize, Activity)]) -> Vec<(usize, usize, usize)> {
        let mut counts: Vec<(usize, usize, usize)> = Vec::new();
        for (person, one) in found {
            match counts.iter_mut().find(|known| (known.0, known.1) == (*person, one.speaker)) {
                Some(known) => known.2 += 1,
                None => counts.push((*person, one.speaker, 1)),
            }
        }
        counts.sort_unstable();
        counts
    }

    #[test]
    fn known_voices_have_names_and_strangers_none() {
        let mut draws = Draws(3);
        let (cohort, people) = (draws.directions(100), draws.directions(6));
        let (windows, activity) =
            draws.recording(&[(&people[2], 0, 9), (&people[5], 1, 20), (&people[0], 2, 7), (&people[1], 3, 3)]);
        let known = KnownVoices::new(slices(&people[..4]), &cohort);
        assert_eq!(counts(&known.identify(&windows, &activity)), [(0, 2, 7), (2, 0, 9)], "three windows are too few");
        assert_eq!(KnownVoices::new([], &cohort).identify(&windows, &activity), []);
        assert_eq!(known.identify(&[], &[]), []);
    }

    #[test]
    fn a_person_is_one_speaker_and_a_doubtful_one_nobody() {
        let mut draws = Draws(4);
        let (cohort, people) = (draws.directions(100), draws.directions(2));
        // Cut in two by the diarizer: the likest part has the name.
        let (windows, activity) = draws.recording(&[(&people[0], 0, 5), (&people[0], 1, 40)]);
        let found = KnownVoices::new(slices(&people), &cohort).identify(&windows, &activity);
        assert_eq!(counts(&found), [(0, 1, 40)]);
        // Known twice, under two names.
        let twins = [people[0].clone(), people[0].clone()];
        assert_eq!(KnownVoices::new(slices(&twins), &cohort).identify(&windows, &activity), []);
    }

    #[test]
    fn a_stranger_under_the_label_of_a_known_person_has_no_name() {
        let mut draws = Draws(5);
        let (cohort, people) = (draws.directions(100), draws.directions(2));
        let (windows, activity) = draws.recording(&[(&people[0], 0, 30), (&people[1], 0, 12), (&people[0], 0, 10)]);
        let found = KnownVoices::new(slices(&people[..1]), &cohort).identify(&windows, &activity);
        let theirs = found.iter().filter(|(_, one)| (15_000 + 1_000..21_000 - 1_000).contains(&one.span.start));
        assert_eq!(theirs.count(), 0, "{found:?}");
        assert!((36..=44).contains(&found.len()), "{}", found.len());
    }

    #[test]
    fn windows_belong_to_who_speaks_alone() {
        let active = |start, end, speaker| Activity { span: start..end, speaker };
        let activity = [active(0, 1000, 0), active(900, 2000, 1), active(2600, 2700, 1)];
        let windows = [0, 600, 1200, 1500, 2500].map(|start: u64| (start..start + 500, vec![1.0]));
        let found = windows_of_speakers(&windows, &activity);
        let starts = |own: &Vec<&DirectedWindow>| own.iter().map(|(span, _)| span.start).collect::<Vec<_>>();
        assert_eq!(found.iter().map(starts).collect::<Vec<_>>(), [vec![0], vec![1200, 1500]]);
        assert!(windows_of_speakers(&windows, &[]).is_empty());
    }
}
