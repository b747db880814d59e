//! `auricle analyze`: the analysis of transcripts, over text alone.

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::analysis::chapters::Chapter;
use auricle_engine::analysis::moderation::SafetyReport;
use auricle_engine::analysis::sentiment::SentenceSentiment;
use auricle_engine::analysis::summary::SummaryForm;
use auricle_engine::analysis::{self, Analysis, Passes, Redaction, Span, Tagger, WrittenText, profanity};
use auricle_engine::{Catalog, TaggerChoice, load_tagger, numbers_in_text};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::findings::Findings;
use super::progress::Bar;
use super::{Failure, ModelsFolder, Result, loading, output};

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
    /// Tell the sentiment of each sentence
    #[arg(long)]
    pub sentiment: bool,
    /// Flag sentences about sensitive topics
    #[arg(long)]
    pub moderation: bool,
    /// Cut the text into chapters
    #[arg(long)]
    pub chapters: bool,
    /// Summarise: bullets, gist, headline or paragraph
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "bullets",
          value_parser = summary_form)]
    pub summary: Option<SummaryForm>,
}

/// The tagger beside patterns and lists; the same flag for `analyze` and `transcribe`.
#[derive(Args)]
pub struct TaggerArgs {
    /// Folder of the tagger of names and places, or off [default: that of the models folder]
    ///
    /// It is a BertForTokenClassification. With off, patterns and lists alone find what is looked for.
    #[arg(long, value_name = "DIR")]
    tagger: Option<TaggerChoice>,
}

impl TaggerArgs {
    pub fn choice(&self) -> TaggerChoice {
        self.tagger.clone().unwrap_or_default()
    }
}

fn summary_form(name: &str) -> Result<SummaryForm, &'static str> {
    name.parse().map_err(|()| "it must be bullets, gist, headline or paragraph")
}

impl AnalysisArgs {
    /// The passes over a transcript.
    pub fn passes(self) -> Passes {
        let mut passes = Passes::default();
        passes.redaction = self.pii.then(Redaction::default);
        passes.entities = self.entities;
        passes.profanity_filter = self.profanity;
        passes.sentiment = self.sentiment;
        passes.moderation = self.moderation;
        passes.chapters = self.chapters;
        passes.summary = self.summary;
        passes
    }

    fn is_empty(self) -> bool {
        self.passes().is_empty()
    }
}

#[derive(Args)]
#[command(after_long_help = "\
Without any flag --pii is meant. With --itn the other flags see numbers in digits, and places count characters of that
text, in which each run of spaces is one. Numbers with several readings, such as \"one twenty five\", stay words. The text that remains goes to standard output.

JSON has redacted (the text that remains) and entities (text, label, start_char, end_char, counted in characters of the
input): with --pii alone what was hidden, with --entities everything that was found. The other flags add summary,
chapters, sentiment_results and content_safety; their start and end count characters of redacted.

Examples:
  auricle analyze --pii notes.txt
  auricle analyze --pii --lines messages.txt > messages.jsonl
  auricle analyze --itn --lines --format text dictation.txt
  auricle analyze --entities --format json report.txt | jq -r '.entities[] | .label + \" \" + .text'
  echo 'call jo at example dot com' | auricle analyze --pii -")]
pub struct AnalyzeArgs {
    /// A text file; `-` reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Write numbers in digits first: "twelve thousand dollars" becomes $12,000
    #[arg(long)]
    itn: bool,
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    tagger: TaggerArgs,
    #[command(flatten)]
    models: ModelsFolder,
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
    /// The other passes, if one was asked.
    #[serde(flatten)]
    more: Option<More>,
}

#[derive(Serialize)]
struct More {
    summary: Option<String>,
    chapters: Option<Vec<Chapter>>,
    sentiment_results: Option<Vec<SentenceSentiment>>,
    content_safety: Option<SafetyReport>,
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
    asked.pii |= asked.is_empty() && !args.itn;
    if asked.pii {
        analysis::check_redaction(Some(&args.language))?;
    }
    for warning in asked.passes().left_out(Some(&args.language)) {
        output::say(&format_args!("warning: {warning}"));
    }
    let tagger = tagger(args, asked)?;
    let format = args.format.unwrap_or(if args.lines { TextFormat::Json } else { TextFormat::Text });
    let input = open(&args.file)?;
    let stopped = |source| Failure::Write { what: "to standard output".into(), source };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut write = |text: &str| -> Result<()> {
        let text = if args.itn { Cow::Owned(in_digits(text, &args.language)?) } else { Cow::Borrowed(text) };
        let analyzed = analyze(&text, asked, &args.language, tagger.as_deref())?;
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

fn in_digits(text: &str, language: &str) -> Result<String> {
    numbers_in_text(text, language)
        .ok_or_else(|| Failure::Usage(format!("--itn knows no numbers of the language {language}; leave it out")))
}

/// The tagger, if the text has to be searched for names and the like.
fn tagger(args: &AnalyzeArgs, asked: AnalysisArgs) -> Result<Option<Arc<dyn Tagger>>> {
    let choice = args.tagger.choice();
    if choice == TaggerChoice::Off || !asked.passes().ask_for_entities() || !analysis::has_language(&args.language) {
        return Ok(None);
    }
    let models = args.models.path()?;
    let bar = Bar::new(false);
    let _loading = bar.loading(&match &choice {
        TaggerChoice::Folder(folder) => loading::checkpoint(folder),
        _ => loading::model(&models, "tagger"),
    });
    let tagger = load_tagger(&Catalog::read(models)?, &choice)?;
    if let Some(tagger) = tagger.as_ref().filter(|tagger| !tagger.ignored_labels().is_empty()) {
        tracing::warn!(labels = tagger.ignored_labels().join(", "), "the tagger's labels without a meaning here");
    }
    Ok(tagger)
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
    let path = if path == Path::new("-") { Path::new("standard input") } else { path };
    let reason = match error.kind() {
        io::ErrorKind::InvalidData => "it is not text in UTF-8".into(),
        _ => error.to_string(),
    };
    auricle_engine::Error::Read { path: path.to_owned(), reason }
}

fn analyze(text: &str, asked: AnalysisArgs, language: &str, tagger: Option<&dyn Tagger>) -> Result<Analyzed> {
    let mut written = WrittenText::new(text);
    if let Some(tagger) = tagger {
        written = written.tagged(tagger)?;
    }
    let (mut redacted, hidden) =
        if asked.pii { written.redact(&Redaction::default()) } else { (text.to_owned(), Vec::new()) };
    if asked.profanity {
        redacted = profanity::mask_text(&redacted, language);
    }
    let entities = if asked.entities && analysis::has_language(language) { written.entities() } else { hidden };
    let more = more(&redacted, asked, language)?;
    Ok(Analyzed { redacted, entities: entities.into_iter().map(SpanObject::from).collect(), more })
}

/// The passes that need no places in the input, over the text that remains.
fn more(redacted: &str, asked: AnalysisArgs, language: &str) -> Result<Option<More>> {
    let mut passes = asked.passes();
    passes.redaction = None;
    passes.entities = false;
    if passes.is_empty() {
        return Ok(None);
    }
    let words = WrittenText::new(redacted).to_words();
    let Analysis { summary, chapters, sentiment_results, content_safety, .. } =
        analysis::analyze(words, Some(language), &passes, None)?.analysis;
    Ok(Some(More { summary, chapters, sentiment_results, content_safety }))
}

fn render(analyzed: &Analyzed, asked: AnalysisArgs, format: TextFormat) -> Result<String> {
    if format == TextFormat::Json {
        return output::json(analyzed);
    }
    let more = analyzed.more.as_ref();
    // With redaction the text of a finding would show what was hidden.
    let entities = if asked.entities && !asked.pii { analyzed.entities.as_slice() } else { &[] };
    let findings = Findings {
        summary: more.and_then(|more| more.summary.as_deref()),
        chapters: more.and_then(|more| more.chapters.as_deref()),
        entities: entities.iter().map(|entity| (entity.label, entity.text.as_str())).collect(),
        sentiments: more.and_then(|more| more.sentiment_results.as_deref()),
        safety: more.and_then(|more| more.content_safety.as_ref()),
        has_times: false,
    };
    Ok(format!("{}\n{}", analyzed.redacted, findings.sections()))
}
