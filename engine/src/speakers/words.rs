//! A speaker for each word, and utterances: runs of one speaker's words.

use std::ops::Range;

/// A word without a window of its own takes the nearest speaker within this time.
const NEAR_MS: u64 = 500;
/// A word within this time of a stretch in which its speaker is a known person is that person's.
const SURE_MS: u64 = 200;
/// A pause that ends an utterance.
const PAUSE_MS: u64 = 2000;
/// A lone word whose speaker has less than this part more of it than the speaker around it joins the words around it.
const WEAK: f64 = 0.2;

/// Speech of one speaker, in milliseconds. Stretches of several speakers may overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// First millisecond, and the one past the last.
    pub span: Range<u64>,
    /// Number of the speaker.
    pub speaker: usize,
}

/// A run of one speaker's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utterance {
    /// Number of the speaker.
    pub speaker: usize,
    /// The words' places in the transcript, in order.
    pub words: Vec<usize>,
}

/// Gives each word, `start..end` in milliseconds, the speaker who is active over most of it, the nearest one within 0.5 s, or
/// the word's before it; without any activity all are speaker 0.
#[must_use]
pub fn assign(words: &[Range<u64>], activity: &[Activity]) -> Vec<usize> {
    let activity = SortedActivity::new(activity);
    let mut speakers: Vec<usize> = Vec::with_capacity(words.len());
    let mut margins: Vec<Vec<(usize, u64)>> = Vec::with_capacity(words.len());
    for word in words {
        let activity = activity.near(word);
        let shares = shares(word, activity);
        let heard = shares.iter().max_by_key(|(speaker, ms)| (*ms, usize::MAX - speaker)).map(|(speaker, _)| *speaker);
        let near = || {
            let distance =
                |one: &Activity| one.span.start.saturating_sub(word.end).max(word.start.saturating_sub(one.span.end));
            activity
                .iter()
                .filter(|one| distance(one) <= NEAR_MS)
                .min_by_key(|one| distance(one))
                .map(|one| one.speaker)
        };
        speakers.push(heard.or_else(near).or(speakers.last().copied()).unwrap_or_default());
        margins.push(shares);
    }
    for at in 1..words.len().saturating_sub(1) {
        let (around, own) = (speakers[at - 1], speakers[at]);
        let length = words[at].end.saturating_sub(words[at].start).max(1) as f64;
        let of = |speaker| margins[at].iter().find(|(one, _)| *one == speaker).map_or(0, |(_, ms)| *ms) as f64;
        if own != around && around == speakers[at + 1] && (of(own) - of(around)) / length < WEAK {
            speakers[at] = around;
        }
    }
    speakers
}

/// Stretches by their start, so that those near a word of a long recording are found without a look at all.
pub(super) struct SortedActivity {
    stretches: Vec<Activity>,
    /// The latest end of each stretch and those before it.
    latest_ends: Vec<u64>,
}

impl SortedActivity {
    pub(super) fn new(activity: &[Activity]) -> Self {
        let mut stretches = activity.to_vec();
        stretches.sort_by_key(|one| one.span.start);
        let latest = |end: &mut u64, one: &Activity| {
            *end = one.span.end.max(*end);
            Some(*end)
        };
        let latest_ends = stretches.iter().scan(0, latest).collect();
        Self { stretches, latest_ends }
    }

    /// All stretches within [`NEAR_MS`] of a word, and some more.
    pub(super) fn near(&self, word: &Range<u64>) -> &[Activity] {
        let first = self.latest_ends.partition_point(|end| end + NEAR_MS < word.start);
        let last = self.stretches.partition_point(|one| one.span.start <= word.end + NEAR_MS);
        &self.stretches[first..last.max(first)]
    }
}

/// Gives each word of a speaker the person who the speaker surely is at that time, if any. `sure` are stretches of such people, each with
/// its speaker; one within 0.2 s counts.
#[must_use]
pub fn people(words: &[Range<u64>], speakers: &[usize], sure: &[(usize, Activity)]) -> Vec<Option<usize>> {
    let stretches: Vec<Activity> = sure.iter().map(|(_, one)| one.clone()).collect();
    let person = |speaker: usize| sure.iter().find(|(_, one)| one.speaker == speaker).map(|(person, _)| *person);
    let count = speakers.iter().max().map_or(0, |last| last + 1);
    let people: Vec<Option<usize>> = (0..count).map(person).collect();
    let sorted = SortedActivity::new(&stretches);
    let is_near = |(word, speaker): (&Range<u64>, &usize)| {
        let near = |one: &Activity| {
            let distance = one.span.start.saturating_sub(word.end).max(word.start.saturating_sub(one.span.end));
            one.speaker == *speaker && distance <= SURE_MS
        };
        people[*speaker].filter(|_| sorted.near(word).iter().any(near))
    };
    words.iter().zip(speakers).map(is_near).collect()
}

/// Milliseconds of a word in which each speaker is active, where any is.
pub(super) fn shares(word: &Range<u64>, activity: &[Activity]) -> Vec<(usize, u64)> {
    let mut shares: Vec<(usize, u64)> = Vec::new();
    for one in activity {
        let ms = one.span.end.min(word.end).saturating_sub(one.span.start.max(word.start));
        if ms > 0 {
            match shares.iter_mut().find(|(speaker, _)| *speaker == one.speaker) {
                Some((_, sum)) => *sum += ms,
                None => shares.push((one.speaker, ms)),
            }
        }
    }
    shares
}

/// Cuts words into utterances at a speaker's change and at a pause of 2 s.
#[must_use]
pub fn utterances(words: &[Range<u64>], speakers: &[usize]) -> Vec<Utterance> {
    let mut found: Vec<Utterance> = Vec::new();
    let mut end_ms = 0;
    for (at, (word, speaker)) in words.iter().zip(speakers).enumerate() {
        match found.last_mut() {
            Some(last) if last.speaker == *speaker && word.start.saturating_sub(end_ms) < PAUSE_MS => {
                last.words.push(at)
            }
            _ => found.push(Utterance { speaker: *speaker, words: vec![at] }),
        }
        end_ms = word.end;
    }
    found
}

/// The letter of a speaker: A to Z, then AA, AB and so on.
#[must_use]
pub fn label(speaker: usize) -> String {
    let letter = char::from(b'A' + (speaker % 26) as u8);
    match speaker / 26 {
        0 => letter.to_string(),
        more => format!("{}{letter}", label(more - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::clustering::in_order;
    use super::*;

    /// Speakers by first word.
    fn assigned(words: &[Range<u64>], activity: &[Activity]) -> Vec<usize> {
        in_order(&assign(words, activity))
    }

    fn active(spans: &[(u64, u64, usize)]) -> Vec<Activity> {
        spans.iter().map(|(start, end, speaker)| Activity { span: *start..*end, speaker: *speaker }).collect()
    }

    #[test]
    fn a_word_is_the_speakers_who_is_active_over_most_of_it() {
        let activity = active(&[(0, 1000, 5), (1000, 3000, 2)]);
        let words = [100..400, 700..1200, 900..1300, 2000..2400];
        assert_eq!(assigned(&words, &activity), [0, 0, 1, 1], "labels follow the first word");
    }

    #[test]
    fn a_word_without_activity_takes_the_nearest_speaker_or_the_one_before() {
        let activity = active(&[(0, 1000, 0), (2000, 3000, 1)]);
        assert_eq!(assigned(&[100..300, 1000..1200, 1700..1800, 2500..2600], &activity), [0, 0, 1, 1]);
        assert_eq!(assigned(&[100..300, 9000..9100], &activity), [0, 0]);
        assert_eq!(assigned(&[5..9, 10..20], &[]), [0, 0]);
    }

    #[test]
    fn a_long_stretch_counts_however_many_short_ones_begin_in_it() {
        // The long one ends after all others that begin before the word.
        let mut activity = active(&[(0, 100_000, 3)]);
        activity.extend((0..900).map(|at| Activity { span: at * 100..at * 100 + 50, speaker: 4 }));
        assert_eq!(assigned(&[10..40, 95_000..96_000, 100_400..100_450, 100_600..100_700], &activity), [0, 0, 0, 0]);
        let found = assigned(&[10..60, 90_000..90_400, 200_000..200_001], &activity[1..]);
        assert_eq!(found, [0, 0, 0]);
    }

    #[test]
    fn a_lone_word_of_weak_margin_joins_the_words_around_it() {
        let words = [0..100, 100..200, 200..300];
        assert_eq!(assigned(&words, &active(&[(0, 148, 0), (148, 200, 1), (200, 300, 0)])), [0, 0, 0]);
        assert_eq!(
            assigned(&words, &active(&[(0, 110, 0), (110, 200, 1), (200, 300, 0)])),
            [0, 1, 0],
            "a clear one stays"
        );
    }

    #[test]
    fn words_near_a_sure_stretch_of_their_speaker_are_the_persons() {
        let sure = [(7, Activity { span: 1000..2000, speaker: 1 }), (9, Activity { span: 5000..5500, speaker: 0 })];
        let words = [0..400, 700..810, 1500..1900, 1500..1900, 2150..2300, 2300..2500, 5100..5200];
        let found = people(&words, &[1, 1, 1, 0, 1, 1, 0], &sure);
        assert_eq!(found, [None, Some(7), Some(7), None, Some(7), None, Some(9)]);
        assert_eq!(people(&words[..1], &[3], &[]), [None]);
    }

    #[test]
    fn utterances_end_at_a_change_and_at_a_pause() {
        let words = [0..100, 150..300, 350..500, 2499..2600, 4600..4700];
        let found = utterances(&words, &[0, 0, 1, 1, 1]);
        let runs: Vec<(usize, Vec<usize>)> = found.into_iter().map(|one| (one.speaker, one.words)).collect();
        assert_eq!(runs, [(0, vec![0, 1]), (1, vec![2, 3]), (1, vec![4])]);
    }

    #[test]
    fn labels_are_letters() {
        assert_eq!([0, 1, 25, 26, 27, 52].map(label), ["A", "B", "Z", "AA", "AB", "BA"]);
    }
}
