//! Speech that has no words: the parts of a Whisper window that are written again, and the warning about the rest.

use std::ops::Range;

use crate::models::whisper::{DecodedWindow, Segment, SpecialTokens};
use crate::pipeline::executors::whisper::windows::LITTLE_SPEECH_MS;
use crate::text::Word;
use crate::vad::speech_filter::SpeechSpans;

/// Least speech outside the segments for which a part of a window is written again, ms.
const MIN_SPEECH_MS: u64 = 400;
/// Inaccuracy of timestamps, ms: speech so near to a segment belongs to it.
const TIMESTAMP_MARGIN_MS: u64 = 300;
/// Sound before and after the speech of a part, ms.
const PART_MARGIN_MS: u64 = 300;
/// Least length by which a part is shorter than its window, ms.
pub const MIN_ADVANCE_MS: u64 = 1000;
/// A segment without an end that has fewer tokens than this for each second of its speech was broken off.
const MIN_TOKENS_PER_S: f64 = 1.0;

/// Speech at most so far from a word counts as its, ms.
const WORD_MARGIN_MS: u64 = 500;
/// Words this near to each other have no speech of others between them, ms.
const WORD_GAP_MS: u64 = 2000;
/// Shortest stretch of speech without words that is worth a warning, ms.
const MIN_WARNED_MS: u64 = 1500;
/// Least speech between two words within the segments that is written again, ms: times of words are less sure than that of a segment's end.
const MIN_WORDLESS_MS: u64 = 3000;
/// A longer word is stretched over speech that has no words, ms.
const LONGEST_WORD_MS: u64 = 1500;

/// A word of lower confidence needs this much speech in this margin around it, and some nearer, ms.
const DOUBTFUL_CONFIDENCE: f32 = 0.7;
const DOUBTFUL_SPEECH_MS: u64 = 1500;
pub const DOUBTFUL_MARGIN_MS: u64 = 2000;
const DOUBTFUL_DISTANCE_MS: u64 = 400;

/// The rest of a window after decoding.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Number of tokens that stand; those after them belong to the last part.
    pub kept: usize,
    /// Parts of the window with speech outside the segments, ms from its start, in order.
    pub parts: Vec<Range<u64>>,
    /// True if no text of the window follows the last part.
    pub at_end: bool,
}

/// Finds the speech of a window that no segment of its text covers.
///
/// Without a `detector` no sound counts as speech that has to be written.
pub fn unwritten(
    special: &SpecialTokens,
    decoded: &DecodedWindow,
    speech: &SpeechSpans,
    length_ms: u64,
    detector: bool,
) -> Unwritten {
    let mut segments = special.segments(&decoded.tokens);
    let mut kept = decoded.tokens.len();
    if segments.is_empty() && speech.total_ms() < LITTLE_SPEECH_MS {
        return Unwritten { kept, ..Unwritten::default() };
    }
    let spoken_ms = |range: Range<u64>| speech.within(range).map(|span| span.end - span.start).sum::<u64>();
    let below = |segment: &Segment| spoken_ms(segment.from_ms..segment.to_ms.unwrap_or(length_ms));
    if !segments.is_empty() && segments.iter().map(below).sum::<u64>() < MIN_SPEECH_MS {
        // The text is of speech that lies elsewhere: its timestamps are wrong.
        return Unwritten { kept, ..Unwritten::default() };
    }
    let mut broken_off_at = None;
    if let Some(last) = segments.last().filter(|last| last.to_ms.is_none()) {
        let seconds = spoken_ms(last.from_ms..length_ms) as f64 / 1000.0;
        let broken_off = decoded.cut_off || (last.tokens.len() as f64) < MIN_TOKENS_PER_S * seconds;
        if segments.len() > 1 && last.from_ms >= MIN_ADVANCE_MS && broken_off {
            // The start timestamp goes too.
            kept = last.tokens.start.saturating_sub(1);
            broken_off_at = Some(last.from_ms);
            segments.pop();
        }
    }
    let covered = segments.iter().map(|segment| segment.from_ms..segment.to_ms.unwrap_or(length_ms));
    let (mut parts, mut at_end) = (Vec::new(), false);
    let mut from = 0;
    for next in covered.chain(std::iter::once(length_ms..length_ms)) {
        let gap = from..next.start.min(length_ms);
        from = from.max(next.end);
        if gap.start >= gap.end {
            continue;
        }
        let inner =
            match (gap.start, gap.end == length_ms) {
                (0, _) => 0,
                (start, _) if Some(start) == broken_off_at => start,
                (start, _) => start + TIMESTAMP_MARGIN_MS,
            }..if gap.end == length_ms { length_ms } else { gap.end.saturating_sub(TIMESTAMP_MARGIN_MS) };
        let spans: Vec<Range<u64>> = speech.within(inner.clone()).collect();
        let broken_off = Some(gap.start) == broken_off_at;
        let total: u64 = spans.iter().map(|span| span.end - span.start).sum();
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { continue };
        if !broken_off && (!detector || total < MIN_SPEECH_MS) {
            continue;
        }
        let part = if broken_off { gap.start } else { first.start.saturating_sub(PART_MARGIN_MS).max(gap.start) }
            ..(last.end + PART_MARGIN_MS).min(gap.end);
        if part.end - part.start + MIN_ADVANCE_MS <= length_ms {
            parts.push(part);
            at_end = gap.end == length_ms;
        }
    }
    Unwritten { kept, parts, at_end }
}

/// Parts of a window within whose segments no word stands on long speech: a text may end before the speech of its segment does. They
/// lie beside the `parts` that are written again already. Words that are stretched over such speech are taken away: their parts have
/// them.
pub fn wordless(words: &mut Vec<Word>, speech: &SpeechSpans, length_ms: u64, parts: &[Range<u64>]) -> Vec<Range<u64>> {
    let is_stretched = |word: &Range<u64>| word.end - word.start > LONGEST_WORD_MS;
    let (stretched, standing): (Vec<_>, Vec<_>) = words.iter().map(|word| word.start..word.end).partition(is_stretched);
    let overlap = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut from = 0;
    for next in standing.into_iter().chain(std::iter::once(u64::MAX..u64::MAX)) {
        // Between two words, and with the margin of their times.
        let between = from..next.start.min(length_ms);
        let margin = |end: u64| if end == 0 || end == length_ms { 0 } else { WORD_MARGIN_MS };
        let gap = between.start + margin(between.start)..between.end.saturating_sub(margin(between.end));
        from = from.max(next.end);
        let spans: Vec<Range<u64>> = speech.within(gap.clone()).collect();
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { continue };
        if spans.iter().map(|span| span.end - span.start).sum::<u64>() < MIN_WORDLESS_MS {
            continue;
        }
        let mut part = first.start.saturating_sub(PART_MARGIN_MS)..(last.end + PART_MARGIN_MS).min(length_ms);
        for word in stretched.iter().filter(|word| overlap(word, &gap)) {
            part = part.start.min(word.start).max(between.start)..part.end.max(word.end).min(between.end);
        }
        match found.last_mut() {
            Some(last) if overlap(last, &part) => last.end = part.end,
            _ => found.push(part),
        }
    }
    found.retain(|found| {
        found.end - found.start + MIN_ADVANCE_MS <= length_ms && !parts.iter().any(|part| overlap(part, found))
    });
    words.retain(|word| {
        let word = word.start..word.end;
        !is_stretched(&word) || !found.iter().any(|part| overlap(part, &word))
    });
    found
}

/// Speech of a recording beside its words.
#[derive(Debug, Default)]
pub struct Coverage {
    /// In order, ms from the start of the recording; some may overlap.
    speech: Vec<Range<u64>>,
}

impl Coverage {
    /// Adds the speech of a piece that begins at `start_ms`.
    pub fn add(&mut self, speech: &SpeechSpans, start_ms: u64) {
        self.speech.extend(speech.spans_ms().map(|span| span.start + start_ms..span.end + start_ms));
    }

    /// Speech between two moments, ms.
    pub fn spoken_ms(&self, from: u64, to: u64) -> u64 {
        let first = self.speech.partition_point(|span| span.end <= from);
        let near = self.speech[first..].iter().take_while(|span| span.start < to);
        near.map(|span| span.end.min(to).saturating_sub(span.start.max(from))).sum()
    }

    /// Drops words of low confidence that have little speech around them, and returns their number.
    ///
    /// A word that is said stands on speech; one that another sound calls forth often does not.
    pub fn drop_doubtful(&self, words: &mut Vec<Word>) -> usize {
        let before = words.len();
        words.retain(|word| {
            let around = |margin: u64| self.spoken_ms(word.start.saturating_sub(margin), word.end + margin);
            word.confidence >= DOUBTFUL_CONFIDENCE
                || (around(DOUBTFUL_DISTANCE_MS) > 0 && around(DOUBTFUL_MARGIN_MS) >= DOUBTFUL_SPEECH_MS)
        });
        before - words.len()
    }

    /// Stretches of speech without words that are worth a warning.
    fn wordless(&self, words: &[Word]) -> Vec<Range<u64>> {
        let mut covered: Vec<Range<u64>> = Vec::new();
        for word in words {
            let around = word.start.saturating_sub(WORD_MARGIN_MS)..word.end + WORD_MARGIN_MS;
            match covered.last_mut() {
                Some(last) if around.start <= last.end + WORD_GAP_MS - 2 * WORD_MARGIN_MS => {
                    last.end = last.end.max(around.end);
                }
                _ => covered.push(around),
            }
        }
        let mut without: Vec<Range<u64>> = Vec::new();
        for span in &self.speech {
            let mut from = span.start.max(without.last().map_or(0, |last| last.end));
            let first = covered.partition_point(|covered| covered.end <= from);
            for covered in covered[first..].iter().take_while(|covered| covered.start < span.end) {
                add_stretch(&mut without, from..covered.start);
                from = from.max(covered.end);
            }
            add_stretch(&mut without, from..span.end);
        }
        without.retain(|stretch| stretch.end - stretch.start >= MIN_WARNED_MS);
        without
    }

    /// Warning about stretches of speech without words, where there are any.
    pub fn warning(&self, words: &[Word]) -> Option<String> {
        let without = self.wordless(words);
        let total_ms: u64 = without.iter().map(|stretch| stretch.end - stretch.start).sum();
        let seconds = without.first()?.start / 1000;
        let more = if without.len() > 1 { format!(", in {} places", without.len()) } else { String::new() };
        let at = format!("{}:{:02}", seconds / 60, seconds % 60);
        Some(format!("no words were found for {:.1} s of speech, first at {at}{more}", total_ms as f64 / 1000.0))
    }
}

/// Adds a stretch; joins it to the one before if only a breath lies between them.
fn add_stretch(stretches: &mut Vec<Range<u64>>, stretch: Range<u64>) {
    if stretch.start >= stretch.end {
        return;
    }
    match stretches.last_mut() {
        Some(last) if stretch.start <= last.end + WORD_MARGIN_MS => last.end = last.end.max(stretch.end),
        _ => stretches.push(stretch),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::models::silero::CHUNK;

    const FIRST: u32 = 1000;

    fn special() -> SpecialTokens {
        SpecialTokens {
            end: 500,
            start: 501,
            transcribe: None,
            translate: None,
            previous: None,
            no_speech: 998,
            no_timestamps: FIRST - 1,
            languages: BTreeMap::new(),
        }
    }

    /// A timestamp.
    fn at(seconds: f64) -> u32 {
        FIRST + (seconds * 50.0).round() as u32
    }

    /// Spans of speech, s, in 30 s.
    fn speech(spans: &[(f64, f64)]) -> SpeechSpans {
        let seconds = |chunk: usize| (chunk * CHUNK) as f64 / 16_000.0;
        let is_speech = |chunk: usize| spans.iter().any(|(from, to)| (*from..*to).contains(&seconds(chunk)));
        let probabilities: Vec<f32> = (0..937).map(|chunk| if is_speech(chunk) { 0.9 } else { 0.0 }).collect();
        SpeechSpans::from_probabilities(&probabilities, 0, 480_000).unwrap()
    }

    fn parts(tokens: Vec<u32>, cut_off: bool, spans: &[(f64, f64)]) -> (usize, Vec<(f64, f64)>) {
        let decoded = DecodedWindow { tokens, cut_off, ..DecodedWindow::default() };
        let found = unwritten(&special(), &decoded, &speech(spans), 30_000, true);
        let tenths = |ms: u64| (ms as f64 / 100.0).round() / 10.0;
        (found.kept, found.parts.iter().map(|part| (tenths(part.start), tenths(part.end))).collect())
    }

    #[test]
    fn speech_after_the_last_timestamp_is_written_again() {
        let tokens = vec![at(0.0), 1, 2, 3, at(12.0)];
        assert_eq!(parts(tokens.clone(), false, &[(0.5, 12.0), (17.0, 28.0)]), (5, vec![(16.7, 28.3)]));
        assert_eq!(parts(tokens.clone(), false, &[(0.5, 12.2)]), (5, vec![]), "its end is not exact");
        assert_eq!(parts(tokens, false, &[(0.5, 12.0), (20.0, 20.2)]), (5, vec![]), "a click");
    }

    #[test]
    fn a_window_without_text_is_written_again_if_it_has_much_speech() {
        assert_eq!(parts(Vec::new(), false, &[(4.0, 5.0)]), (0, vec![]), "another sound, it seems");
        assert_eq!(parts(Vec::new(), false, &[(4.0, 12.0)]), (0, vec![(3.7, 12.3)]));
        assert_eq!(parts(Vec::new(), false, &[(0.0, 30.0)]), (0, vec![]), "that would be the same again");
    }

    #[test]
    fn speech_between_segments_is_written_again() {
        let tokens = vec![at(0.0), 1, at(5.0), at(15.0), 2, at(30.0)];
        assert_eq!(parts(tokens, false, &[(0.0, 5.0), (7.0, 12.0), (15.0, 30.0)]), (6, vec![(6.7, 12.3)]));
    }

    #[test]
    fn a_window_cut_off_at_its_limit_goes_on_where_its_last_segment_began() {
        let mut tokens = vec![at(0.0), 1, 2, at(14.0), at(14.0)];
        tokens.extend(3..40);
        assert_eq!(parts(tokens.clone(), true, &[(0.0, 29.0)]), (4, vec![(14.0, 29.3)]));
        assert_eq!(parts(tokens.clone(), false, &[(0.0, 29.0)]), (tokens.len(), vec![]), "it ended by itself");
        tokens.truncate(6);
        assert_eq!(parts(tokens, false, &[(0.0, 29.0)]), (4, vec![(14.0, 29.3)]), "one token for 15 s");
    }

    #[test]
    fn doubtful_words_need_speech_around_them() {
        let mut coverage = Coverage::default();
        coverage.add(&speech(&[(2.0, 2.6), (10.0, 14.0)]), 0);
        let left = |start: u64, confidence: f32| {
            let word = Word {
                text: "a".into(),
                start,
                end: start + 200,
                confidence,
                speaker: None,
                speaker_name: None,
                channel: None,
            };
            coverage.drop_doubtful(&mut vec![word]) == 0
        };
        assert!(left(2200, 0.8) && !left(2200, 0.6), "half a second of speech");
        assert!(left(11_000, 0.6), "within speech");
        assert!(!left(9000, 0.6) && left(9000, 0.8), "before it");
    }

    fn word(start: u64, end: u64) -> Word {
        Word { text: "a".into(), start, end, confidence: 1.0, speaker: None, speaker_name: None, channel: None }
    }

    #[test]
    fn speech_of_a_segment_whose_text_ends_early_is_written_again() {
        let words: Vec<Word> = (0..12).map(|s| word(s * 1000, s * 1000 + 800)).collect();
        let find =
            |spans: &[(f64, f64)], parts: &[Range<u64>]| wordless(&mut words.clone(), &speech(spans), 30_000, parts);
        let found = find(&[(0.0, 20.0)], &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((12_000..=12_400).contains(&found[0].start) && (20_000..=20_400).contains(&found[0].end), "{found:?}");
        assert_eq!(find(&[(0.0, 15.0)], &[]), [], "the end of a word may be this wrong");
        let again = 14_000..20_000;
        assert_eq!(find(&[(0.0, 20.0)], &[again]), [], "it is written again already");
        assert_eq!(wordless(&mut Vec::new(), &speech(&[(0.0, 30.0)]), 30_000, &[]), [], "that would be the same again");
    }

    #[test]
    fn words_that_are_stretched_over_speech_are_written_again_with_it() {
        let mut words: Vec<Word> = (0..6).map(|s| word(s * 1000, s * 1000 + 800)).collect();
        words.extend([word(6_000, 9_700), word(13_000, 13_800), word(14_000, 15_600), word(16_000, 16_800)]);
        let found = wordless(&mut words, &speech(&[(0.0, 8.0), (9.0, 10.0), (11.0, 17.0)]), 30_000, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((5_600..=6_000).contains(&found[0].start) && (12_700..=13_000).contains(&found[0].end), "{found:?}");
        let starts: Vec<u64> = words.iter().map(|word| word.start).collect();
        assert_eq!(starts, [0, 1_000, 2_000, 3_000, 4_000, 5_000, 13_000, 14_000, 16_000], "a long word stays");
    }

    #[test]
    fn a_warning_names_speech_without_words() {
        let mut coverage = Coverage::default();
        coverage.add(&speech(&[(0.0, 10.0), (12.0, 20.0)]), 60_000);
        let words: Vec<Word> = (60..70).map(|s| word(s * 1000, s * 1000 + 800)).collect();
        let expected = "no words were found for 8.0 s of speech, first at 1:12";
        assert_eq!(coverage.warning(&words).as_deref(), Some(expected));
        let all: Vec<Word> = (60..80).map(|s| word(s * 1000, s * 1000 + 500)).collect();
        assert_eq!(coverage.warning(&all), None);
        assert!(coverage.warning(&[]).is_some_and(|line| line.ends_with("at 1:00, in 2 places")));
        let pause: Vec<Word> = all.into_iter().filter(|word| word.start != 75_000).collect();
        assert_eq!(coverage.warning(&pause), None, "a second without a word is no gap");
    }
}
