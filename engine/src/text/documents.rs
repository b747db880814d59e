//! Words as documents: Markdown, and tables with a row for each sentence.

use std::fmt::Write as _;

use super::Word;
use super::segments::{Segment, paragraphs, sentences};

/// The times of paragraphs in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Before its text.
    Shown,
    /// Left out.
    Hidden,
}

/// Tab-separated values: start and end in ms, the speaker where there are speaker labels, the text. A tab or line feed in a text is a
/// space.
#[must_use]
pub fn tsv(words: &[Word]) -> String {
    table(words, '\t', on_one_line)
}

/// Comma-separated values (RFC 4180, with plain line feeds), of the columns of [`tsv`].
#[must_use]
pub fn csv(words: &[Word]) -> String {
    table(words, ',', |text| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    })
}

fn table(words: &[Word], mark: char, cell: impl Fn(&str) -> String) -> String {
    let has_speakers = words.iter().any(|word| word.speaker.is_some());
    let mut out = ["start", "end"].join(&mark.to_string());
    let row = |out: &mut String, speaker: &str, text: &str| {
        if has_speakers {
            out.push(mark);
            out.push_str(&cell(speaker));
        }
        out.push(mark);
        out.push_str(&cell(text));
        out.push('\n');
    };
    row(&mut out, "speaker", "text");
    for sentence in sentences(words) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}{mark}{}", sentence.start, sentence.end);
        row(&mut out, shown_speaker(&sentence).unwrap_or_default(), &sentence.text);
    }
    out
}

/// Markdown: the title as a heading, then [`markdown_paragraphs`].
#[must_use]
pub fn markdown(title: &str, words: &[Word], times: Times) -> String {
    format!("# {}\n{}", escaped(title), markdown_paragraphs(words, times))
}

/// A paragraph of Markdown behind an empty line for each of [`paragraphs`], which names its speaker where another begins.
#[must_use]
pub fn markdown_paragraphs(words: &[Word], times: Times) -> String {
    let (mut out, mut last) = (String::new(), None);
    for paragraph in paragraphs(words) {
        out.push('\n');
        if times == Times::Shown {
            let _ = write!(out, "`{}` ", clock(paragraph.start));
        }
        let speaker = shown_speaker(&paragraph);
        if let Some(name) = speaker.filter(|_| speaker != last) {
            let _ = write!(out, "**{}:** ", escaped(name));
        }
        last = speaker;
        out.push_str(&escaped(&paragraph.text));
        out.push('\n');
    }
    out
}

/// Text in which Markdown finds no marks, on one line.
#[must_use]
pub fn escaped(text: &str) -> String {
    let text = on_one_line(text);
    let mut out = String::with_capacity(text.len());
    // A line that begins so is a list or a heading.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let first_mark = if digits > 0 && text[digits..].starts_with(['.', ')']) { Some(digits) } else { None };
    for (at, letter) in text.char_indices() {
        let is_mark = matches!(letter, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '|' | '~');
        if is_mark || Some(at) == first_mark || at == 0 && matches!(letter, '#' | '+' | '-' | '=') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// `0:42`, `12:03`, `1:02:03`.
#[must_use]
pub fn clock(ms: u64) -> String {
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn shown_speaker<'a>(segment: &Segment<'a>) -> Option<&'a str> {
    segment.words.first()?.shown_speaker()
}

fn on_one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(spoken: &[(&str, u64, Option<&str>)]) -> Vec<Word> {
        let word = |(text, start, speaker): &(&str, u64, Option<&str>)| Word {
            text: (*text).into(),
            start: *start,
            end: start + 400,
            confidence: 0.9,
            speaker: speaker.map(|_| "A".into()),
            speaker_name: speaker.map(str::to_owned),
            channel: None,
        };
        spoken.iter().map(word).collect()
    }

    #[test]
    fn a_row_is_a_sentence() {
        let spoken = words(&[("Say", 0, None), ("\"hi\",\tBob.", 500, None), ("Bye.", 2_000, None)]);
        assert_eq!(tsv(&spoken), "start\tend\ttext\n0\t900\tSay \"hi\", Bob.\n2000\t2400\tBye.\n");
        assert_eq!(csv(&spoken), "start,end,text\n0,900,\"Say \"\"hi\"\",\tBob.\"\n2000,2400,Bye.\n");
        let named = words(&[("Hello.", 0, Some("Lovelace, Ada")), ("Hi.", 900, Some("B"))]);
        assert_eq!(csv(&named), "start,end,speaker,text\n0,400,\"Lovelace, Ada\",Hello.\n900,1300,B,Hi.\n");
        assert_eq!((tsv(&[]).as_str(), csv(&[]).as_str()), ("start\tend\ttext\n", "start,end,text\n"));
    }

    #[test]
    fn paragraphs_name_a_speaker_where_another_begins() {
        let spoken =
            words(&[("Hello.", 0, Some("Ada")), ("Still.", 62_000, Some("Ada")), ("Hi.", 3_723_000, Some("*Bob*"))]);
        let hidden = "# talk\\_1.mp3\n\n**Ada:** Hello.\n\nStill.\n\n**\\*Bob\\*:** Hi.\n";
        assert_eq!(markdown("talk_1.mp3", &spoken, Times::Hidden), hidden);
        let shown = "# t\n\n`0:00` **Ada:** Hello.\n\n`1:02` Still.\n\n`1:02:03` **\\*Bob\\*:** Hi.\n";
        assert_eq!(markdown("t", &spoken, Times::Shown), shown);
        assert_eq!(markdown("t", &[], Times::Shown), "# t\n");
    }

    #[test]
    fn text_has_no_marks_of_markdown() {
        for (text, expected) in [
            ("1. First", "1\\. First"),
            ("12) twelve", "12\\) twelve"),
            ("1.5 is fine", "1\\.5 is fine"),
            ("- 3 degrees - now", "\\- 3 degrees - now"),
            ("# no heading", "\\# no heading"),
            ("<script>&amp;\n# x", "\\<script\\>\\&amp; # x"),
            ("[a](b) ~c~ `d` e|f \\", "\\[a\\](b) \\~c\\~ \\`d\\` e\\|f \\\\"),
            ("", ""),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
