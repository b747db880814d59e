//! Words that are heard while the agent speaks, or right after it: backchannels, words that stop at once, echo.

use super::turn_end::{is_english, words};

/// Words that say "I listen, go on".
const BACKCHANNELS: &[&str] = &[
    "uh-huh", "uhhuh", "uh", "huh", "mhm", "mm", "mmm", "mm-hmm", "hmm", "hm", "yeah", "yep", "yes", "okay", "ok",
    "right", "sure", "ah", "oh", "aha", "alright", "i", "see", "cool", "nice", "great", "good", "wow", "really",
];

/// Words that stop the agent at once, and that recognition is to expect.
pub const STOP_WORDS: &[&str] = &["stop", "wait"];
/// Words that stop the agent at once too. They are too short to be expected: "no" begins many words.
const SHORT_STOPS: &[&str] = &["no"];

/// Letters from which on a listener's word is hardly the beginning of another one, as "I" is.
const SHORTEST_LISTENER: usize = 3;

/// The most recent words of the agent that echo is looked for in.
const RECENT_WORDS: usize = 60;

/// The share of heard words that makes them echo, in percent.
const ECHO_PERCENT: usize = 60;
/// Words that the agent said between two words of echo, beyond those that are heard between them: echo loses words.
const LOST_WORDS: usize = 2;

/// New words that interrupt where others were echo. Recognition errors in echo look like new words.
const NEW_BESIDE_ECHO: usize = 3;

/// Speech with which a word stops the agent at once, ms: what is shorter is echo that was taken for the word.
pub(super) const STOP_MS: u32 = 250;
/// Speech that interrupts with three words or more, ms.
const WORDS_MS: u32 = 500;
/// Speech that interrupts with one or two words, ms: a listener's "okay" may be heard as other words, but it is shorter.
const FEW_WORDS_MS: u32 = 750;
/// Speech that interrupts with words that go on after a gap, ms: a listener's word stands alone.
const RESUMED_MS: u32 = 400;
/// Speech that interrupts before a word of it is recognised, ms. Echo is no speech.
const WORDLESS_MS: u32 = 900;
/// Speech that interrupts with one or two words of a listener, ms.
const LISTENER_MS: u32 = 1_000;

/// Heard words, told apart.
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

    /// True if the caller wants the agent to stop, after this much speech, which may have `resumed` after a gap.
    pub fn interrupts(&self, speech_ms: u32, resumed: bool, language: Option<&str>) -> bool {
        if speech_ms >= STOP_MS && (self.stops() || self.has(SHORT_STOPS)) {
            return true;
        }
        if self.has_echo && self.fresh.len() < NEW_BESIDE_ECHO {
            return false;
        }
        let least = match self.fresh.len() {
            0 => WORDLESS_MS,
            1 | 2 if self.is_backchannel(language) => LISTENER_MS,
            1 | 2 if resumed => RESUMED_MS,
            1 | 2 => FEW_WORDS_MS,
            _ if self.is_backchannel(language) => 0,
            _ => WORDS_MS,
        };
        speech_ms >= least
    }

    /// True if one of the words is of [`STOP_WORDS`].
    pub fn stops(&self) -> bool {
        self.has(STOP_WORDS)
    }

    fn has(&self, words: &[&str]) -> bool {
        self.fresh.iter().any(|word| words.contains(&word.as_str()))
    }

    /// True if there are words, all of a listener, and none so short that it may be the beginning of any.
    pub fn listens(&self, language: Option<&str>) -> bool {
        let is_whole = |word: &String| word.chars().count() >= SHORTEST_LISTENER;
        !self.fresh.is_empty() && self.is_backchannel(language) && self.fresh.iter().all(is_whole)
    }

    /// True if no word says more than that the caller listens.
    pub fn is_backchannel(&self, language: Option<&str>) -> bool {
        language.is_none_or(is_english) && self.fresh.iter().all(|word| BACKCHANNELS.contains(&word.as_str()))
    }
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

    fn interrupts(heard: &str, speech_ms: u32) -> bool {
        Overlap::new(heard, SAID).interrupts(speech_ms, false, Some("en"))
    }

    #[test]
    fn words_that_go_on_after_a_gap_interrupt_sooner() {
        let resumed = |heard: &str, speech_ms| Overlap::new(heard, SAID).interrupts(speech_ms, true, Some("en"));
        assert!(resumed("when each", 416));
        assert!(!resumed("when each", 384));
        assert!(!resumed("uh-huh", 960), "a listener's word");
        assert!(!resumed("", 896), "no word");
    }

    #[test]
    fn whole_words_of_a_listener_are_told_from_beginnings() {
        let listens = |heard: &str| Overlap::new(heard, SAID).listens(Some("en"));
        for (heard, expected) in
            [("right", true), ("Uh-huh.", true), ("I", false), ("ah", false), ("", false), ("wait", false)]
        {
            assert_eq!(listens(heard), expected, "{heard:?}");
        }
    }

    #[test]
    fn speech_interrupts_after_half_a_second_and_backchannels_do_not() {
        assert!(!interrupts("I meant the", 480));
        assert!(interrupts("I meant the", 512));
        assert!(!interrupts("", 896), "a cough");
        assert!(interrupts("", 928), "its words come late");
        assert!(!interrupts("oh hay", 736), "a listener's word that was misheard");
        assert!(interrupts("I meant", 768));
        assert!(!interrupts("yeah", 960));
        assert!(interrupts("yeah", 1_024));
        assert!(!interrupts("uh-huh okay", 600));
        assert!(interrupts("yeah okay right", 300), "a third word");
        for word in ["stop", "Wait!", "no"] {
            assert!(interrupts(word, 256), "{word}");
            assert!(!interrupts(word, 224), "{word}");
        }
    }

    #[test]
    fn its_own_words_never_interrupt() {
        for heard in ["the next train to", "next train two Berlin leaves at", "train to Berlin leaf that nine from"] {
            assert!(!interrupts(heard, 5_000), "{heard}");
        }
        assert!(interrupts("next week at", 512), "its words, far from each other");
        assert!(interrupts("the next train to Berlin stop", 320), "a word beside the echo");
        assert!(interrupts("the next train to Berlin sorry I meant Bonn", 900));
    }

    #[test]
    fn echo_is_cut_from_a_turn() {
        assert_eq!(without_echo("Next train to Berlin, I meant Bonn.", SAID), "I meant Bonn.");
        assert_eq!(without_echo("Leaves at nine from platform four.", SAID), "");
        assert_eq!(without_echo("What about the bus?", SAID), "What about the bus?");
    }
}
