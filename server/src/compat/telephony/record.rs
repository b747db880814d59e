//! The words and keys of a call, as its transcript has them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use auricle_engine::converse::VOICE_RATE;
use auricle_engine::{Caption, LiveEvent, Word};
use serde::Serialize;

use crate::clock;

/// The labels of the speakers.
const CALLER: &str = "A";
const AGENT: &str = "B";

/// Keys that are pressed within this time of each other are one word, up to this number, and the most of a call: those of a script.
const KEYS_MS: u64 = 1_500;
const WORD_KEYS: usize = 32;
const MAX_KEYS: usize = 4_096;

/// The most warnings.
const MAX_WARNINGS: usize = 20;

/// The record of a call that may still go on; none before its stream has started.
#[derive(Clone, Default)]
pub struct SharedRecord(Arc<Mutex<Option<Record>>>);

impl SharedRecord {
    fn lock(&self) -> MutexGuard<'_, Option<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, record: Record) {
        *self.lock() = Some(record);
    }

    pub fn write<T>(&self, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        self.lock().as_mut().map(change)
    }

    pub fn take(&self) -> Option<Record> {
        self.lock().take()
    }
}

/// A run of one speaker's words.
struct Turn {
    text: String,
    words: Vec<Word>,
}

/// Text of a reply, and the time at which its audio is played.
struct Spoken {
    at_byte: usize,
    start_ms: u64,
    end_ms: u64,
}

pub struct Record {
    /// The provider's name of the call.
    pub call: String,
    pub began_at: i64,
    began: Instant,
    duration: Option<Duration>,
    pub warnings: Vec<String>,
    /// True if the agent speaks too.
    has_agent: bool,
    /// True if keys are not written down.
    hides_keys: bool,
    turns: Vec<Turn>,
    /// The caller's words that may still change.
    open: Caption,
    /// The last turn of the caller's speech, which may be formatted.
    last_recognised: Option<usize>,
    /// The last turn of keys, and its last key's time.
    last_pressed: Option<(usize, u64)>,
    /// Keys so far.
    keys: usize,
    reply: String,
    spoken: Vec<Spoken>,
}

/// The parts of a transcript.
pub struct Written {
    pub text: String,
    pub words: String,
    pub utterances: Option<String>,
    pub confidence: Option<f64>,
}

#[derive(Serialize)]
struct Utterance<'a> {
    speaker: &'a str,
    text: &'a str,
    start: u64,
    end: u64,
    confidence: f32,
}

impl Record {
    pub fn new(call: &str, has_agent: bool, hides_keys: bool) -> Self {
        Self {
            call: call.to_owned(),
            began_at: clock::now_ms(),
            began: Instant::now(),
            duration: None,
            warnings: Vec::new(),
            has_agent,
            hides_keys,
            turns: Vec::new(),
            open: Caption::default(),
            last_recognised: None,
            last_pressed: None,
            keys: 0,
            reply: String::new(),
            spoken: Vec::new(),
        }
    }

    /// The call is over.
    pub fn end(&mut self) -> Duration {
        *self.duration.get_or_insert(self.began.elapsed())
    }

    /// Notes what the reader of the transcript should know.
    pub fn warn(&mut self, warning: String) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Takes what recognition gives of the caller.
    pub fn recognise(&mut self, event: &LiveEvent) {
        match event {
            LiveEvent::Partial(caption) => self.open = caption.clone(),
            LiveEvent::Final(caption) => {
                self.open = Caption::default();
                self.last_recognised = Some(self.turns.len());
                self.push(CALLER, caption.text.clone(), caption.words.clone());
            }
            LiveEvent::Formatted(caption) => {
                let words = self.labelled(CALLER, caption.words.clone());
                if let Some(turn) = self.last_recognised.and_then(|at| self.turns.get_mut(at)) {
                    *turn = Turn { text: caption.text.clone(), words };
                }
            }
        }
    }

    /// Takes audio of the agent that is sent now, and the text that it adds to the reply.
    pub fn speak(&mut self, start_ms: u64, samples: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        let end_ms = start_ms + samples as u64 * 1000 / u64::from(VOICE_RATE);
        self.spoken.push(Spoken { at_byte: self.reply.len(), start_ms, end_ms });
        self.reply.push_str(text);
    }

    /// A reply has ended, with the text of it that was played.
    pub fn reply_ends(&mut self, text: &str, now_ms: u64) {
        let (reply, spoken) = (std::mem::take(&mut self.reply), std::mem::take(&mut self.spoken));
        let begins = reply.split_whitespace().map(|word| word.as_ptr() as usize - reply.as_ptr() as usize);
        let places: Vec<&Spoken> =
            begins.filter_map(|begin| spoken.iter().rfind(|part| part.at_byte <= begin)).collect();
        let last = spoken.last().map_or((now_ms, now_ms), |part| (part.start_ms, part.end_ms));
        let texts: Vec<&str> = text.split_whitespace().collect();
        let start_of = |at: usize| places.get(at).map_or(last.0, |part| part.start_ms);
        let words = texts.iter().enumerate().map(|(at, text)| {
            let start = start_of(at);
            let end = places.get(at + 1).map_or(last.1, |next| next.start_ms);
            // The service has written the word itself.
            word(text, start, end.max(start), 1.0)
        });
        let words = words.collect();
        self.push(AGENT, text.to_owned(), words);
    }

    /// The caller has pressed a key. False if there were too many.
    pub fn press(&mut self, key: char, now_ms: u64) -> bool {
        if self.keys >= MAX_KEYS {
            return false;
        }
        self.keys += 1;
        let shown = if self.hides_keys { '*' } else { key };
        let goes_on = |(_, at): &(usize, u64)| now_ms.saturating_sub(*at) <= KEYS_MS && self.keys % WORD_KEYS != 1;
        let turn = match self.last_pressed.filter(goes_on) {
            Some((turn, _)) => turn,
            None => {
                self.push(CALLER, "[DTMF ]".to_owned(), vec![word("[DTMF ]", now_ms, now_ms, 1.0)]);
                self.turns.len() - 1
            }
        };
        if let Some(Turn { text, words }) = self.turns.get_mut(turn) {
            text.insert(text.len() - 1, shown);
            for word in words {
                (word.text, word.end) = (text.clone(), now_ms);
            }
        }
        self.last_pressed = Some((turn, now_ms));
        true
    }

    fn labelled(&self, speaker: &str, mut words: Vec<Word>) -> Vec<Word> {
        if self.has_agent {
            words.iter_mut().for_each(|word| word.speaker = Some(speaker.to_owned()));
        }
        words
    }

    fn push(&mut self, speaker: &str, text: String, words: Vec<Word>) {
        let words = self.labelled(speaker, words);
        self.turns.push(Turn { text, words });
    }

    /// The transcript. Words that might have changed stand as they are.
    pub fn write(mut self) -> serde_json::Result<Written> {
        let open = std::mem::take(&mut self.open);
        self.push(CALLER, open.text, open.words);
        let mut turns: Vec<Turn> = self.turns.into_iter().filter(|turn| !turn.words.is_empty()).collect();
        turns.sort_by_key(|turn| turn.words.first().map(|word| word.start));
        let texts: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
        let text = texts.join(" ");
        let utterances: Vec<Utterance<'_>> = turns.iter().filter_map(utterance).collect();
        let utterances = self.has_agent.then(|| serde_json::to_string(&utterances)).transpose()?;
        let words: Vec<Word> = turns.into_iter().flat_map(|turn| turn.words).collect();
        Ok(Written { text, confidence: mean(&words).map(f64::from), words: serde_json::to_string(&words)?, utterances })
    }
}

fn word(text: &str, start: u64, end: u64, confidence: f32) -> Word {
    Word { text: text.to_owned(), start, end, confidence, speaker: None, speaker_name: None, channel: None }
}

fn utterance(turn: &Turn) -> Option<Utterance<'_>> {
    let (first, last) = (turn.words.first()?, turn.words.last()?);
    Some(Utterance {
        speaker: first.speaker.as_deref()?,
        text: &turn.text,
        start: first.start,
        end: last.end,
        confidence: mean(&turn.words)?,
    })
}

/// The mean confidence of words.
fn mean(words: &[Word]) -> Option<f32> {
    (!words.is_empty()).then(|| words.iter().map(|word| word.confidence).sum::<f32>() / words.len() as f32)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn caption(text: &str, start: u64) -> Caption {
        let words = text.split(' ').enumerate();
        let words = words.map(|(at, text)| word(text, start + at as u64 * 100, start + at as u64 * 100 + 80, 0.5));
        Caption { text: text.into(), words: words.collect() }
    }

    fn utterances(record: Record) -> Value {
        let written = record.write().unwrap();
        let all: Value = serde_json::from_str(&written.utterances.unwrap()).unwrap();
        let short = |one: &Value| json!([one["speaker"], one["text"], one["start"], one["end"]]);
        all.as_array().unwrap().iter().map(short).collect()
    }

    #[test]
    fn both_sides_stand_in_the_order_of_their_speech() {
        let mut record = Record::new("c", true, false);
        record.speak(100, 24_000, "Good");
        record.speak(1_100, 12_000, " day,");
        record.speak(1_600, 24_000, " Ann");
        record.reply_ends("Good day,", 1_700);
        record.recognise(&LiveEvent::Partial(caption("i am", 2_000)));
        record.recognise(&LiveEvent::Final(caption("i am here", 2_000)));
        record.speak(3_000, 24_000, "Fine");
        record.reply_ends("Fine.", 4_100);
        record.recognise(&LiveEvent::Formatted(caption("I am here.", 2_000)));
        record.recognise(&LiveEvent::Partial(caption("and so", 5_000)));
        let expected = json!([
            ["B", "Good day,", 100, 1_600],
            ["A", "I am here.", 2_000, 2_280],
            ["B", "Fine.", 3_000, 4_000],
            ["A", "and so", 5_000, 5_180]
        ]);
        assert_eq!(utterances(record), expected);
    }

    #[test]
    fn keys_of_one_number_are_one_word() {
        let mut record = Record::new("c", true, false);
        [('4', 1_000), ('2', 2_400), ('#', 3_000), ('1', 5_000)]
            .iter()
            .for_each(|(key, at)| assert!(record.press(*key, *at)));
        assert_eq!(utterances(record), json!([["A", "[DTMF 42#]", 1_000, 3_000], ["A", "[DTMF 1]", 5_000, 5_000]]));
        let mut record = Record::new("c", false, true);
        [('4', 1_000), ('2', 1_500)].iter().for_each(|(key, at)| assert!(record.press(*key, *at)));
        let written = record.write().unwrap();
        assert_eq!((written.text.as_str(), written.utterances), ("[DTMF **]", None));
    }

    #[test]
    fn keys_of_a_script_do_not_fill_the_memory() {
        let mut record = Record::new("c", false, false);
        let taken = (0..100_000).filter(|at| record.press('5', *at)).count();
        assert_eq!(taken, MAX_KEYS);
        assert_eq!(record.write().unwrap().text.len(), MAX_KEYS / WORD_KEYS * (WORD_KEYS + "[DTMF ] ".len()) - 1);
    }

    #[test]
    fn a_call_without_a_word_has_an_empty_transcript() {
        let written = Record::new("c", false, false).write().unwrap();
        assert_eq!((written.text.as_str(), written.words.as_str(), written.confidence), ("", "[]", None));
        // The voice reported no words.
        let mut record = Record::new("c", true, false);
        record.reply_ends("Hello there.", 2_000);
        assert_eq!(utterances(record), json!([["B", "Hello there.", 2_000, 2_000]]));
    }
}
