//! A transcript as Markdown: title, facts, summary, chapters, and paragraphs with times and speakers.

use auricle_engine::Word;
use auricle_engine::documents::{self, Times, escaped};

use super::docx::{Parts, facts};
use super::insights::Insights;
use super::shown::duration;
use super::words::EN;
use crate::store::Transcript;

/// The document.
pub fn document(transcript: &Transcript, words: &[Word], parts: Parts) -> String {
    let title = transcript.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(EN.untitled);
    let insights =
        Insights::new(transcript.analysis.as_deref().unwrap_or_default(), transcript.duration_ms.unwrap_or(0));
    let time = |ms: i64| if parts.times { format!("`{}` ", duration(ms)) } else { String::new() };
    let mut out = format!("# {}\n\n{}\n", escaped(title), escaped(&facts(transcript)));
    if !insights.summary.is_empty() {
        let (mark, gap) = if insights.summary_is_list { ("- ", "") } else { ("", "\n") };
        out += &format!("\n## {}\n\n", EN.summary);
        let lines = insights.summary.iter().map(|line| format!("{mark}{}\n", escaped(line)));
        out += &lines.collect::<Vec<_>>().join(gap);
    }
    if !insights.chapters.is_empty() {
        out += &format!("\n## {}\n\n", EN.chapters);
        for chapter in &insights.chapters {
            let headline = escaped(&chapter.headline);
            out += format!("- {}**{headline}** {}", time(chapter.start), escaped(&chapter.summary)).trim_end();
            out.push('\n');
        }
    }
    out += &format!("\n## {}\n", EN.transcript);
    let times = if parts.times { Times::Shown } else { Times::Hidden };
    out + &documents::markdown_paragraphs(words, times)
}
