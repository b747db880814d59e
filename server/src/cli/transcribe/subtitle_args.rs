//! The look of subtitles: the width and the number of lines, and the word that is spoken.

use auricle_engine::subtitles::SubtitleOptions;
use clap::Args;

use super::document::Format;
use crate::cli::{Failure, Result};

#[derive(Args)]
pub struct SubtitleArgs {
    /// Longest line of subtitles, 1 to 1000 columns [default: 42]
    ///
    /// A wide character, as of Chinese, takes two.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_line_width: Option<u16>,
    /// Most lines of a subtitle, 1 to 10 [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10))]
    max_line_count: Option<u16>,
    /// Mark each word as it is spoken
    ///
    /// SRT and WebVTT repeat a subtitle for each of its words, which is underlined with <u>. LRC has the time of each word before it.
    #[arg(long)]
    highlight_words: bool,
}

impl SubtitleArgs {
    pub fn options(&self) -> SubtitleOptions {
        let mut options = SubtitleOptions { highlight_words: self.highlight_words, ..SubtitleOptions::default() };
        if let Some(width) = self.max_line_width {
            options.line_chars = width.into();
        }
        if let Some(count) = self.max_line_count {
            options.line_count = count.into();
        }
        options
    }

    /// # Errors
    /// [`Failure::Usage`] for an option of subtitles where none are written.
    pub fn check(&self, formats: &[Format]) -> Result<()> {
        let given = [
            ("--max-line-width", self.max_line_width.is_some()),
            ("--max-line-count", self.max_line_count.is_some()),
            ("--highlight-words", self.highlight_words),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if !formats.iter().any(|format| format.is_subtitles()) => {
                Err(Failure::Usage(format!("{name} is for subtitles: add --format srt, vtt or lrc")))
            }
            _ => Ok(()),
        }
    }
}
