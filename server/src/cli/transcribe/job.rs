//! One input after the other becomes its transcript, by one engine.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use auricle_engine::analysis::Analysis;
use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::blocking::Engine;
use auricle_engine::{EngineOptions, Error, KnownSpeaker, SpeakerLabels, TranscribeOptions, Transcript};

use super::inputs::{Input, Source};
use super::{ProgressForm, TranscribeArgs, fetch};
use crate::cli::named_model::{Fetching, LocalModel, NamedModel};
use crate::cli::out_file::Temporary;
use crate::cli::progress::{Bar, clock, speed};
use crate::cli::pull::Verbosity;
use crate::cli::{Result, hint, loading, output};

/// The state that all files share. The model is fetched and the engine opened for the first file that can be decoded, so that a wrong
/// path is reported at once.
pub struct Job<'a> {
    pub args: &'a TranscribeArgs,
    pub bar: Bar,
    pub engine_options: EngineOptions,
    pub engine: Option<Engine>,
    pub model: NamedModel,
    pub fetching: Fetching,
    pub known: Vec<KnownSpeaker>,
}

/// The sound of an input, opened.
struct Sound {
    audio: AudioStream,
    /// None for standard input.
    path: Option<PathBuf>,
    /// The file at the path, where it goes with this.
    _fetched: Option<Temporary>,
}

impl Job<'_> {
    /// Tells if notes on what is done are left out: JSON lines have them.
    pub fn is_silent(&self) -> bool {
        self.args.quiet || self.args.progress == ProgressForm::Json
    }

    /// The transcript, and its analysis if one was asked.
    ///
    /// # Errors
    /// An error of the engine, of which some are about this input alone; and what a pull reports.
    pub fn transcribe(&mut self, input: &Input) -> Result<(Transcript, Option<Analysis>)> {
        let (name, sound) = (&input.name, self.open(input)?);
        let mut options = self.options()?;
        if self.engine.is_none() && !self.bar.is_hidden() {
            hint::say(&self.engine_options.models, &self.args.model);
        }
        let what = match &options.checkpoint {
            Some(path) => loading::checkpoint(path),
            None => loading::model(&self.engine_options.models, &self.args.model),
        };
        // Only the first file waits for it.
        let is_loading = self.engine.is_none().then(|| self.bar.loading(&what));
        let engine = match &mut self.engine {
            Some(engine) => engine,
            empty => {
                let engine = Engine::open(self.engine_options.clone())?;
                for warning in engine.warnings() {
                    output::say(&format_args!("warning: {warning}"));
                }
                empty.insert(engine)
            }
        };
        options.known_speakers = self.known.clone();
        engine.load(&options)?;
        let passes = self.args.analysis.passes();
        let tagger = if passes.ask_for_entities() { engine.tagger()? } else { None };
        drop(is_loading);
        let bar = self.bar.start(&shown(input));
        tracing::info!(file = name, format = sound.audio.format(), device = engine.device_names(), "transcribing");
        bar.begin(sound.audio.duration_s());
        let started = Instant::now();
        let mut transcript = match &sound.path {
            Some(path) if self.args.channels => {
                engine.transcribe_channels(path, &open_options(self.args), &options, |progress| bar.update(progress))?
            }
            _ => engine.transcribe_with(sound.audio, &options, |progress| bar.update(progress))?,
        };
        if !self.bar.is_hidden() {
            self.bar.clear();
            let work = started.elapsed();
            let length = clock((transcript.audio_duration_sec * 1e3) as u64);
            output::note(
                name,
                &format_args!(
                    "{length} of audio in {:.1} s, {:.1}x real time on {}",
                    work.as_secs_f64(),
                    speed(transcript.audio_duration_sec, work),
                    engine.device_names()
                ),
            );
        }
        if passes.is_empty() {
            return Ok((transcript, None));
        }
        let analysis = transcript.analyze(&passes, tagger.as_deref())?;
        Ok((transcript, Some(analysis)))
    }

    fn open(&self, input: &Input) -> Result<Sound> {
        let options = open_options(self.args);
        Ok(match &input.source {
            Source::File(path) => {
                Sound { audio: AudioStream::open_with(path, &options)?, path: Some(path.clone()), _fetched: None }
            }
            Source::Address(url) => {
                let fetched = fetch::fetch(url, &shown(input), &self.bar)?;
                let path = fetched.path().to_owned();
                Sound { audio: AudioStream::open_with(&path, &options)?, path: Some(path), _fetched: Some(fetched) }
            }
            Source::StandardInput => {
                // Containers need seeking, which a pipe cannot do. The unnamed file disappears with the process.
                let failed = |error: io::Error| Error::Read { path: "-".into(), reason: error.to_string() };
                let mut spool = tempfile::tempfile().map_err(failed)?;
                io::copy(&mut io::stdin().lock(), &mut spool).map_err(failed)?;
                Sound { audio: AudioStream::from_source(spool, &options)?, path: None, _fetched: None }
            }
        })
    }

    /// The options of the command line, with the model here.
    fn options(&mut self) -> Result<TranscribeOptions> {
        let args = self.args;
        let mut options = TranscribeOptions::default()
            .languages(args.languages.clone())
            .keyterms(args.keyterms.clone())
            .medical_mode(args.medical)
            .format_numbers(args.format_numbers)
            .language_model(args.search.language_model())
            .fusion(args.search.weights())
            .sequential(args.sequential)
            .translate(args.translate);
        let verbosity = if self.is_silent() { Verbosity::Quiet } else { Verbosity::Normal };
        match self.model.fetch(&self.engine_options.models, self.fetching, &self.bar, verbosity)? {
            LocalModel::Checkpoint(path) => options.checkpoint = Some(path),
            LocalModel::Service(id) => options.model = Some(id),
        }
        options.speakers = match args.speakers {
            None => SpeakerLabels::Off,
            Some(None) => SpeakerLabels::Found,
            Some(Some(count)) => SpeakerLabels::Expected(count),
        };
        options.language.clone_from(&args.language);
        options.look_ahead_ms = args.look_ahead;
        options.beam = args.beam;
        Ok(options)
    }
}

/// The message on standard error begins with the file's name already.
fn open_options(args: &TranscribeArgs) -> OpenOptions {
    let mut options = OpenOptions::default().name("the file");
    // The file's first track is 1.
    options.track = args.track.map(|track| track.get() - 1);
    options.excerpt(args.excerpt.excerpt())
}

/// The name of an input on the bar.
fn shown(input: &Input) -> String {
    let name = input.path().and_then(Path::file_name).unwrap_or(&input.stem);
    output::one_line(&name.to_string_lossy())
}
