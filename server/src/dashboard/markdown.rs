//! A transcript as Markdown: title, facts, summary, chapters, and paragraphs with times and speakers.

use auricle_engine::Word;
use auricle_engine::segments;

use super::docx::{Parts, facts};
use super::insights::Insights;
use super::shown::duration;
use super::words::EN;
use crate::store::{SpeakerNames, Transcript};

/// Text on one line that stands for itself.
fn escaped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(line.len());
    let number = line.len() - line.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    for (at, character) in line.char_indices() {
        let begins_list =
            (at == 0 && "-+=".contains(character)) || (at == number && at > 0 && ".)".contains(character));
        if begins_list || "\\`*_{}[]<>#|~&$".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// The document.
pub fn document(transcript: &Transcript, words: &[Word], names: &SpeakerNames, parts: Parts) -> String {
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
    let mut last = None;
    for said in segments::paragraphs(words) {
        let mut line = time(i64::try_from(said.start).unwrap_or(0));
        if let Some(label) = said.speaker.filter(|label| last != Some(*label)) {
            let known = said.words.first().and_then(Word::shown_speaker).unwrap_or(label);
            line += &format!("**{}:** ", escaped(names.get(label).map_or(known, String::as_str)));
        }
        last = said.speaker;
        out += &format!("\n{line}{}\n", escaped(&said.text));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        for (text, written) in [
            ("a *b* _c_ <b>\n&amp;", "a \\*b\\* \\_c\\_ \\<b\\> \\&amp;"),
            ("- no list", "\\- no list"),
            ("1984. A year", "1984\\. A year"),
            ("10) ten", "10\\) ten"),
            ("the 5. of May", "the 5. of May"),
        ] {
            assert_eq!(escaped(text), written);
        }
    }
}
