//! The analysis of a transcript, for its page.

use std::collections::BTreeMap;

use serde_json::Value;

use super::shown::duration;

/// Findings, ready to be shown.
#[derive(Default)]
pub struct Insights {
    /// The summary in lines; a line of a list has no dash.
    pub summary: Vec<String>,
    pub summary_is_list: bool,
    pub chapters: Vec<Chapter>,
    pub entities: Vec<EntityGroup>,
    pub sentiment: Vec<Sentiment>,
    /// The hundredths of the segments that are positive, neutral and negative.
    pub moods: Vec<(&'static str, i64)>,
    pub flagged: Vec<Flagged>,
}

pub struct Chapter {
    pub headline: String,
    pub summary: String,
    pub start: i64,
    pub time: String,
}

/// The entities of one label.
pub struct EntityGroup {
    pub label: String,
    pub entities: Vec<Entity>,
}

pub struct Entity {
    pub text: String,
    pub count: usize,
    pub start: i64,
}

/// A segment on the time line, in thousandths of its length.
pub struct Sentiment {
    pub mood: &'static str,
    pub x: i64,
    pub width: i64,
    pub label: String,
}

pub struct Flagged {
    pub text: String,
    pub labels: String,
    pub start: i64,
    pub time: String,
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

impl Insights {
    /// Reads the stored analysis of a recording of this length.
    pub fn new(analysis: &str, duration_ms: i64) -> Self {
        let analysis: Value = serde_json::from_str(analysis).unwrap_or_default();
        let lines = analysis["summary"].as_str().unwrap_or_default().lines();
        let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
        let bullet = |line: &&str| line.starts_with("- ") || line.starts_with("• ") || line.starts_with("* ");
        let summary_is_list = !lines.is_empty() && lines.iter().all(bullet);
        let shown = |line: &&str| {
            if summary_is_list { line.chars().skip(2).collect() } else { (*line).to_owned() }
        };
        let sentiment = list(&analysis, "sentiment_results");
        Self {
            summary: lines.iter().map(shown).collect(),
            summary_is_list,
            chapters: list(&analysis, "chapters").iter().map(chapter).collect(),
            entities: entities(list(&analysis, "entities")),
            moods: moods(sentiment),
            sentiment: sentiment.iter().map(|segment| mood_of(segment, duration_ms)).collect(),
            flagged: list(&analysis["content_safety"], "results").iter().map(flagged).collect(),
        }
    }
}

fn chapter(value: &Value) -> Chapter {
    let start = value["start"].as_i64().unwrap_or(0);
    let headline = [text(value, "headline"), text(value, "gist")].into_iter().find(|text| !text.is_empty());
    Chapter { headline: headline.unwrap_or_default(), summary: text(value, "summary"), start, time: duration(start) }
}

/// Groups entities by label; those that are the same but for their case count as one.
fn entities(found: &[Value]) -> Vec<EntityGroup> {
    let mut groups: BTreeMap<String, Vec<Entity>> = BTreeMap::new();
    for value in found {
        let group = groups.entry(text(value, "label")).or_default();
        let name = text(value, "text");
        match group.iter_mut().find(|entity| entity.text.to_lowercase() == name.to_lowercase()) {
            Some(entity) => entity.count += 1,
            None => group.push(Entity { text: name, count: 1, start: value["start"].as_i64().unwrap_or(0) }),
        }
    }
    groups
        .into_iter()
        .map(|(label, entities)| EntityGroup { label: label.replace('_', " ").to_lowercase(), entities })
        .collect()
}

fn mood(value: &Value) -> &'static str {
    match value["sentiment"].as_str() {
        Some("POSITIVE") => "positive",
        Some("NEGATIVE") => "negative",
        _ => "neutral",
    }
}

fn moods(segments: &[Value]) -> Vec<(&'static str, i64)> {
    if segments.is_empty() {
        return Vec::new();
    }
    let names = ["positive", "neutral", "negative"];
    let counts = names.map(|name| segments.iter().filter(|value| mood(value) == name).count());
    let mut shares = counts.map(|count| count * 100 / segments.len());
    // Whole percents that make a hundred: the largest rests are rounded up.
    let mut by_rest = [0, 1, 2];
    by_rest.sort_by_key(|at| std::cmp::Reverse(counts[*at] * 100 % segments.len()));
    let missing = 100 - shares.iter().sum::<usize>();
    by_rest.into_iter().take(missing).for_each(|at| shares[at] += 1);
    names.into_iter().zip(shares).map(|(name, share)| (name, share as i64)).collect()
}

fn mood_of(value: &Value, duration_ms: i64) -> Sentiment {
    let (start, end) = (value["start"].as_i64().unwrap_or(0), value["end"].as_i64().unwrap_or(0));
    let place = |ms: i64| (ms * 1000).checked_div(duration_ms).unwrap_or(0).clamp(0, 1000);
    Sentiment {
        mood: mood(value),
        x: place(start),
        width: (place(end) - place(start)).max(1),
        label: format!("{} {}", duration(start), text(value, "text")),
    }
}

fn flagged(value: &Value) -> Flagged {
    let start = value["timestamp"]["start"].as_i64().unwrap_or(0);
    let labels: Vec<String> =
        list(value, "labels").iter().map(|label| text(label, "label").replace('_', " ")).collect();
    Flagged { text: text(value, "text"), labels: labels.join(", "), start, time: duration(start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_analysis_is_grouped_for_its_page() {
        let analysis = serde_json::json!({
            "summary": "- One.\n- Two.",
            "chapters": [{"gist": "g", "headline": "", "summary": "s", "start": 61_000, "end": 62_000}],
            "entities": [
                {"text": "Ada", "label": "PERSON_NAME", "start": 5, "end": 9},
                {"text": "ada", "label": "PERSON_NAME", "start": 50, "end": 90},
                {"text": "Paris", "label": "LOCATION", "start": 7, "end": 9},
            ],
            "sentiment_results": [
                {"text": "Good.", "start": 0, "end": 500, "sentiment": "POSITIVE"},
                {"text": "Bad.", "start": 500, "end": 1000, "sentiment": "NEGATIVE"},
            ],
            "content_safety": {"results": [{"text": "t", "labels": [{"label": "hate_speech"}], "timestamp": {"start": 1000}}]},
        });
        let insights = Insights::new(&analysis.to_string(), 1000);
        assert!(insights.summary_is_list && insights.summary == ["One.", "Two."]);
        assert_eq!((insights.chapters[0].headline.as_str(), insights.chapters[0].time.as_str()), ("g", "1:01"));
        let labels: Vec<&str> = insights.entities.iter().map(|group| group.label.as_str()).collect();
        assert_eq!((labels, insights.entities[1].entities[0].count), (vec!["location", "person name"], 2));
        assert_eq!((insights.sentiment[1].x, insights.sentiment[1].width), (500, 500));
        assert_eq!(insights.moods, [("positive", 50), ("neutral", 0), ("negative", 50)]);
        let thirds = ["POSITIVE", "NEUTRAL", "NEGATIVE"].map(|mood| serde_json::json!({ "sentiment": mood }));
        assert_eq!(moods(&thirds), [("positive", 34), ("neutral", 33), ("negative", 33)]);
        assert_eq!(insights.flagged[0].labels, "hate speech");
        for nothing in ["{\"summary\":null}", ""] {
            assert!(Insights::new(nothing, 0).summary.is_empty());
        }
    }
}
