//! The caller: speech and silence, and the words of the current turn.

/// Silence after which speech counts anew, ms.
const GAP_MS: u32 = 200;
/// Silence that ends what a caller says over the agent, ms.
pub const OVERLAP_GAP_MS: u32 = 450;
/// Speech that ends a pause, ms. A click is shorter.
const BURST_MS: u32 = 60;
/// Speech between gaps that is none of the caller's over the agent, ms: residual echo is as short.
const BLIP_MS: u32 = 200;

/// The caller's current turn.
#[derive(Debug, Default)]
pub struct Caller {
    /// Speech since the last gap, ms.
    voiced_ms: u32,
    /// Speech since the last silence of [`OVERLAP_GAP_MS`], ms, without what is shorter than [`BLIP_MS`].
    overlap_ms: u32,
    /// The longest of these since the last turn's words were taken, ms.
    longest_overlap_ms: u32,
    /// Speech since the last piece of silence, ms.
    burst_ms: u32,
    /// Silence since the last speech, ms.
    quiet_ms: u32,
    /// Audio since the turn began, ms.
    turn_ms: u64,
    /// Words that do not change, as they are heard and as they are written.
    finals: Vec<(String, String)>,
    partial: String,
    /// Answers that are awaited of the recogniser.
    marks: usize,
    /// True once the client knows that the caller speaks.
    pub reported: bool,
    /// True if the turn began while the agent spoke, or right after it.
    pub overlaps: bool,
    /// True if a word of what the caller says over the agent may be one that stops it. Recognition may revise it.
    pub may_stop: bool,
    /// True if the words of this pause are asked for.
    pub asked: bool,
    /// Text of the turn that was reported last.
    shown: String,
}

impl Caller {
    /// Takes a piece of audio.
    pub fn hear(&mut self, speech: bool, ms: u32) {
        self.turn_ms = self.turn_ms.saturating_add(ms.into());
        if speech {
            self.voiced_ms = self.voiced_ms.saturating_add(ms);
            self.overlap_ms = self.overlap_ms.saturating_add(ms);
            self.longest_overlap_ms = self.longest_overlap_ms.max(self.overlap_ms);
            self.burst_ms = self.burst_ms.saturating_add(ms);
            if self.burst_ms >= BURST_MS {
                self.quiet_ms = 0;
            }
        } else {
            self.burst_ms = 0;
            self.quiet_ms = self.quiet_ms.saturating_add(ms);
            if self.quiet_ms >= GAP_MS {
                if self.voiced_ms < BLIP_MS {
                    self.overlap_ms = self.overlap_ms.saturating_sub(self.voiced_ms);
                }
                self.voiced_ms = 0;
            }
            if self.quiet_ms >= OVERLAP_GAP_MS {
                self.overlap_ms = 0;
                self.may_stop = false;
            }
        }
    }

    /// Speech since the last gap, ms.
    pub fn voiced_ms(&self) -> u32 {
        self.voiced_ms
    }

    /// Speech over the agent, ms: "wait" and what follows are one.
    pub fn overlap_ms(&self) -> u32 {
        self.overlap_ms
    }

    /// The longest speech over the agent since the last turn's words were taken, ms.
    pub fn longest_overlap_ms(&self) -> u32 {
        self.longest_overlap_ms
    }

    /// Silence since the last speech, ms.
    pub fn quiet_ms(&self) -> u32 {
        self.quiet_ms
    }

    /// Begins a turn with the speech that was heard last.
    pub fn begin_turn(&mut self) {
        self.turn_ms = self.voiced_ms.max(self.overlap_ms).into();
    }

    /// Audio since the turn began, ms.
    pub fn turn_ms(&self) -> u64 {
        self.turn_ms
    }

    /// True if speech has begun again.
    pub fn speaks(&self) -> bool {
        self.burst_ms >= BURST_MS
    }

    /// Begins to count speech anew.
    pub fn forget_speech(&mut self) {
        (self.voiced_ms, self.overlap_ms, self.burst_ms) = (0, 0, 0);
    }

    /// Takes words that may change.
    pub fn partial(&mut self, text: String) {
        self.partial = text;
    }

    /// Takes words that do not change.
    pub fn finish(&mut self, text: String) {
        self.partial.clear();
        self.finals.push((text.clone(), text));
    }

    /// Takes the text of the last of these as it is written.
    pub fn format(&mut self, text: String) {
        if let Some((_, written)) = self.finals.last_mut() {
            *written = text;
        }
    }

    /// Awaits an answer of the recogniser.
    pub fn mark(&mut self) {
        self.marks += 1;
    }

    /// Takes an answer of the recogniser; true if all words up to the last mark have come.
    pub fn settled(&mut self) -> bool {
        self.marks = self.marks.saturating_sub(1);
        self.marks == 0
    }

    /// True if words are awaited.
    pub fn is_settling(&self) -> bool {
        self.marks > 0
    }

    /// The text of the turn so far.
    pub fn text(&self) -> String {
        self.joined(|(_, written)| written)
    }

    /// The words of the turn so far as the first pass has them, which is made to expect words that stop.
    pub fn heard(&self) -> String {
        self.joined(|(heard, _)| heard)
    }

    fn joined(&self, form: impl Fn(&(String, String)) -> &String) -> String {
        let mut text = String::new();
        for part in self.finals.iter().map(form).chain((!self.partial.is_empty()).then_some(&self.partial)) {
            append(&mut text, part);
        }
        text
    }

    /// The words of the turn so far, if they have changed since they were reported.
    pub fn news(&mut self) -> Option<String> {
        let text = self.text();
        (text != self.shown).then(|| {
            self.shown.clone_from(&text);
            text
        })
    }

    /// Takes the turn's words, and begins the next one.
    pub fn take_turn(&mut self) -> String {
        let text = self.text();
        self.clear_words();
        self.overlaps = false;
        text
    }

    fn clear_words(&mut self) {
        self.finals.clear();
        self.partial.clear();
        self.shown.clear();
        (self.asked, self.may_stop, self.longest_overlap_ms) = (false, false, 0);
    }
}

/// Adds a part to a text, with a space between them.
pub fn append(text: &mut String, part: &str) {
    if !text.is_empty() && !part.is_empty() {
        text.push(' ');
    }
    text.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_on_through_a_click() {
        let mut caller = Caller::default();
        (0..10).for_each(|_| caller.hear(true, 32));
        assert_eq!((caller.voiced_ms(), caller.quiet_ms(), caller.speaks()), (320, 0, true));
        (0..6).for_each(|_| caller.hear(false, 32));
        assert_eq!(caller.voiced_ms(), 320, "a short gap is within speech");
        caller.hear(true, 32);
        assert_eq!((caller.quiet_ms(), caller.speaks()), (192, false), "a click");
        caller.hear(false, 32);
        assert_eq!((caller.voiced_ms(), caller.quiet_ms()), (0, 224));
        assert_eq!(caller.overlap_ms(), 352, "a pause after a word is within an overlap");
        (0..2).for_each(|_| caller.hear(true, 32));
        assert_eq!((caller.quiet_ms(), caller.speaks()), (0, true));
        (0..15).for_each(|_| caller.hear(false, 32));
        assert_eq!(caller.overlap_ms(), 0);
    }

    #[test]
    fn what_is_left_of_echo_is_no_speech_over_the_agent() {
        let mut caller = Caller::default();
        for _ in 0..3 {
            (0..4).for_each(|_| caller.hear(true, 32));
            (0..8).for_each(|_| caller.hear(false, 32));
            assert_eq!(caller.overlap_ms(), 0);
        }
        (0..4).for_each(|_| caller.hear(true, 32));
        assert_eq!(caller.overlap_ms(), 128);
    }

    #[test]
    fn a_turn_is_its_finals_and_the_partial() {
        let mut caller = Caller::default();
        caller.partial("hello".into());
        caller.finish("Hello.".into());
        caller.partial("and".into());
        assert_eq!(caller.news().as_deref(), Some("Hello. and"));
        assert_eq!(caller.news(), None);
        caller.mark();
        caller.mark();
        assert!(!caller.settled() && caller.is_settling() && caller.settled());
        assert_eq!(caller.take_turn(), "Hello. and");
        assert_eq!(caller.text(), "");
    }
}
