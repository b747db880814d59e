//! Output: transcripts in their formats, and messages on standard error.

use std::fmt::Display;
use std::io::{self, Write as _};

use auricle_engine::analysis::Analysis;
use auricle_engine::subtitles::{self, SubtitleOptions};
use auricle_engine::{Transcript, Utterance};
use clap::ValueEnum;
use serde::Serialize;

use super::{Failure, Result};

/// The output format of transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The text alone
    Text,
    /// One JSON object a file, on one line
    Json,
    /// SubRip subtitles
    Srt,
    /// WebVTT subtitles
    Vtt,
}

/// The JSON object of a file.
#[derive(Serialize)]
struct Document<'a> {
    file: &'a str,
    #[serde(flatten)]
    transcript: &'a Transcript,
    #[serde(flatten)]
    analysis: Option<&'a Analysis>,
}

impl Format {
    pub fn is_subtitles(self) -> bool {
        matches!(self, Self::Srt | Self::Vtt)
    }

    pub fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
        }
    }

    /// The whole document, line feed at the end included; text and subtitles without the analysis. `coloured` names of speakers are for a terminal.
    pub fn render(
        self,
        file: &str,
        transcript: &Transcript,
        analysis: Option<&Analysis>,
        subtitles: &SubtitleOptions,
        coloured: bool,
    ) -> Result<String> {
        let options = SubtitleOptions {
            audio_ms: Some((transcript.audio_duration_sec * 1e3) as u64).filter(|ms| *ms > 0),
            ..subtitles.clone()
        };
        Ok(match self {
            Self::Text => match &transcript.utterances {
                Some(utterances) if !utterances.is_empty() => {
                    utterances.iter().map(|one| format!("{}: {}\n", name(one, coloured), one.text)).collect()
                }
                _ => format!("{}\n", transcript.text),
            },
            Self::Json => json(&Document { file, transcript, analysis })?,
            Self::Srt => subtitles::srt(&transcript.words, &options),
            Self::Vtt => subtitles::vtt(&transcript.words, &options),
        })
    }
}

/// A speaker's name, else the label, in one of six colours where `coloured`.
fn name(utterance: &Utterance, coloured: bool) -> String {
    let Utterance { speaker, speaker_name, .. } = utterance;
    let shown = speaker_name.as_ref().unwrap_or(speaker);
    let number = speaker.bytes().fold(0, |sum, letter| sum * 26 + usize::from(letter.wrapping_sub(b'A')));
    match coloured {
        // Cyan, yellow, green, magenta, blue, red: bold, so that they show on light and dark grounds.
        true => format!("\x1b[1;{}m{shown}\x1b[0m", [36, 33, 32, 35, 34, 31][number % 6]),
        false => shown.clone(),
    }
}

/// JSON on one line, line feed included.
///
/// # Errors
/// [`Failure::Write`] for values that JSON cannot represent.
pub fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map(|line| line + "\n")
        .map_err(|error| Failure::Write { what: "JSON".into(), source: error.into() })
}

/// Writes to standard output and flushes.
///
/// # Errors
/// [`Failure::Write`]. A closed pipe is one; `main` does not treat it as a failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|source| Failure::Write { what: "to standard output".into(), source })
}

/// Prints one line on standard error, after the program's name.
pub fn say(message: &impl Display) {
    // A closed standard error cannot be reported.
    let _ = writeln!(io::stderr(), "auricle: {}", one_line(&message.to_string()));
}

/// The text on one line, without control characters.
pub fn one_line(text: &str) -> String {
    text.trim().chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// A table with aligned columns: the first row is the heading.
pub fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["id", "name"], ["vulkan:0", "x"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(table(&rows), "id        name\nvulkan:0  x\n");
    }
}
