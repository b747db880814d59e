//! A finished transcript as an answer of `POST /v1/listen`.

use auricle_engine::{Word, segments};
use serde::Serialize;
use serde_json::{Map, Value};

use super::common::{AnswerWord, ModelInfo, bare_text, confidence, seconds, speaker_number};
use super::request_id;
use crate::store::Transcript;

/// Sentiment scores at least this far from 0 are positive or negative.
const NEUTRAL: f64 = 1.0 / 3.0;

/// The form of an answer.
pub struct Asked {
    pub punctuated: bool,
    pub diarized: bool,
    pub paragraphs: bool,
    /// Silence that ends an utterance, ms; none if utterances are not asked.
    pub utterance_pause_ms: Option<u64>,
    pub detects_language: bool,
    /// Words of any language are expected.
    pub finds_languages: bool,
    pub tags: Vec<String>,
    pub extra: Map<String, Value>,
}

/// The request that is answered.
pub struct Request {
    pub id: String,
    /// ISO 8601
    pub created: String,
    pub sha256: String,
}

#[derive(Serialize)]
pub struct Answer<'a> {
    metadata: Metadata<'a>,
    results: Results,
}

#[derive(Serialize)]
struct Metadata<'a> {
    transaction_key: &'static str,
    request_id: &'a str,
    sha256: &'a str,
    created: &'a str,
    duration: f64,
    channels: usize,
    models: [String; 1],
    model_info: Map<String, Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

#[derive(Serialize)]
struct Warning {
    message: String,
}

#[derive(Serialize)]
struct Results {
    channels: Vec<Channel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    utterances: Option<Vec<Utterance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentiments: Option<Sentiments>,
}

#[derive(Serialize)]
struct Summary {
    result: &'static str,
    short: String,
}

#[derive(Serialize)]
struct Channel {
    alternatives: [Alternative; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    detected_language: Option<String>,
}

#[derive(Serialize)]
struct Alternative {
    transcript: String,
    confidence: f32,
    words: Vec<AnswerWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paragraphs: Option<Paragraphs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entities: Option<Vec<Entity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    languages: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Paragraphs {
    transcript: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Serialize)]
struct Paragraph {
    sentences: Vec<Sentence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<usize>,
    num_words: usize,
    start: f64,
    end: f64,
}

#[derive(Serialize)]
struct Sentence {
    text: String,
    start: f64,
    end: f64,
}

#[derive(Serialize)]
struct Entity {
    label: String,
    value: String,
    start_word: usize,
    /// The word behind the last.
    end_word: usize,
}

#[derive(Serialize)]
struct Utterance {
    start: f64,
    end: f64,
    confidence: f32,
    channel: usize,
    transcript: String,
    words: Vec<AnswerWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<usize>,
    id: String,
}

#[derive(Serialize)]
struct Sentiments {
    segments: Vec<Sentiment>,
    average: Average,
}

#[derive(Serialize)]
struct Sentiment {
    text: String,
    start_word: usize,
    /// The last word.
    end_word: usize,
    sentiment: &'static str,
    sentiment_score: f64,
}

#[derive(Serialize)]
struct Average {
    sentiment: &'static str,
    sentiment_score: f64,
}

/// The answer with a transcript and its words.
///
/// # Errors
/// If the stored analysis cannot be read.
pub fn render<'a>(
    transcript: &Transcript,
    words: &[Word],
    asked: &'a Asked,
    request: &'a Request,
) -> serde_json::Result<Answer<'a>> {
    let analysis: Value = serde_json::from_str(transcript.analysis.as_deref().unwrap_or("null"))?;
    let warnings: Vec<String> = serde_json::from_str(transcript.warnings.as_deref().unwrap_or("[]"))?;
    let last = words.iter().filter_map(|word| word.channel).max().unwrap_or(1);
    let channels: Vec<Vec<Word>> = (1..=last)
        .map(|channel| words.iter().filter(|word| word.channel.unwrap_or(1) == channel).cloned().collect())
        .collect();
    let model = ModelInfo::new(&transcript.model);
    let text = |words: &[Word]| text_of(words, asked.punctuated);
    let utterances = asked.utterance_pause_ms.map(|pause_ms| {
        let mut all: Vec<Utterance> = channels
            .iter()
            .enumerate()
            .flat_map(|(channel, words)| {
                utterances(words, pause_ms, asked.diarized).into_iter().map(move |words| (channel, words))
            })
            .map(|(channel, words)| Utterance {
                start: seconds(words.first().map_or(0, |word| word.start)),
                end: seconds(words.iter().map(|word| word.end).max().unwrap_or_default()),
                confidence: confidence(words),
                channel,
                transcript: text(words),
                words: answer_words(words, asked),
                speaker: speaker(words.first(), asked),
                id: request_id(),
            })
            .collect();
        all.sort_by(|a, b| a.start.total_cmp(&b.start));
        all
    });
    let alternative = |words: &[Word]| Alternative {
        transcript: text(words),
        confidence: confidence(words),
        words: answer_words(words, asked),
        paragraphs: asked.paragraphs.then(|| paragraphs(words, asked)),
        entities: analysis["entities"].as_array().map(|found| entities(found, words)),
        languages: transcript.language_code.clone().filter(|_| asked.finds_languages).map(|code| vec![code]),
    };
    let detected = transcript.language_code.clone().filter(|_| asked.detects_language);
    Ok(Answer {
        metadata: Metadata {
            transaction_key: "deprecated",
            request_id: &request.id,
            sha256: &request.sha256,
            created: &request.created,
            duration: transcript.duration_ms.unwrap_or_default() as f64 / 1e3,
            channels: channels.len(),
            models: [model.uuid()],
            model_info: Map::from_iter([(model.uuid(), serde_json::to_value(&model)?)]),
            tags: &asked.tags,
            extra: &asked.extra,
            warnings: warnings.into_iter().map(|message| Warning { message }).collect(),
        },
        results: Results {
            channels: channels
                .iter()
                .map(|words| Channel { alternatives: [alternative(words)], detected_language: detected.clone() })
                .collect(),
            utterances,
            summary: analysis["summary"].as_str().map(|short| Summary { result: "success", short: short.to_owned() }),
            sentiments: analysis["sentiment_results"].as_array().map(|found| sentiments(found, words)),
        },
    })
}

fn text_of(words: &[Word], punctuated: bool) -> String {
    match punctuated {
        true => segments::sentences(words).into_iter().map(|one| one.text).collect::<Vec<_>>().join(" "),
        false => bare_text(words),
    }
}

fn answer_words(words: &[Word], asked: &Asked) -> Vec<AnswerWord> {
    words.iter().map(|word| AnswerWord::new(word, asked.punctuated, asked.diarized)).collect()
}

fn speaker(word: Option<&Word>, asked: &Asked) -> Option<usize> {
    word.and_then(|word| word.speaker.as_deref()).filter(|_| asked.diarized).map(speaker_number)
}

/// Words between pauses, of one speaker each where speakers are asked.
fn utterances(words: &[Word], pause_ms: u64, diarized: bool) -> Vec<&[Word]> {
    let belong = |last: &Word, next: &Word| {
        next.start.saturating_sub(last.end) < pause_ms && (!diarized || last.speaker == next.speaker)
    };
    words.chunk_by(belong).collect()
}

fn paragraphs(words: &[Word], asked: &Asked) -> Paragraphs {
    let mut transcript = String::new();
    let found = segments::paragraphs(words).into_iter().map(|one| {
        let speaker = speaker(one.words.first(), asked);
        transcript.push_str(if transcript.is_empty() { "\n" } else { "\n\n" });
        if let Some(speaker) = speaker {
            transcript.push_str(&format!("Speaker {speaker}: "));
        }
        transcript.push_str(&one.text);
        let sentences = segments::sentences(one.words).into_iter().map(|sentence| Sentence {
            start: seconds(sentence.start),
            end: seconds(sentence.end),
            text: sentence.text,
        });
        Paragraph {
            sentences: sentences.collect(),
            speaker,
            num_words: one.words.len(),
            start: seconds(one.start),
            end: seconds(one.end),
        }
    });
    let paragraphs = found.collect();
    Paragraphs { transcript, paragraphs }
}

/// The words of a finding with these times: the first, and the one behind the last.
fn range(found: &Value, words: &[Word]) -> (usize, usize) {
    let (start, end) = (found["start"].as_u64().unwrap_or_default(), found["end"].as_u64().unwrap_or_default());
    let first = words.partition_point(|word| word.start < start);
    (first, first + words[first..].partition_point(|word| word.start < end))
}

fn entities(found: &[Value], words: &[Word]) -> Vec<Entity> {
    let texts = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entity = |found: &Value| {
        let (start_word, end_word) = range(found, words);
        Entity { label: texts(&found["label"]), value: texts(&found["text"]), start_word, end_word }
    };
    let here = |entity: &Entity| entity.start_word < entity.end_word;
    found.iter().map(entity).filter(here).collect()
}

/// A confidence of 0.5 and more becomes a score that is as far from 0, and a neutral sentence has 0.
fn sentiments(found: &[Value], words: &[Word]) -> Sentiments {
    let segments: Vec<Sentiment> = found
        .iter()
        .map(|found| {
            let (start_word, behind) = range(found, words);
            let confidence = found["confidence"].as_f64().unwrap_or_default();
            let sentiment_score = match found["sentiment"].as_str() {
                Some("POSITIVE") => confidence,
                Some("NEGATIVE") => -confidence,
                _ => 0.0,
            };
            Sentiment {
                text: found["text"].as_str().unwrap_or_default().to_owned(),
                start_word,
                end_word: behind.saturating_sub(1),
                sentiment: sentiment_of(sentiment_score),
                sentiment_score,
            }
        })
        .collect();
    let mean = segments.iter().map(|one| one.sentiment_score).sum::<f64>() / segments.len().max(1) as f64;
    Sentiments { segments, average: Average { sentiment: sentiment_of(mean), sentiment_score: mean } }
}

fn sentiment_of(score: f64) -> &'static str {
    match score {
        score if score >= NEUTRAL => "positive",
        score if score <= -NEUTRAL => "negative",
        _ => "neutral",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(text: &str) -> Vec<Word> {
        let word = |(at, text): (usize, &str)| Word {
            text: text.into(),
            start: at as u64 * 300,
            end: at as u64 * 300 + 250,
            confidence: 0.5,
            speaker: Some(if at < 3 { "A" } else { "B" }.into()),
            speaker_name: None,
            channel: None,
        };
        text.split(' ').enumerate().map(word).collect()
    }

    #[test]
    fn utterances_end_at_pauses_and_at_speakers() {
        let mut words = words("Well, yes. So no you do.");
        for word in &mut words[5..] {
            word.start += 1_000;
        }
        let lengths = |pause_ms, diarized| -> Vec<usize> {
            utterances(&words, pause_ms, diarized).iter().map(|words| words.len()).collect()
        };
        assert_eq!(lengths(800, false), [5, 1]);
        assert_eq!(lengths(800, true), [3, 2, 1]);
        assert_eq!(lengths(5_000, false), [6]);
        assert!(utterances(&[], 800, true).is_empty());
    }

    #[test]
    fn findings_point_at_words() {
        let words = words("I like Berlin. It was bad");
        let found = [json!({ "text": "Berlin", "label": "LOCATION", "start": 600, "end": 850 })];
        let entities = entities(&found, &words);
        assert_eq!((entities[0].start_word, entities[0].end_word), (2, 3));
        let found = [
            json!({ "text": "I like Berlin.", "sentiment": "POSITIVE", "confidence": 0.8, "start": 0, "end": 850 }),
            json!({ "text": "It was bad", "sentiment": "NEGATIVE", "confidence": 0.6, "start": 900, "end": 1750 }),
        ];
        let found = sentiments(&found, &words);
        assert_eq!((found.segments[1].start_word, found.segments[1].end_word), (3, 5));
        assert_eq!((found.segments[1].sentiment, found.segments[1].sentiment_score), ("negative", -0.6));
        assert!(found.average.sentiment == "neutral" && found.average.sentiment_score > 0.0);
    }

    #[test]
    fn paragraphs_name_speakers_where_they_are_asked() {
        let words = words("Well, oh yes. So no you");
        let mut asked = Asked {
            punctuated: true,
            diarized: true,
            paragraphs: true,
            utterance_pause_ms: None,
            detects_language: false,
            finds_languages: false,
            tags: Vec::new(),
            extra: Map::new(),
        };
        let found = paragraphs(&words, &asked);
        assert_eq!(found.transcript, "\nSpeaker 0: Well, oh yes.\n\nSpeaker 1: So no you");
        assert_eq!((found.paragraphs[1].num_words, found.paragraphs[1].speaker), (3, Some(1)));
        asked.diarized = false;
        assert!(paragraphs(&words, &asked).transcript.starts_with("\nWell"));
        assert_eq!(text_of(&words, false), "well oh yes so no you");
    }
}
