//! `auricle analyze`: the analysis of transcripts, over text alone.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use auricle_engine::analysis::{self, Passes, Redaction, Span, WrittenText, profanity};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Failure, Result, output};

/// What is asked of a text; the same flags for `analyze` and `transcribe`.
#[derive(Args, Clone, Copy)]
pub struct AnalysisArgs {
    /// Hide personal words: each run becomes its label, such as [PERSON_NAME]
    #[arg(long)]
    pub pii: bool,
    /// Find entities: names, places, numbers, dates, amounts, terms
    #[arg(long)]
    pub entities: bool,
    /// Mask profanity but for its first letter
    #[arg(long)]
    pub profanity: bool,
}

impl AnalysisArgs {
    /// The passes over a transcript.
    pub fn passes(self) -> Passes {
        let mut passes = Passes::default();
        passes.redaction = self.pii.then(Redaction::default);
        passes.entities = self.entities;
        passes.profanity_filter = self.profanity;
        passes
    }

    fn is_empty(self) -> bool {
        !(self.pii || self.entities || self.profanity)
    }
}

#[derive(Args)]
#[command(after_help = "\
Without any of --pii, --entities and --profanity, --pii is meant. The text that remains goes to standard output.

JSON has redacted (the text that remains) and entities (text, label, start_char, end_char, counted in characters of the
input): with --pii alone what was hidden, with --entities everything that was found.

Examples:
  auricle analyze --pii notes.txt
  auricle analyze --pii --lines messages.txt > messages.jsonl
  auricle analyze --entities --format json report.txt | jq -r '.entities[] | .label + \" \" + .text'
  echo 'call jo at example dot com' | auricle analyze --pii -")]
pub struct AnalyzeArgs {
    /// A text file; `-` reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    analysis: AnalysisArgs,
    /// Take each line as a text of its own, and write one line of JSON for each
    #[arg(long)]
    lines: bool,
    /// Output format [default: text, with --lines json]
    #[arg(long, value_enum)]
    format: Option<TextFormat>,
    /// The language of the text
    #[arg(long, value_name = "CODE", default_value = "en")]
    language: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TextFormat {
    /// The text that remains, then what was asked
    Text,
    /// One JSON object, on one line
    Json,
}

/// The analysis of a text.
#[derive(Serialize)]
struct Analyzed {
    redacted: String,
    entities: Vec<SpanObject>,
}

#[derive(Serialize)]
struct SpanObject {
    text: String,
    label: &'static str,
    start_char: usize,
    end_char: usize,
}

impl From<Span> for SpanObject {
    fn from(span: Span) -> Self {
        Self { text: span.text, label: span.label.name(), start_char: span.start_char, end_char: span.end_char }
    }
}

pub fn run(args: &AnalyzeArgs) -> Result<()> {
    let mut asked = args.analysis;
    asked.pii |= asked.is_empty();
    if asked.pii {
        analysis::check_redaction(Some(&args.language))?;
    }
    let format = args.format.unwrap_or(if args.lines { TextFormat::Json } else { TextFormat::Text });
    let input = open(&args.file)?;
    let stopped = |source| Failure::Write { what: "to standard output".into(), source };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut write = |text: &str| -> Result<()> {
        let analyzed = analyze(text, asked, &args.language);
        out.write_all(render(&analyzed, asked, format)?.as_bytes()).map_err(stopped)
    };
    let failed = |error: io::Error| Failure::Engine(read_error(&args.file, &error));
    if args.lines {
        for line in io::BufReader::new(input).lines() {
            let line = line.map_err(failed)?;
            write(line.strip_suffix('\r').unwrap_or(&line))?;
        }
    } else {
        let mut text = String::new();
        let mut input = input;
        input.read_to_string(&mut text).map_err(failed)?;
        write(text.trim_end_matches('\n'))?;
    }
    out.flush().map_err(stopped)
}

fn open(path: &Path) -> Result<Box<dyn io::Read>> {
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(Failure::Usage("standard input is a terminal; name a file or pipe a text into it".into()));
        }
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = fs::File::open(path).map_err(|error| Failure::Engine(read_error(path, &error)))?;
    Ok(Box::new(file))
}

fn read_error(path: &Path, error: &io::Error) -> auricle_engine::Error {
    auricle_engine::Error::Read { path: path.to_owned(), reason: error.to_string() }
}

fn analyze(text: &str, asked: AnalysisArgs, language: &str) -> Analyzed {
    let written = WrittenText::new(text);
    let (mut redacted, hidden) =
        if asked.pii { written.redact(&Redaction::default()) } else { (text.to_owned(), Vec::new()) };
    if asked.profanity {
        redacted = profanity::mask_text(&redacted, language);
    }
    let entities = if asked.entities && analysis::has_language(language) { written.entities() } else { hidden };
    Analyzed { redacted, entities: entities.into_iter().map(SpanObject::from).collect() }
}

fn render(analyzed: &Analyzed, asked: AnalysisArgs, format: TextFormat) -> Result<String> {
    if format == TextFormat::Json {
        return output::json(analyzed);
    }
    let mut text = format!("{}\n", analyzed.redacted);
    // With redaction the text of a finding would show what was hidden.
    if asked.entities && !asked.pii {
        let rows: Vec<Vec<String>> = analyzed
            .entities
            .iter()
            .map(|entity| vec![entity.label.to_owned(), output::one_line(&entity.text)])
            .collect();
        text.push('\n');
        text.push_str(&output::table(&rows));
    }
    Ok(text)
}
