//! A reply: pieces of speech one after another, sent a little ahead of real time, and what of them was played.

use std::collections::VecDeque;

use super::caller::append;

/// Sample rate of the voice, in hertz.
pub const VOICE_RATE: u32 = 24_000;

/// Audio that the client has beyond what it has played, ms. The contract allows 500.
const AHEAD_MS: u64 = 400;

/// A frame of speech.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VoiceFrame {
    /// Mono, -1 to 1, at [`VOICE_RATE`].
    pub samples: Vec<f32>,
    /// Words that begin in this frame.
    pub words: Vec<VoiceWord>,
}

/// A spoken word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceWord {
    /// As it is written.
    pub text: String,
    /// Start, ms from the speech's first sample.
    pub start_ms: u64,
    /// End, ms.
    pub end_ms: u64,
}

/// A piece of speech that has its own voice stream.
#[derive(Debug)]
pub struct Speech {
    pub id: u64,
    pub text: String,
    /// The message of the history that it belongs to; none for fillers.
    pub entry: Option<usize>,
    /// True once no more text comes.
    pub finished: bool,
    /// True once all frames have come.
    pub said: bool,
    waiting: VecDeque<VoiceFrame>,
    /// Samples of the reply before this speech's first frame; none before it is sent.
    begin: Option<u64>,
    sent: u64,
    words: Vec<VoiceWord>,
    /// Bytes of the text that went with the audio so far.
    shown: usize,
}

/// Audio of a reply, and the text that it adds.
#[derive(Debug, PartialEq)]
pub struct Sent {
    pub samples: Vec<f32>,
    pub text: String,
}

impl Speech {
    pub fn new(id: u64, entry: Option<usize>) -> Self {
        Self {
            id,
            text: String::new(),
            entry,
            finished: false,
            said: false,
            waiting: VecDeque::new(),
            begin: None,
            sent: 0,
            words: Vec::new(),
            shown: 0,
        }
    }

    pub fn push(&mut self, frame: VoiceFrame) {
        self.waiting.push_back(frame);
    }

    fn is_sent(&self) -> bool {
        self.said && self.waiting.is_empty()
    }

    /// The text that was played, where the reply has played this many samples.
    fn played_text(&self, played: u64) -> &str {
        let Some(begin) = self.begin else { return "" };
        if self.is_sent() && played >= begin + self.sent {
            return self.text.trim();
        }
        let played_ms = ms(played.saturating_sub(begin));
        let count = self.words.iter().filter(|word| u64::midpoint(word.start_ms, word.end_ms) < played_ms).count();
        self.up_to_word(count)
    }

    /// The text that was sent; all of it where the voice has reported no word yet.
    fn sent_text(&self) -> &str {
        match self.begin {
            None => "",
            Some(_) if self.is_sent() || self.words.is_empty() => self.text.trim(),
            Some(_) => self.up_to_word(self.words.len()),
        }
    }

    /// The text that was sent since this was asked last.
    fn take_shown(&mut self) -> String {
        let text = self.up_to_word(self.words.len());
        let new = text.get(self.shown..).unwrap_or_default().to_owned();
        self.shown += new.len();
        new
    }

    /// The text up to the end of the last of this many words.
    fn up_to_word(&self, count: usize) -> &str {
        let mut end = 0;
        for word in &self.words[..count] {
            if let Some(found) = self.text[end..].find(word.text.as_str()) {
                end += found + word.text.len();
            }
        }
        self.text[..end].trim()
    }
}

/// A turn of the agent.
#[derive(Debug)]
pub struct Reply {
    pub id: u64,
    /// False while it may not leave, because the turn that it answers is not over.
    pub released: bool,
    /// True once its first frame is sent.
    pub started: bool,
    /// The thought that writes it.
    pub thought: Option<u64>,
    /// Rounds of the language model.
    pub rounds: u32,
    /// True for an apology: its failure is not apologised for.
    pub is_apology: bool,
    pub speeches: Vec<Speech>,
    /// Samples sent, and the time at which sample 0 was played, ms.
    sent: u64,
    origin_ms: u64,
}

impl Reply {
    pub fn new(id: u64, released: bool) -> Self {
        Self {
            id,
            released,
            started: false,
            thought: None,
            rounds: 0,
            is_apology: false,
            speeches: Vec::new(),
            sent: 0,
            origin_ms: 0,
        }
    }

    pub fn speech(&mut self, id: u64) -> Option<&mut Speech> {
        self.speeches.iter_mut().find(|speech| speech.id == id)
    }

    /// The next frame, if it may be sent now.
    pub fn next_frame(&mut self, now: u64) -> Option<Sent> {
        if !self.released || now < self.next_send(now)? {
            return None;
        }
        if self.played(now) >= self.sent {
            // The client has nothing left to play: it plays this frame as it comes.
            self.origin_ms = now.saturating_sub(ms(self.sent));
        }
        let sent = self.sent;
        let speech = self.speeches.iter_mut().find(|speech| !speech.is_sent())?;
        let frame = speech.waiting.pop_front()?;
        speech.begin.get_or_insert(sent);
        speech.sent += frame.samples.len() as u64;
        speech.words.extend(frame.words);
        self.sent += frame.samples.len() as u64;
        let text = speech.take_shown();
        self.started = true;
        Some(Sent { samples: frame.samples, text })
    }

    /// The time at which the next frame may be sent; none if there is none.
    pub fn next_send(&self, now: u64) -> Option<u64> {
        let speech = self.speeches.iter().find(|speech| !speech.is_sent())?;
        let frame = speech.waiting.front().filter(|_| self.released)?;
        if self.played(now) >= self.sent {
            return Some(now);
        }
        Some((self.origin_ms + ms(self.sent + frame.samples.len() as u64)).saturating_sub(AHEAD_MS))
    }

    /// Samples that the client has played.
    fn played(&self, now: u64) -> u64 {
        if !self.started {
            return 0;
        }
        (now.saturating_sub(self.origin_ms) * u64::from(VOICE_RATE) / 1000).min(self.sent)
    }

    /// True if all that was sent is played.
    pub fn is_played(&self, now: u64) -> bool {
        self.played(now) >= self.sent
    }

    /// The time at which all that was sent is played; none if it is.
    pub fn played_at(&self, now: u64) -> Option<u64> {
        (!self.is_played(now)).then(|| self.origin_ms + ms(self.sent) + 1)
    }

    /// True if nothing more will be sent.
    pub fn is_sent(&self) -> bool {
        self.thought.is_none() && self.speeches.iter().all(Speech::is_sent)
    }

    /// The part that was played so far: the text of each speech with its message.
    pub fn played_texts(&self, now: u64) -> Vec<(Option<usize>, &str)> {
        let played = self.played(now);
        let texts = self.speeches.iter().map(|speech| (speech.entry, speech.played_text(played)));
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// All text that was sent: what a microphone may hear.
    pub fn sent_text(&self) -> String {
        let mut text = String::new();
        self.speeches.iter().for_each(|speech| append(&mut text, speech.sent_text()));
        text
    }
}

fn ms(samples: u64) -> u64 {
    samples * 1000 / u64::from(VOICE_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(word: Option<(&str, u64, u64)>) -> VoiceFrame {
        let words = word.map(|(text, start_ms, end_ms)| VoiceWord { text: text.into(), start_ms, end_ms });
        VoiceFrame { samples: vec![0.0; 1_920], words: words.into_iter().collect() }
    }

    #[test]
    fn frames_leave_at_most_400_ms_ahead_of_the_clock() {
        let mut reply = Reply::new(0, true);
        let mut speech = Speech::new(0, None);
        (0..20).for_each(|_| speech.push(frame(None)));
        reply.speeches.push(speech);
        let mut sent = 0;
        while reply.next_frame(1_000).is_some() {
            sent += 1;
        }
        assert_eq!(sent, 5, "400 ms at once");
        assert_eq!(reply.next_send(1_000), Some(1_080));
        assert_eq!(reply.next_frame(1_079), None);
        assert!(reply.next_frame(1_080).is_some());
        assert_eq!(reply.next_frame(1_080), None);
        // The voice was late: the clock waits for it.
        assert!(reply.is_played(9_000));
        let burst = (0..20).take_while(|_| reply.next_frame(9_000).is_some()).count();
        assert_eq!(burst, 5);
    }

    #[test]
    fn played_text_is_cut_at_a_word_of_the_clock() {
        let mut reply = Reply::new(0, true);
        let mut speech = Speech::new(0, Some(7));
        speech.text = "One, two; three.".into();
        for word in [("One", 0, 80), ("two", 80, 160), ("three", 160, 240)] {
            speech.push(frame(Some(word)));
        }
        speech.said = true;
        reply.speeches.push(speech);
        assert_eq!((reply.played_texts(0), reply.sent_text().as_str()), (vec![], ""));
        let mut text = || reply.next_frame(500).map(|sent| sent.text);
        assert_eq!((text().as_deref(), text().as_deref()), (Some("One"), Some(", two")));
        assert_eq!(reply.sent_text(), "One, two");
        while reply.next_frame(500).is_some() {}
        assert_eq!(reply.sent_text(), "One, two; three.");
        assert_eq!(reply.played_texts(530), [], "less than half of the first word");
        assert_eq!(reply.played_texts(600), [(Some(7), "One")]);
        assert_eq!(reply.played_texts(640), [(Some(7), "One, two")]);
        assert_eq!(reply.played_texts(740), [(Some(7), "One, two; three.")]);
        assert!(reply.is_sent() && reply.is_played(740));
    }
}
