//! `auricle bench`: the speed of this machine as a table, in seconds of audio per second of work; of the language model, in tokens a
//! second.

use std::io::Cursor;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{ChatMessage, ChatOptions, DeviceInfo, TranscribeOptions};
use clap::Args;

use super::callers::CallersArgs;
use super::commits::CommitArgs;
use super::progress::{Bar, clock, speed};
use super::{EngineArgs, Result, interrupt, loading, output};

/// The live model.
const LIVE_MODEL: &str = "svc-realtime-pro";

/// Concurrent files of the last row.
const CONCURRENT: usize = 4;

/// Runs of a row of short files, of which it shows the median.
const RUNS: usize = 9;

/// Target duration of the row of a long file.
const LONG_FILE_WORK: Duration = Duration::from_secs(10);

/// Repetitions of a sentence that make up the language model's prompt, tokens of its answers, and answers of the last row.
const PROMPT_SENTENCES: usize = 40;
const ANSWER_TOKENS: usize = 64;
const CONCURRENT_ANSWERS: usize = 8;

/// The most repetitions of the clip: half an hour of an eleven-second clip.
const MAX_REPEATS: usize = 160;

#[derive(Args)]
#[command(after_long_help = "\
Each row says how many seconds of audio one second of work gets through. The first transcription loads the model and,
on a GPU, compiles its kernels; the rows after it do not. Rows of short files are medians of nine runs. Where a language
model was pulled, a second table has its tokens a second.

With --talk, simulated callers talk to voice agents of a service that runs as long as the command, or of the one at --url. They speak
over the greeting (an interruption, or in every second call words of a listener), ask, pause within sentences, and count what goes
wrong.

With --commit a client speaks into one live session in real time and ends each turn after 200 ms of silence; the table has the time from there
to the text.

With --gpu-plan nothing is measured: a table says what steps of the published sizes cost on a card by arithmetic, h100 for example.

Examples:
  auricle bench
  auricle bench --gpu-plan h100
  auricle bench --talk --calls 8 --rounds 3
  auricle bench --commit --utterances 30")]
pub struct BenchArgs {
    /// A short recording of speech [default: samples/jfk.flac of the models folder]
    file: Option<PathBuf>,
    /// The model, as `auricle models list` names it
    #[arg(long, default_value = "svc-best")]
    model: String,
    /// Print what a GPU would do by arithmetic [default: the GPU at hand]
    ///
    /// It takes names such as h100, h200, "rtx 4090", "m3 max" and "radeon 7900".
    #[arg(long, value_name = "ADAPTER", num_args = 0..=1, default_missing_value = "")]
    gpu_plan: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten, next_help_heading = "Live sessions")]
    commits: CommitArgs,
    #[command(flatten, next_help_heading = "Voice agents")]
    callers: CallersArgs,
}

/// The rows so far.
struct Table(Vec<Vec<String>>);

impl Table {
    fn add(&mut self, what: impl Into<String>, audio_s: f64, work: Duration) {
        let audio = clock((audio_s * 1e3).round() as u64);
        let speed = format!("{:.1}x", speed(audio_s, work));
        self.0.push(vec![what.into(), audio, format!("{:.2} s", work.as_secs_f64()), speed]);
    }
}

pub fn run(args: &BenchArgs) -> Result<()> {
    if args.callers.talk {
        return args.callers.run(&args.engine);
    }
    if let Some(adapter) = &args.gpu_plan {
        return super::gpu_plan::run(adapter);
    }
    let file = match &args.file {
        Some(file) => file.clone(),
        None => args.engine.models.path()?.join("samples/jfk.flac"),
    };
    if args.commits.commit {
        return args.commits.run(&file, LIVE_MODEL, &args.engine);
    }
    let bar = Bar::new(false);
    interrupt::on_signal(bar.clone());
    let mut table = Table(vec![["what", "audio", "time", "x real time"].map(String::from).to_vec()]);

    let (samples, work) = timed(|| AudioStream::open(&file)?.read_to_end())?;
    let clip_s = samples.len() as f64 / f64::from(SAMPLE_RATE);
    table.add("decoding", clip_s, work);
    let pcm: Vec<u8> = samples.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect();

    let options = TranscribeOptions::default().model(&args.model);
    let transcribe = |engine: &Engine, repeats: usize, name: &str| {
        let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm.repeat(repeats)), SAMPLE_RATE, 1)?;
        let bar = bar.start(name);
        bar.begin(Some(clip_s * repeats as f64));
        engine.transcribe_with(audio, &options, |progress| bar.update(progress))
    };
    let engine_options = args.engine.options()?;
    let is_loading = bar.loading(&loading::model(&engine_options.models, &args.model));
    let (engine, opening) = timed(|| Engine::open(engine_options))?;
    let (_, first) = timed(|| {
        engine.load(&options)?;
        drop(is_loading);
        transcribe(&engine, 1, "first transcription")
    })?;
    table.add("first transcription, with loading", clip_s, opening + first);
    let stages = engine.measure(&args.model, &samples)?;
    table.add("log-mel features of it", clip_s, stages.features);
    table.add("one encoder pass over it", clip_s, stages.encoder);
    let single = median(|| transcribe(&engine, 1, "one short file").map(drop))?;
    table.add("one short file", clip_s, single);
    let repeats =
        (LONG_FILE_WORK.as_secs_f64() / single.as_secs_f64().max(1e-3)).clamp(2.0, MAX_REPEATS as f64) as usize;
    let (_, long) = timed(|| transcribe(&engine, repeats, "one long file"))?;
    table.add("one long file", clip_s * repeats as f64, long);
    let several = median(|| {
        std::thread::scope(|scope| {
            let work = || transcribe(&engine, 1, "several at once").map(drop);
            let threads: Vec<_> = (0..CONCURRENT).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    })?;
    table.add(format!("{CONCURRENT} short files at once"), clip_s * CONCURRENT as f64, several);

    bar.clear();
    for warning in engine.warnings() {
        output::say(&format_args!("warning: {warning}"));
    }
    let described = |device: &&DeviceInfo| format!("{} ({}, {})", device.name, device.id, device.api);
    let devices: Vec<String> = engine.devices().iter().map(described).collect();
    let heading = format!("{} on {}\n\n", args.model, devices.join(" and "));
    output::print(&(heading + &output::table(&table.0)))?;
    if engine.catalog().choose_language_model(None).is_ok() {
        output::print(&format!("\nThe language model, on the CPU\n\n{}", output::table(&language_rows(&engine)?)))?;
    }
    Ok(())
}

/// Tokens a second of the language model: reading, one answer, several answers.
fn language_rows(engine: &Engine) -> Result<Vec<Vec<String>>> {
    let options = ChatOptions::default().max_tokens(ANSWER_TOKENS);
    engine.load_chat(&options)?;
    // The time until the first piece of an answer, the time of the rest, and their tokens.
    let answer = |content: String| -> Result<(Duration, Duration, [usize; 2])> {
        let began = Instant::now();
        let mut reply = engine.chat(&[ChatMessage::user(content)], &options)?;
        let first = reply.next().transpose()?;
        let reading = began.elapsed();
        let mut usage = [0; 2];
        for event in first.into_iter().map(Ok).chain(reply) {
            if let auricle_engine::ChatEvent::End(end) = event? {
                usage = [end.usage.prompt_tokens - end.usage.cached_tokens, end.usage.completion_tokens];
            }
        }
        Ok((reading, began.elapsed() - reading, usage))
    };
    let mut rows = vec![["what", "tokens", "time", "tokens/s"].map(String::from).to_vec()];
    let mut add = |what: &str, tokens: usize, work: Duration| {
        let rate = tokens as f64 / work.as_secs_f64().max(1e-9);
        let columns = [what.into(), tokens.to_string(), format!("{:.2} s", work.as_secs_f64()), format!("{rate:.1}")];
        rows.push(columns.to_vec());
    };
    let long = "The committee met on Tuesday and discussed the budget for the coming year. ".repeat(PROMPT_SENTENCES);
    let (reading, _, [prompt, _]) = answer(format!("{long} Why?"))?;
    add("reading a prompt", prompt, reading);
    let (_, writing, [_, written]) = answer("Tell me about the sea.".into())?;
    add("writing one answer", written, writing);
    let began = Instant::now();
    let written = std::thread::scope(|scope| {
        let ask = |number| answer(format!("Tell me {number} things about the sea."));
        let threads: Vec<_> = (0..CONCURRENT_ANSWERS).map(|number| scope.spawn(move || ask(number))).collect();
        threads.into_iter().try_fold(0, |all, thread| match thread.join() {
            Ok(done) => done.map(|(.., [_, written])| all + written),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    add(&format!("{CONCURRENT_ANSWERS} answers at once"), written, began.elapsed());
    Ok(rows)
}

/// The median time of several runs.
fn median<E>(mut work: impl FnMut() -> std::result::Result<(), E>) -> std::result::Result<Duration, E> {
    let times: std::result::Result<Vec<Duration>, E> =
        (0..RUNS).map(|_| timed(&mut work).map(|((), took)| took)).collect();
    let mut times = times?;
    times.sort();
    Ok(times[RUNS / 2])
}

fn timed<T, E>(work: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<(T, Duration), E> {
    let started = Instant::now();
    work().map(|done| (done, started.elapsed()))
}
