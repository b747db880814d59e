//! Words that are heard while the agent speaks, or right after it: backchannels, words that stop at once, echo.

use super::turn_end::{is_english, words};
use crate::text::word_list::{phrases, words};

/// Words that say "I listen, go on".
const BACKCHANNELS: &[&str] = words!(
    "uh-huh uhhuh uh huh mhm mm mmm mm-hmm hmm hm yeah yep yes okay ok right sure ah oh aha alright i see cool nice \
     great good wow really"
);

/// Words that stop the agent at once.
const STOP_WORDS: &[&str] = &["stop", "wait", "no"];

/// Words that begin an interruption, and no listener's.
const OPENINGS: &[&str] =
    phrases!("actually, excuse, hang on, hold on, just a, listen, one moment, one second, pardon, sorry");

/// Words that recognition is to expect, and how strongly: those that stop the agent, but "no", which begins many words, and a listener's
/// that is like one of them.
pub const EXPECTED_WORDS: &[(&str, f32)] = &[("stop", 1.0), ("wait", 1.0), ("right", 0.4)];

/// The most recent words of the agent that echo is looked for in.
const RECENT_WORDS: usize = 60;

/// The share of heard words that makes them echo, in percent.
const ECHO_PERCENT: usize = 60;
/// Words that the agent said between two words of echo, beyond those that are heard between them: echo loses words.
const LOST_WORDS: usize = 2;

/// New words that interrupt where others were echo. Recognition errors in echo look like new words.
const NEW_BESIDE_ECHO: usize = 3;

/// Speech with which a word stops the agent at once, ms: what is shorter is echo that is heard as the word.
pub(super) const STOP_MS: u32 = 250;
/// Speech that interrupts with three words or more, or with those that begin an interruption, ms.
const WORDS_MS: u32 = 500;
/// Speech that interrupts with one or two words, or with more when it is over, ms: a listener's "right" may be heard as other words, but it
/// is shorter.
const FEW_WORDS_MS: u32 = 900;
/// Speech that interrupts before a word of it is recognised, ms. Echo is no speech.
const WORDLESS_MS: u32 = 950;
/// Speech that interrupts with words of a listener alone, ms: "oh, nice" takes more than a second.
const LISTENER_MS: u32 = 1_300;

/// Most silence within speech that interrupts, ms: between sounds of words it is shorter.
const MOST_QUIET_MS: u32 = 64;

/// How the caller says words over the agent.
#[derive(Clone, Copy, Debug)]
pub struct Speech {
    /// Speech so far, ms.
    pub ms: u32,
    /// The speech of it since the last gap, ms.
    pub unbroken_ms: u32,
    /// Silence since then, ms.
    pub quiet_ms: u32,
}

/// Kinds of recognised words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Words that are not the agent's.
    pub fresh: Vec<String>,
    /// True if some of the words are the agent's.
    pub has_echo: bool,
}

impl Overlap {
    /// Compares what is heard with what the agent has said lately.
    pub fn new(heard: &str, said: &str) -> Self {
        let (heard, said) = (words(heard), words(said));
        let said = &said[said.len().saturating_sub(RECENT_WORDS)..];
        let matched = aligned(&heard, said);
        let echo_words = matched.iter().flatten().count();
        // Single words are in many sentences, and so are two far from each other; two close together are echo, and so is everything if it
        // is one word.
        let has_echo = are_close(&matched) || (echo_words == 1 && heard.len() == 1);
        if !has_echo {
            return Self { fresh: heard, has_echo };
        }
        let last = matched.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let in_order = echo_words * 100 >= ECHO_PERCENT * last;
        let is_fresh = |at: usize| if in_order { at >= last } else { matched[at].is_none() };
        let fresh = heard.iter().enumerate().filter(|(at, _)| is_fresh(*at)).map(|(_, word)| word.clone()).collect();
        Self { fresh, has_echo }
    }

    /// True if the caller wants the agent to stop, by how much is said. [`stops`] tells it by a word.
    pub fn interrupts(&self, speech: Speech, language: Option<&str>) -> bool {
        if self.has_echo && self.fresh.len() < NEW_BESIDE_ECHO {
            return false;
        }
        let goes_on = speech.quiet_ms <= MOST_QUIET_MS;
        let fresh_words = self.fresh_words().count();
        let least = match fresh_words {
            3.. if !self.is_backchannel(language) => match goes_on {
                true => WORDS_MS,
                false => FEW_WORDS_MS,
            },
            1.. if self.opens(language) => WORDS_MS,
            // The text of a listener's word may come when it is over. Who interrupts goes on.
            _ if !goes_on => return false,
            0 => WORDLESS_MS,
            _ if self.is_backchannel(language) => LISTENER_MS,
            _ => FEW_WORDS_MS,
        };
        // A gap before a single word may divide it from residual echo.
        let spoken = if fresh_words < 2 { speech.unbroken_ms } else { speech.ms };
        spoken >= least
    }

    /// True if the first words are those of an interruption.
    fn opens(&self, language: Option<&str>) -> bool {
        let begins = |opening: &&str| {
            let mut fresh = self.fresh.iter();
            opening.split(' ').all(|word| fresh.next().is_some_and(|fresh| fresh == word))
        };
        language.is_none_or(is_english) && OPENINGS.iter().any(begins)
    }

    /// True if no word says more than that the caller listens. The last one may be the beginning of such a word.
    pub fn is_backchannel(&self, language: Option<&str>) -> bool {
        let listens = |(at, word): (usize, &String)| match at + 1 == self.fresh.len() {
            true => BACKCHANNELS.iter().any(|known| known.starts_with(word.as_str())),
            false => BACKCHANNELS.contains(&word.as_str()),
        };
        language.is_none_or(is_english) && self.fresh.iter().enumerate().all(listens)
    }

    /// The words that are not the agent's, without letters that are the beginning of any word.
    fn fresh_words(&self) -> impl Iterator<Item = &str> {
        self.fresh.iter().map(String::as_str).filter(|word| word.chars().nth(1).is_some() || *word == "i")
    }
}

/// True if one of the words that are heard, and are not the agent's, stops it at once.
pub fn stops(heard: &str, said: &str) -> bool {
    Overlap::new(heard, said).fresh.iter().any(|word| STOP_WORDS.contains(&word.as_str()))
}

/// The caller's own part of a text in which the agent's words may be echo, as it is written.
pub fn without_echo(heard: &str, said: &str) -> String {
    let overlap = Overlap::new(heard, said);
    if !overlap.has_echo {
        return heard.to_owned();
    }
    let written: Vec<&str> = heard.split_whitespace().filter(|word| !words(word).is_empty()).collect();
    let heard_words = words(heard);
    if written.len() != heard_words.len() {
        return overlap.fresh.join(" ");
    }
    // Fresh words are a subsequence of what was heard; those after the echo are its end.
    let skipped = heard_words.len() - overlap.fresh.len();
    if heard_words[skipped..] == overlap.fresh[..] { written[skipped..].join(" ") } else { overlap.fresh.join(" ") }
}

/// True if two matched words with none matched between them were said about as close to each other as they are heard.
fn are_close(matched: &[Option<usize>]) -> bool {
    let places: Vec<(usize, usize)> =
        matched.iter().enumerate().filter_map(|(at, said)| Some((at, (*said)?))).collect();
    places.array_windows().any(|[(at, said), (next_at, next_said)]| next_said - said <= next_at - at + LOST_WORDS)
}

/// The place in what was said of each heard word that is in the longest common subsequence of both; the latest such subsequence.
fn aligned(heard: &[String], said: &[String]) -> Vec<Option<usize>> {
    let width = said.len() + 1;
    // Of the words before each pair of places.
    let mut lengths = vec![0_u16; (heard.len() + 1) * width];
    for i in 1..=heard.len() {
        for j in 1..width {
            lengths[i * width + j] = if heard[i - 1] == said[j - 1] {
                lengths[(i - 1) * width + j - 1] + 1
            } else {
                lengths[(i - 1) * width + j].max(lengths[i * width + j - 1])
            };
        }
    }
    let mut matched = vec![None; heard.len()];
    let (mut i, mut j) = (heard.len(), said.len());
    while i > 0 && j > 0 {
        if heard[i - 1] == said[j - 1] {
            matched[i - 1] = Some(j - 1);
            (i, j) = (i - 1, j - 1);
        } else if lengths[i * width + j - 1] >= lengths[(i - 1) * width + j] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "The next train to Berlin leaves at nine from platform four.";

    fn interrupts_if(heard: &str, speech: Speech) -> bool {
        Overlap::new(heard, SAID).interrupts(speech, Some("en"))
    }

    fn spoken(ms: u32) -> Speech {
        Speech { ms, unbroken_ms: ms, quiet_ms: 0 }
    }

    fn interrupts(heard: &str, speech_ms: u32) -> bool {
        interrupts_if(heard, spoken(speech_ms))
    }

    #[test]
    fn a_listeners_word_behind_a_rest_of_echo_does_not_interrupt() {
        for (heard, ms) in [("it", 608), ("r", 960), ("per", 672)] {
            let speech = Speech { unbroken_ms: ms - 224, ..spoken(ms) };
            assert!(!interrupts_if(heard, speech), "{heard}");
        }
    }

    #[test]
    fn speech_interrupts_after_half_a_second_and_backchannels_do_not() {
        assert!(!interrupts("I meant the", 480));
        assert!(interrupts("I meant the", 512));
        assert!(!interrupts("", 928), "a cough");
        assert!(interrupts("", 960), "its words come late");
        assert!(!interrupts("oh cha", 896), "a listener's word that was misheard");
        assert!(interrupts("excuse me", 928));
        for text in ["yeah", "uh-huh okay", "yeah okay right", "oh, I see", "oh, nic"] {
            assert!(!interrupts(text, 1_280), "{text}");
            assert!(interrupts(text, 1_312), "{text}: it is hardly that");
        }
    }

    #[test]
    fn a_listeners_word_that_was_misheard_does_not_interrupt_when_it_is_over() {
        let over = |heard: &str, ms, quiet_ms| interrupts_if(heard, Speech { quiet_ms, ..spoken(ms) });
        assert!(over("rights", 960, 64), "between two sounds");
        assert!(!over("rights", 960, 160));
        assert!(!over("law, on up", 672, 192));
        assert!(over("I meant the", 928, 192), "it is longer than that");
    }

    #[test]
    fn words_that_begin_an_interruption_are_enough() {
        let sure = |heard: &str, ms| interrupts_if(heard, Speech { quiet_ms: 160, ..spoken(ms) });
        for heard in ["Excuse me", "Hold on", "Actually, I"] {
            assert!(!sure(heard, 480), "{heard}");
            assert!(sure(heard, 512), "{heard}");
        }
        assert!(!sure("hold", 896) && !sure("oh hold", 896));
        let spanish = |heard, ms| Overlap::new(heard, SAID).interrupts(spoken(ms), Some("es"));
        assert!(!spanish("sorry", 896));
    }

    #[test]
    fn a_word_that_stops_is_told_from_others() {
        for (heard, expected) in [("stop", true), ("Wait!", true), ("no", true), ("now", false), ("", false)] {
            assert_eq!(stops(heard, SAID), expected, "{heard}");
        }
        assert!(stops("the next train to Berlin stop", SAID), "a word beside the echo");
    }

    #[test]
    fn its_own_words_never_interrupt() {
        for heard in ["the next train to", "next train two Berlin leaves at", "train to Berlin leaf that nine from"] {
            assert!(!interrupts(heard, 5_000), "{heard}");
        }
        assert!(interrupts("next week at", 512), "its words, far from each other");
        assert!(interrupts("the next train to Berlin sorry I meant Bonn", 900));
    }

    #[test]
    fn echo_is_cut_from_a_turn() {
        assert_eq!(without_echo("Next train to Berlin, I meant Bonn.", SAID), "I meant Bonn.");
        assert_eq!(without_echo("Leaves at nine from platform four.", SAID), "");
        assert_eq!(without_echo("What about the bus?", SAID), "What about the bus?");
    }
}
