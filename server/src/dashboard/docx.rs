//! A transcript as a document of a word processor: title, facts, summary, chapters, and paragraphs with times and speakers.

use std::io::{self, Cursor};

use auricle_engine::Word;
use auricle_engine::segments;
use chrono::DateTime;
use docx_rs::{Docx, LineSpacing, Paragraph, Run, RunFonts, Style, StyleType};

use super::insights::Insights;
use super::shown::{duration, language};
use super::words::EN;
use crate::store::{SpeakerNames, Transcript};

pub const CONTENT_TYPE: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// Sizes of letters, in half points.
const TITLE: usize = 40;
const HEADING: usize = 28;
const TEXT: usize = 22;
const SMALL: usize = 18;

/// The colour of what is not said: times and facts.
const SOFT: &str = "5F6B7A";

/// The colours of speakers, in their order; dark enough on white paper.
const SPEAKERS: [&str; 6] = ["1D4ED8", "B45309", "047857", "A21CAF", "B91C1C", "0E7490"];

/// Text without the characters that XML lacks, on one line.
fn plain(text: &str) -> String {
    let allowed = |character: char| !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|character| if allowed(character) { character } else { ' ' }).collect()
}

fn run(text: &str) -> Run {
    Run::new().add_text(plain(text))
}

fn heading(text: &str) -> Paragraph {
    Paragraph::new().style("Heading1").keep_next(true).add_run(run(text))
}

fn paragraph() -> Paragraph {
    Paragraph::new().style("Normal")
}

/// The time of a paragraph, before its text.
fn time(ms: i64) -> Run {
    run(&format!("{}  ", duration(ms))).size(SMALL).color(SOFT)
}

/// The document.
///
/// # Errors
/// If it cannot be packed.
pub fn document(transcript: &Transcript, words: &[Word], names: &SpeakerNames) -> io::Result<Vec<u8>> {
    let title = transcript.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(EN.untitled);
    let length_ms = transcript.duration_ms.unwrap_or(0);
    let insights = Insights::new(transcript.analysis.as_deref().unwrap_or_default(), length_ms);
    let created = DateTime::from_timestamp_millis(transcript.created_at).unwrap_or_default();
    let style = |id: &str, name: &str, size| Style::new(id, StyleType::Paragraph).name(name).size(size).bold();
    let mut docx = Docx::new()
        .created_at(&created.format("%Y-%m-%dT%H:%M:%SZ").to_string())
        .updated_at(&created.format("%Y-%m-%dT%H:%M:%SZ").to_string())
        .default_fonts(RunFonts::new().ascii("Calibri").hi_ansi("Calibri"))
        .default_size(TEXT)
        .default_line_spacing(LineSpacing::new().after(140))
        .add_style(Style::new("Normal", StyleType::Paragraph).name("Normal"))
        .add_style(style("Title", "Title", TITLE))
        .add_style(style("Heading1", "heading 1", HEADING).outline_lvl(0))
        .add_paragraph(Paragraph::new().style("Title").add_run(run(title)));
    let facts = [
        Some(duration(length_ms)),
        transcript.language_code.as_deref().map(language),
        Some(transcript.model.clone()),
        Some(created.format("%Y-%m-%d").to_string()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    docx = docx.add_paragraph(paragraph().add_run(run(&facts.join(" · ")).size(SMALL).color(SOFT)));
    if !insights.summary.is_empty() {
        docx = docx.add_paragraph(heading(EN.summary));
        let mark = if insights.summary_is_list { "• " } else { "" };
        for line in &insights.summary {
            docx = docx.add_paragraph(paragraph().add_run(run(&format!("{mark}{line}"))));
        }
    }
    if !insights.chapters.is_empty() {
        docx = docx.add_paragraph(heading(EN.chapters));
        for chapter in &insights.chapters {
            let first = paragraph().add_run(time(chapter.start)).add_run(run(&chapter.headline).bold());
            docx = docx.add_paragraph(first.add_run(run(&format!("  {}", chapter.summary))));
        }
    }
    docx = docx.add_paragraph(heading(EN.transcript));
    let mut speakers: Vec<&str> = Vec::new();
    let mut last = None;
    for said in segments::paragraphs(words) {
        let mut written = paragraph().add_run(time(i64::try_from(said.start).unwrap_or(0)));
        if let Some(label) = said.speaker {
            let place = speakers.iter().position(|known| *known == label).unwrap_or_else(|| {
                speakers.push(label);
                speakers.len() - 1
            });
            if last != Some(label) {
                let known = said.words.first().and_then(Word::shown_speaker).unwrap_or(label);
                let name = names.get(label).map_or(known, String::as_str);
                let colour = SPEAKERS.get(place % SPEAKERS.len()).copied().unwrap_or(SOFT);
                written = written.add_run(run(&format!("{name}: ")).bold().color(colour));
            }
            last = Some(label);
        }
        docx = docx.add_paragraph(written.add_run(run(&said.text)));
    }
    let mut file = Cursor::new(Vec::new());
    docx.pack(&mut file).map_err(io::Error::from)?;
    Ok(file.into_inner())
}
