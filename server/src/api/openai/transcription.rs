//! A finished transcript in OpenAI's shapes.

use auricle_engine::Word;
use auricle_engine::segments;
use auricle_engine::subtitles::{self, SubtitleOptions};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::language::event;
use crate::http::response::{Response, json as json_response, text};
use crate::store::Transcript;

/// The shape of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Json,
    Verbose,
    /// With the turns of speakers.
    Diarized,
    Text,
    Srt,
    Vtt,
}

/// What gets times in the verbose shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    Word,
    Segment,
}

/// The form of an answer.
#[derive(Clone)]
pub struct AnswerOptions {
    pub shape: Shape,
    pub granularities: Vec<Granularity>,
    pub stream: bool,
    pub has_logprobs: bool,
    pub is_translated: bool,
}

/// The confidence of a word as a logarithm.
#[derive(Serialize)]
pub struct LogProb<'a> {
    token: &'a str,
    bytes: &'a [u8],
    logprob: f32,
}

impl<'a> From<&'a Word> for LogProb<'a> {
    fn from(word: &'a Word) -> Self {
        // JSON has no infinity.
        let logprob = word.confidence.max(f32::MIN_POSITIVE).ln();
        Self { token: &word.text, bytes: word.text.as_bytes(), logprob }
    }
}

/// A transcript that is completed.
pub struct Finished {
    text: String,
    language: Option<String>,
    duration_ms: i64,
    words: Vec<Word>,
}

impl Finished {
    /// # Errors
    /// If the words are no JSON array of words.
    pub fn new(transcript: &Transcript, words: &str) -> serde_json::Result<Self> {
        Ok(Self {
            text: transcript.text.clone().unwrap_or_default(),
            language: transcript.language_code.clone(),
            duration_ms: transcript.duration_ms.unwrap_or_default(),
            words: serde_json::from_str(words)?,
        })
    }

    /// Billed as audio, by its duration.
    fn usage(&self) -> Value {
        json!({ "type": "duration", "seconds": (self.duration_ms as f64 / 1e3).ceil() as i64 })
    }

    fn json(&self, has_logprobs: bool) -> Value {
        let mut written = json!({ "text": self.text, "usage": self.usage() });
        if has_logprobs {
            written["logprobs"] = self.logprobs();
        }
        written
    }

    fn logprobs(&self) -> Value {
        self.words.iter().map(|word| json!(LogProb::from(word))).collect()
    }

    /// The turns of speakers, sentence by sentence.
    fn turns(&self) -> Vec<Value> {
        let turn = |(at, sentence): (usize, &segments::Segment<'_>)| {
            let name = sentence.words.first().and_then(|word| word.speaker_name.as_deref());
            json!({
                "type": "transcript.text.segment",
                "id": format!("seg_{at}"),
                "start": seconds(sentence.start),
                "end": seconds(sentence.end),
                "speaker": name.or(sentence.speaker).unwrap_or_default(),
                "text": sentence.text,
            })
        };
        segments::sentences(&self.words).iter().enumerate().map(turn).collect()
    }

    fn diarized(&self) -> Value {
        json!({
            "task": "transcribe",
            "duration": self.duration_ms as f64 / 1e3,
            "text": self.text,
            "segments": self.turns(),
            "usage": self.usage(),
        })
    }

    fn verbose(&self, granularities: &[Granularity], is_translated: bool) -> Value {
        let mut written = json!({
            "task": if is_translated { "translate" } else { "transcribe" },
            "language": self.language,
            "duration": self.duration_ms as f64 / 1e3,
            "text": self.text,
            "usage": self.usage(),
        });
        if granularities.contains(&Granularity::Word) {
            written["words"] = self
                .words
                .iter()
                .map(|word| json!({ "word": word.text, "start": seconds(word.start), "end": seconds(word.end) }))
                .collect();
        }
        if granularities.is_empty() || granularities.contains(&Granularity::Segment) {
            written["segments"] = whisper_segments(&self.words, false);
        }
        written
    }

    /// One event for each sentence, and one for its speaker if speakers are asked for; then one with the whole text. The client has the
    /// beginning `sent`.
    pub fn events(&self, answer: &AnswerOptions, sent: &str) -> String {
        let is_diarized = answer.shape == Shape::Diarized;
        let mut written = String::new();
        // The pieces add up to the text, unless later words have changed what was sent.
        let mut at = if self.text.starts_with(sent) { sent.len() } else { self.text.len() };
        let mut searched = 0;
        for turn in self.turns() {
            let text = turn["text"].as_str().unwrap_or_default();
            searched += self.text[searched..].find(text).map_or(0, |found| found + text.len());
            if searched > at {
                let mut delta = json!({ "type": "transcript.text.delta", "delta": &self.text[at..searched] });
                if is_diarized {
                    delta["segment_id"] = turn["id"].clone();
                }
                written += &event(&delta);
                at = searched;
            }
            if is_diarized {
                written += &event(&turn);
            }
        }
        if at < self.text.len() {
            written += &event(&json!({ "type": "transcript.text.delta", "delta": &self.text[at..] }));
        }
        let mut done = self.json(answer.has_logprobs);
        done["type"] = "transcript.text.done".into();
        written + &event(&done) + "data: [DONE]\n\n"
    }
}

/// The sentences as Whisper's programs write segments, with their words if wanted.
pub fn whisper_segments(words: &[Word], has_words: bool) -> Value {
    let word = |word: &Word| {
        json!({
            "word": format!(" {}", word.text),
            "start": seconds(word.start),
            "end": seconds(word.end),
            "probability": word.confidence,
        })
    };
    let segment = |(id, segment): (usize, &segments::Segment<'_>)| {
        let mut written = json!({
            "id": id,
            "seek": segment.start / 10,
            "start": seconds(segment.start),
            "end": seconds(segment.end),
            "text": segment.text,
            "confidence": segment.confidence,
            // Numbers of Whisper's decoder, which other models have not.
            "tokens": [],
            "temperature": 0.0,
            "avg_logprob": null,
            "compression_ratio": null,
            "no_speech_prob": null,
        });
        if has_words {
            written["words"] = segment.words.iter().map(word).collect();
        }
        written
    };
    segments::sentences(words).iter().enumerate().map(segment).collect()
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// The response of a shape.
pub fn respond(finished: &Finished, answer: &AnswerOptions) -> Response {
    let audio_ms = u64::try_from(finished.duration_ms).ok().filter(|ms| *ms > 0);
    let subtitles = SubtitleOptions { audio_ms, ..SubtitleOptions::default() };
    match answer.shape {
        Shape::Json => json_response(&finished.json(answer.has_logprobs)),
        Shape::Verbose => json_response(&finished.verbose(&answer.granularities, answer.is_translated)),
        Shape::Diarized => json_response(&finished.diarized()),
        Shape::Text => text("text/plain; charset=utf-8", format!("{}\n", finished.text)),
        Shape::Srt => text("application/x-subrip; charset=utf-8", subtitles::srt(&finished.words, &subtitles)),
        Shape::Vtt => text("text/vtt; charset=utf-8", subtitles::vtt(&finished.words, &subtitles)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished() -> Finished {
        let word = |text: &str, start: u64| Word {
            text: text.into(),
            start,
            end: start + 400,
            confidence: 0.5,
            speaker: None,
            speaker_name: None,
            channel: None,
        };
        Finished {
            text: "Hello there. How are you?".into(),
            language: Some("en".into()),
            duration_ms: 2_345,
            words: vec![
                word("Hello", 0),
                word("there.", 500),
                word("How", 1_000),
                word("are", 1_500),
                word("you?", 1_900),
            ],
        }
    }

    #[test]
    fn the_verbose_shape_has_what_was_asked_for() {
        let both = finished().verbose(&[Granularity::Word, Granularity::Segment], false);
        assert_eq!(both["words"][1], json!({ "word": "there.", "start": 0.5, "end": 0.9 }));
        assert_eq!(
            (&both["segments"][1]["text"], &both["segments"][1]["start"]),
            (&json!("How are you?"), &json!(1.0))
        );
        assert_eq!((&both["duration"], &both["usage"]["seconds"]), (&json!(2.345), &json!(3)));
        let plain = finished().verbose(&[], true);
        assert_eq!(plain["task"], "translate");
        assert!(plain.get("words").is_none() && plain["segments"].as_array().unwrap().len() == 2);
        assert!(finished().verbose(&[Granularity::Word], false).get("segments").is_none());
    }

    #[test]
    fn the_pieces_of_a_stream_add_up_to_the_text() {
        let answer = |shape| AnswerOptions {
            shape,
            granularities: Vec::new(),
            stream: true,
            has_logprobs: shape == Shape::Json,
            is_translated: false,
        };
        let events = |shape, sent| {
            let written = finished().events(&answer(shape), sent);
            let written = written.strip_suffix("data: [DONE]\n\n").unwrap();
            let read = |event: &str| serde_json::from_str::<Value>(event.strip_prefix("data: ").unwrap()).unwrap();
            written.split_terminator("\n\n").map(read).collect::<Vec<_>>()
        };
        let deltas = |events: &[Value]| {
            events.iter().map(|event| event["delta"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let whole = events(Shape::Json, "");
        let (done, pieces) = whole.split_last().unwrap();
        assert_eq!(deltas(pieces), ["Hello there.", " How are you?"]);
        assert_eq!(done["text"], "Hello there. How are you?");
        let logprob = done["logprobs"][4]["logprob"].as_f64().unwrap();
        assert!((logprob - 0.5_f64.ln()).abs() < 1e-6, "{logprob}");
        for (sent, rest) in [
            ("Hello", vec![" there.", " How are you?"]),
            ("Hello there.", vec![" How are you?"]),
            ("Hello there. How are", vec![" you?"]),
            ("Hello there. How are you?", vec![]),
            ("Hallo", vec![]),
        ] {
            let events = events(Shape::Json, sent);
            let (done, pieces) = events.split_last().unwrap();
            assert_eq!(
                (deltas(pieces), &done["text"]),
                (rest.into_iter().map(String::from).collect(), &json!("Hello there. How are you?"))
            );
        }
        let turns = events(Shape::Diarized, "");
        let kinds: Vec<&Value> = turns[..4].iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds[..2], ["transcript.text.delta", "transcript.text.segment"]);
        assert_eq!(kinds[..2], kinds[2..]);
        assert_eq!(turns[2]["segment_id"], turns[3]["id"]);
    }
}
