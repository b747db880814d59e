//! The findings of the analysis as text, in sections with headings.

use auricle_engine::analysis::Analysis;
use auricle_engine::analysis::chapters::Chapter;
use auricle_engine::analysis::moderation::SafetyReport;
use auricle_engine::analysis::sentiment::SentenceSentiment;

use super::output::{one_line, table};
use super::progress::clock;

/// The shown parts of an analysis.
#[derive(Default)]
pub struct Findings<'a> {
    pub summary: Option<&'a str>,
    pub chapters: Option<&'a [Chapter]>,
    /// Label and text of each.
    pub entities: Vec<(&'a str, &'a str)>,
    pub sentiments: Option<&'a [SentenceSentiment]>,
    pub safety: Option<&'a SafetyReport>,
    /// True if the findings have times in a recording.
    pub has_times: bool,
}

impl<'a> Findings<'a> {
    /// Those of a recording.
    pub fn of(analysis: &'a Analysis) -> Self {
        let entities = analysis.entities.iter().flatten();
        Self {
            summary: analysis.summary.as_deref(),
            chapters: analysis.chapters.as_deref(),
            entities: entities.map(|entity| (entity.label.name(), entity.text.as_str())).collect(),
            sentiments: analysis.sentiment_results.as_deref(),
            safety: analysis.content_safety.as_ref(),
            has_times: true,
        }
    }

    /// The sections, each after an empty line; empty without findings.
    pub fn sections(&self) -> String {
        let time = |ms: u64| if self.has_times { format!("{}  ", clock(ms)) } else { String::new() };
        let chapter = |chapter: &Chapter| format!("{}{}\n{}\n", time(chapter.start), chapter.headline, chapter.summary);
        let chapters: Vec<String> = self.chapters.iter().copied().flatten().map(chapter).collect();
        let row = |start: u64, label: String, text: &str| {
            let time = self.has_times.then(|| clock(start));
            time.into_iter().chain([label, one_line(text)]).collect::<Vec<String>>()
        };
        let entities = self.entities.iter().map(|(label, text)| vec![(*label).to_owned(), one_line(text)]);
        let sentiments = self.sentiments.iter().copied().flatten();
        let sentiments = sentiments
            .map(|sentence| row(sentence.start, format!("{:?}", sentence.sentiment).to_uppercase(), &sentence.text));
        let flagged = self.safety.iter().flat_map(|report| &report.results).map(|sentence| {
            let labels: Vec<&str> = sentence.labels.iter().map(|label| label.label).collect();
            row(sentence.timestamp.start, labels.join(","), &sentence.text)
        });
        let sections = [
            ("Summary", self.summary.map(|summary| format!("{summary}\n")).unwrap_or_default()),
            ("Chapters", chapters.join("\n")),
            ("Entities", table(&entities.collect::<Vec<_>>())),
            ("Sentiment", table(&sentiments.collect::<Vec<_>>())),
            ("Sensitive sentences", table(&flagged.collect::<Vec<_>>())),
        ];
        let shown = sections.iter().filter(|(_, text)| !text.is_empty());
        shown.map(|(heading, text)| format!("\n## {heading}\n\n{text}")).collect()
    }
}
