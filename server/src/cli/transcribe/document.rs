//! A transcript in the formats of `--format`.

use std::ffi::OsStr;
use std::path::Path;

use auricle_engine::analysis::Analysis;
use auricle_engine::documents::{self, Times, clock};
use auricle_engine::subtitles::{self, SubtitleOptions};
use auricle_engine::{Transcript, Utterance, segments};
use clap::ValueEnum;
use serde::Serialize;

use crate::cli::findings::Findings;
use crate::cli::{Result, output};

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
    /// Tab-separated: start and end in ms, text of each sentence
    Tsv,
    /// The same, comma-separated
    Csv,
    /// Lyrics of music players
    Lrc,
    /// Paragraphs, with the analysis
    #[value(alias = "md")]
    Markdown,
}

impl Format {
    pub fn is_subtitles(self) -> bool {
        matches!(self, Self::Srt | Self::Vtt | Self::Lrc)
    }

    /// True for those with a place for the findings of an analysis.
    fn has_findings(self) -> bool {
        matches!(self, Self::Text | Self::Json | Self::Markdown)
    }

    /// True for those in which times are a choice.
    pub fn may_show_times(self) -> bool {
        matches!(self, Self::Text | Self::Markdown)
    }

    pub fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Lrc => "lrc",
            Self::Markdown => "md",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    On,
    Off,
}

/// The look of the formats in which it is a choice.
#[derive(Clone, Debug)]
pub struct Look {
    /// Their `audio_ms` is that of each recording.
    pub subtitles: SubtitleOptions,
    pub times: Times,
    /// The beginning of the transcript in its recording, ms.
    pub start_ms: u64,
}

/// The result of an input.
pub struct Document<'a> {
    pub name: &'a str,
    pub transcript: &'a Transcript,
    pub analysis: Option<&'a Analysis>,
    pub look: &'a Look,
}

/// The JSON object of a file.
#[derive(Serialize)]
struct Json<'a> {
    file: &'a str,
    #[serde(flatten)]
    transcript: &'a Transcript,
    #[serde(flatten)]
    analysis: Option<&'a Analysis>,
}

impl Document<'_> {
    /// Reports an analysis that no format has a place for.
    pub fn warn(&self, formats: &[Format]) {
        let has_place = formats.iter().any(|format| format.has_findings());
        if !has_place && self.analysis.is_some_and(|analysis| !Findings::of(analysis).sections().is_empty()) {
            let place = match formats.iter().all(|format| format.is_subtitles()) {
                true => "subtitles have no place for the analysis",
                false => "this format has no place for the analysis",
            };
            output::note(self.name, &format_args!("warning: {place}: --format json has it"));
        }
    }

    /// The whole document, line feed at the end included. Coloured names of speakers are for a terminal.
    pub fn render(&self, format: Format, colours: Colours) -> Result<String> {
        let Self { name: file, transcript, analysis, look } = *self;
        let findings = analysis.map(Findings::of).unwrap_or_default();
        let end_ms = (transcript.audio_duration_sec * 1e3) as u64;
        let subtitles = SubtitleOptions {
            audio_ms: Some(end_ms).filter(|ms| *ms > 0).map(|ms| ms + look.start_ms),
            ..look.subtitles.clone()
        };
        Ok(match format {
            Format::Text => self.text(colours) + &findings.sections(),
            Format::Json => output::json(&Json { file, transcript, analysis })?,
            Format::Srt => subtitles::srt(&transcript.words, &subtitles),
            Format::Vtt => subtitles::vtt(&transcript.words, &subtitles),
            Format::Lrc => subtitles::lrc(&transcript.words, &subtitles),
            Format::Tsv => documents::tsv(&transcript.words),
            Format::Csv => documents::csv(&transcript.words),
            Format::Markdown => {
                let title = Path::new(file).file_name().map_or(file.into(), OsStr::to_string_lossy);
                documents::markdown(&title, &transcript.words, look.times) + &findings.markdown_sections()
            }
        })
    }

    fn text(&self, colours: Colours) -> String {
        let Transcript { text, words, utterances, .. } = self.transcript;
        if self.look.times == Times::Shown {
            let lines = segments::sentences(words).into_iter().map(|sentence| {
                let word = sentence.words.first();
                let name =
                    word.and_then(|word| Some(shown_name(word.speaker.as_ref()?, word.shown_speaker()?, colours)));
                let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
                format!("[{}] {name}{}\n", clock(sentence.start), sentence.text)
            });
            return lines.collect();
        }
        match utterances {
            Some(utterances) if !utterances.is_empty() => {
                let line = |one: &Utterance| {
                    let name = one.speaker_name.as_ref().unwrap_or(&one.speaker);
                    format!("{}: {}\n", shown_name(&one.speaker, name, colours), one.text)
                };
                utterances.iter().map(line).collect()
            }
            _ => format!("{text}\n"),
        }
    }
}

/// A speaker's name, in one of six colours by the label.
fn shown_name(label: &str, name: &str, colours: Colours) -> String {
    let number = label.bytes().fold(0, |sum, letter| sum * 26 + usize::from(letter.wrapping_sub(b'A')));
    match colours {
        // Cyan, yellow, green, magenta, blue, red: bold, so that they show on light and dark grounds.
        Colours::On => format!("\x1b[1;{}m{name}\x1b[0m", [36, 33, 32, 35, 34, 31][number % 6]),
        Colours::Off => name.to_owned(),
    }
}
