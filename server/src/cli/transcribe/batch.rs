//! Inputs one after the other: each becomes its transcript, and that its outputs.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use auricle_engine::analysis::Analysis;
use auricle_engine::{Error, Transcript};
use serde_json::json;

use super::ProgressForm;
use super::document::{Colours, Document, Format, Look};
use super::inputs::Input;
use super::job::Job;
use crate::cli::{Failure, Result, out_file, output};

/// The work on inputs that share an engine and the look of their outputs.
pub struct Batch<'a> {
    pub job: Job<'a>,
    pub look: Look,
    pub failed: bool,
    printed: bool,
}

/// The outcome of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It has been reported.
    Failed,
    /// It is another file now, and nothing was written.
    Changed,
}

impl<'a> Batch<'a> {
    pub fn new(job: Job<'a>, look: Look) -> Self {
        Self { job, look, failed: false, printed: false }
    }

    /// Reports that the outputs of an input are there already.
    pub fn leave_out(&self, input: &Input) {
        match self.job.args.progress {
            ProgressForm::Json => output::event("skipped", &json!({ "file": input.name })),
            ProgressForm::Bar if self.job.args.quiet => {}
            ProgressForm::Bar => output::note(&input.name, &"left out, its output is there"),
        }
    }

    /// Transcribes an input and writes its files, unless it has changed meanwhile.
    ///
    /// # Errors
    /// A failure that is not of this input alone.
    pub fn write_files(
        &mut self,
        input: &Input,
        files: &[(Format, PathBuf)],
        has_changed: impl Fn() -> bool,
    ) -> Result<Outcome> {
        let began = Instant::now();
        let (transcript, analysis) = match self.transcribe(input, has_changed)? {
            Ok(done) => done,
            Err(outcome) => return Ok(outcome),
        };
        let document =
            Document { name: &input.name, transcript: &transcript, analysis: analysis.as_ref(), look: &self.look };
        document.warn(&files.iter().map(|(format, _)| *format).collect::<Vec<_>>());
        let mut written = Vec::new();
        for (format, path) in files {
            match write(path, &document.render(*format, Colours::Off)?) {
                Ok(()) => {
                    if !self.job.is_silent() {
                        output::note(&input.name, &format_args!("wrote {}", path.display()));
                    }
                    written.push(path.display().to_string());
                }
                Err(failure) => {
                    output::fault(&input.name, &failure.to_string());
                    self.failed = true;
                }
            }
        }
        self.done(input, &transcript, began, &written);
        Ok(if written.len() == files.len() { Outcome::Done } else { Outcome::Failed })
    }

    /// Transcribes an input onto standard output, under a heading if it is one of `count`.
    ///
    /// # Errors
    /// A failure that is not of this input alone.
    pub fn print(&mut self, input: &Input, format: Format, count: usize) -> Result<()> {
        let began = Instant::now();
        let Ok((transcript, analysis)) = self.transcribe(input, || false)? else { return Ok(()) };
        let name = &input.name;
        let document = Document { name, transcript: &transcript, analysis: analysis.as_ref(), look: &self.look };
        document.warn(&[format]);
        let is_terminal = io::stdout().is_terminal();
        let coloured = is_terminal && std::env::var_os("NO_COLOR").is_none();
        let text = document.render(format, if coloured { Colours::On } else { Colours::Off })?;
        let has_heading = count > 1 && (format == Format::Text || is_terminal);
        let gap = if self.printed { "\n" } else { "" };
        let heading = if has_heading { format!("{gap}==> {} <==\n", output::one_line(name)) } else { String::new() };
        // A closed pipe does not hide the failure of an earlier file.
        let printed = output::print(&(heading + &text));
        printed.map_err(|failure| if self.failed { Failure::Reported } else { failure })?;
        self.printed = true;
        self.done(input, &transcript, began, &[]);
        Ok(())
    }

    /// The transcript; an outcome for an input that has none.
    fn transcribe(
        &mut self,
        input: &Input,
        has_changed: impl Fn() -> bool,
    ) -> Result<Result<(Transcript, Option<Analysis>), Outcome>> {
        self.job.bar.of_file(&input.name);
        let result = self.job.transcribe(input);
        self.job.bar.clear();
        match result {
            Ok(_) if has_changed() => Ok(Err(Outcome::Changed)),
            Ok((transcript, analysis)) => {
                for warning in &transcript.warnings {
                    output::note(&input.name, &format_args!("warning: {warning}"));
                }
                Ok(Ok((transcript, analysis)))
            }
            Err(Failure::Engine(error)) if is_about_the_file(&error) => {
                if has_changed() {
                    return Ok(Err(Outcome::Changed));
                }
                output::fault(&input.name, &reason(&error));
                self.failed = true;
                Ok(Err(Outcome::Failed))
            }
            Err(failure) => Err(failure),
        }
    }

    fn done(&self, input: &Input, transcript: &Transcript, began: Instant, files: &[String]) {
        if self.job.args.progress == ProgressForm::Json {
            let fields = json!({
                "file": input.name,
                "percent": 100.0,
                "audio_sec": transcript.audio_duration_sec,
                "work_sec": began.elapsed().as_secs_f64(),
                "outputs": files,
            });
            output::event("done", &fields);
        }
    }
}

/// Writes a file of `--out`, in a folder of its own where its input had one.
fn write(path: &Path, text: &str) -> Result<()> {
    let written = fs::create_dir_all(out_file::folder_of(path)).and_then(|()| out_file::write(path, text.as_bytes()));
    written.map_err(|source| Failure::Write { what: path.display().to_string(), source })
}

/// Tells if only this file is at fault, not the options, the checkpoint or the device.
fn is_about_the_file(error: &Error) -> bool {
    !matches!(
        error,
        Error::Checkpoint { .. }
            | Error::Weights { .. }
            | Error::Device { .. }
            | Error::LanguageModel { .. }
            | Error::Language(_)
            | Error::UnknownModel(_)
            | Error::InvalidOption(_)
    )
}

/// The message without the path, which the line begins with already.
fn reason(error: &Error) -> String {
    match error {
        Error::Read { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}
