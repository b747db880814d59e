//! The findings of the analysis as text, in sections with headings.

use auricle_engine::analysis::Analysis;
use auricle_engine::analysis::chapters::Chapter;
use auricle_engine::analysis::moderation::SafetyReport;
use auricle_engine::analysis::sentiment::SentenceSentiment;
use auricle_engine::documents::{clock, escaped};

use super::output::{one_line, table};

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
        self.written(&PLAIN)
    }

    /// The sections in Markdown.
    pub fn markdown_sections(&self) -> String {
        self.written(&MARKDOWN)
    }

    fn written(&self, style: &Style) -> String {
        let time = |ms: u64| if self.has_times { format!("{}  ", clock(ms)) } else { String::new() };
        let prose = style.prose;
        let chapter = |chapter: &Chapter| {
            let headline = format!("{}{}", time(chapter.start), prose(&chapter.headline));
            (style.chapter)(&headline, &prose(&chapter.summary))
        };
        let chapters: Vec<String> = self.chapters.iter().copied().flatten().map(chapter).collect();
        let point = |line: &str| match line.strip_prefix("- ") {
            Some(point) => format!("- {}\n", prose(point)),
            None => format!("{}\n", prose(line)),
        };
        let summary = self.summary.map(|summary| summary.lines().map(point).collect());
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
            ("Summary", summary.unwrap_or_default()),
            ("Chapters", chapters.join("\n")),
            ("Entities", (style.list)(&entities.collect::<Vec<_>>())),
            ("Sentiment", (style.list)(&sentiments.collect::<Vec<_>>())),
            ("Sensitive sentences", (style.list)(&flagged.collect::<Vec<_>>())),
        ];
        let shown = sections.iter().filter(|(_, text)| !text.is_empty());
        shown.map(|(heading, text)| format!("\n## {heading}\n\n{text}")).collect()
    }
}

/// How the sections are written.
struct Style {
    prose: fn(&str) -> String,
    /// A chapter, of its headline and its summary.
    chapter: fn(&str, &str) -> String,
    /// Rows of cells.
    list: fn(&[Vec<String>]) -> String,
}

const PLAIN: Style =
    Style { prose: str::to_owned, chapter: |headline, summary| format!("{headline}\n{summary}\n"), list: table };

const MARKDOWN: Style = Style {
    prose: escaped,
    chapter: |headline, summary| format!("### {headline}\n\n{summary}\n"),
    list: |rows| {
        let cells = |row: &Vec<String>| row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" · ");
        rows.iter().map(|row| format!("- {}\n", cells(row))).collect()
    },
};
