//! Changes of speaker at the ends of sentences.
//!
//! The activity of speakers changes a word too early or too late if people speak without a pause between them. The
//! transcript's punctuation is the better witness there, as few change over within a sentence.

use std::cmp::Ordering;
use std::ops::Range;

use super::words::{Activity, SortedActivity, shares};
use crate::text::sentence_boundaries::ends_sentence;

/// Most words by which a change moves.
const FARTHEST: usize = 2;
/// A pause within which people change over.
const PAUSE_MS: u64 = 200;
/// Words are clearly a speaker's whose part of their time is this much more than the other's.
const CLEAR: f64 = 0.5;

/// Moves each change of speaker within a sentence to a sentence's end at most two words away. A change stays where a pause
/// and the activity both speak for it, and no turn vanishes.
pub fn move_changes(texts: &[&str], words: &[Range<u64>], activity: &[Activity], speakers: &mut [usize]) {
    let activity = SortedActivity::new(activity);
    let ends = |at: usize| ends_sentence(texts[at - 1], texts[at]);
    for at in 1..words.len() {
        let (before, after) = (speakers[at - 1], speakers[at]);
        if before == after || ends(at) || is_within_interjection(speakers, at) {
            continue;
        }
        let margin = |moved: &Range<usize>, from: usize, to: usize| {
            let (mut own, mut others, mut length) = (0, 0, 0);
            for word in &words[moved.clone()] {
                let shares = shares(word, activity.near(word));
                let of = |speaker| shares.iter().find(|(one, _)| *one == speaker).map_or(0, |(_, ms)| *ms);
                own += of(from);
                others += of(to);
                length += word.end.saturating_sub(word.start);
            }
            (own as f64 - others as f64) / length.max(1) as f64
        };
        let later = (at + 1..words.len().min(at + FARTHEST + 1))
            .take_while(|end| speakers[*end] == after)
            .find(|end| ends(*end))
            .map(|end| (at..end, after, before));
        let earlier = (at.saturating_sub(FARTHEST).max(1)..at)
            .rev()
            .take_while(|start| speakers[start - 1] == before)
            .find(|start| ends(*start))
            .map(|start| (start..at, before, after));
        let nearest = |one: &(Range<usize>, f64, usize), other: &(Range<usize>, f64, usize)| -> Ordering {
            one.0.len().cmp(&other.0.len()).then(one.1.total_cmp(&other.1))
        };
        let moves = [later, earlier].into_iter().flatten();
        let best = moves.map(|(moved, from, to)| (moved.clone(), margin(&moved, from, to), to)).min_by(nearest);
        let pauses = words[at].start.saturating_sub(words[at - 1].end) >= PAUSE_MS;
        if let Some((moved, margin, to)) = best
            && !(pauses && margin >= CLEAR)
        {
            speakers[moved].fill(to);
        }
    }
}

/// True for a change before or after a few words within the turn of another, such as "yes": those are no end of it.
fn is_within_interjection(speakers: &[usize], at: usize) -> bool {
    let (before, after) = (speakers[at - 1], speakers[at]);
    let next = speakers[at..].iter().take(FARTHEST + 1).find(|speaker| **speaker != after);
    let previous = speakers[..at].iter().rev().take(FARTHEST + 1).find(|speaker| **speaker != before);
    next == Some(&before) || previous == Some(&after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turns of words that follow each other without a pause, 300 ms each, a `|` where the activity changes between two
    /// speakers, a `_` for a pause of 400 ms.
    fn turns(text: &str) -> String {
        let (mut at, mut speaker) = (0, 0);
        let (mut texts, mut words, mut activity) = (Vec::new(), Vec::new(), Vec::new());
        for piece in text.split(' ') {
            match piece {
                "|" => speaker = 1 - speaker,
                "_" => at += 400,
                _ => {
                    texts.push(piece);
                    words.push(at..at + 300);
                    activity.push(Activity { span: at..at + 300, speaker });
                    at += 300;
                }
            }
        }
        shown(&texts, &words, &activity)
    }

    fn shown(texts: &[&str], words: &[Range<u64>], activity: &[Activity]) -> String {
        let mut speakers = super::super::words::assign(words, activity);
        move_changes(texts, words, activity, &mut speakers);
        let mut shown = String::new();
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                shown.push_str(if speakers[at] == speakers[at - 1] { " " } else { " | " });
            }
            shown.push_str(text);
        }
        shown
    }

    #[test]
    fn a_change_moves_to_the_end_of_a_sentence_near_it() {
        for (heard, expected) in [
            ("We leave at | nine. Then we meet the others.", "We leave at nine. | Then we meet the others."),
            ("We leave | at nine. Then we meet the others.", "We leave at nine. | Then we meet the others."),
            ("How are you? I | am fine, thank you.", "How are you? | I am fine, thank you."),
            ("How are you? I am | fine, thank you.", "How are you? | I am fine, thank you."),
            ("I met Dr. | Smith. He was well then.", "I met Dr. Smith. | He was well then."),
            ("Is it | so? It is. Was it good | at all? It was.", "Is it so? | It is. Was it good at all? | It was."),
        ] {
            assert_eq!(turns(heard), expected);
        }
    }

    #[test]
    fn a_change_stays_at_a_sentences_end_and_far_from_one() {
        for text in [
            "We leave at nine. | Then we meet the others.",
            "We should really take | a little more time for it. All of us.",
            "so we leave at | nine then we meet",
            "It was good. | Yes. | We liked it all.",
            "Right. So we | yes. | go home by train.",
            "We could all | yeah | go. Then we eat.",
            "We leave at | nine.",
            "Why? | Because.",
        ] {
            assert_eq!(turns(text), text);
        }
    }

    #[test]
    fn a_pause_and_a_clear_activity_keep_a_change() {
        assert_eq!(turns("I think we should _ | No. That is wrong."), "I think we should | No. That is wrong.");
        assert_eq!(turns("I think we should | go. That is _ right."), "I think we should go. | That is right.");
        // A pause alone: half of the word is the first speaker's.
        let texts = ["We", "leave", "soon.", "Then", "we", "eat."];
        let words = [0..300, 300..600, 900..1200, 1200..1500, 1500..1800, 1800..2100];
        let activity = [Activity { span: 0..1040, speaker: 0 }, Activity { span: 1000..2100, speaker: 1 }];
        assert_eq!(shown(&texts, &words, &activity), "We leave soon. | Then we eat.");
    }

    #[test]
    fn nothing_and_one_word_have_no_change() {
        move_changes(&[], &[], &[], &mut []);
        let mut speakers = [3];
        move_changes(&["Yes."], std::slice::from_ref(&(0..10)), &[], &mut speakers);
        assert_eq!(speakers, [3]);
    }
}
