//! How often transcripts name the wrong person, and miss the right one.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use auricle_engine::audio::AudioStream;
use auricle_engine::blocking::Engine;
use auricle_engine::unstable::models::voice::VoiceEmbedder;
use auricle_engine::unstable::speakers::clustering::Clustering;
use auricle_engine::unstable::speakers::listener::Listener;
use auricle_engine::unstable::speakers::naming::{DirectedWindow, KnownVoices};
use auricle_engine::unstable::speakers::words::Activity;
use auricle_engine::unstable::vad::shared::SharedVad;
use auricle_engine::{DeviceChoice, EngineOptions};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Device, Tensor, TensorData};
use clap::Parser;

/// Samples of a millisecond.
const SAMPLES: usize = 16;
/// Conversations, and draws of known people for each.
const CONVERSATIONS: usize = 60;
const DRAWS: usize = 3;
/// The level of each speaker of a conversation.
const LEVEL: f32 = 0.05;

/// How often transcripts name the wrong person, and miss the right one
///
/// The set is a folder of sound files named READER-..., with one person each. Readings: some readers are drawn and known by one recording
/// of each; every other recording is a speaker. Conversations: two to four readers read halves of another recording in turn, about
/// half of them are known, with others up to the number. Recordings that are refused as clips are counted. Runs on the CPU, without
/// recognition.
#[derive(Parser)]
#[command(after_help = "Example:
  cargo run --release --bin speaker_names -- librispeech-sample")]
struct Arguments {
    /// Folder of sound files
    set: PathBuf,
    /// Folder of models with catalog.toml
    #[arg(long, default_value = "models")]
    models: PathBuf,
    /// Numbers of known people
    #[arg(long, value_delimiter = ',', default_value = "1,3,10,20")]
    known: Vec<usize>,
    /// Draws of known people for readings, divided by their number
    #[arg(long, default_value_t = 500)]
    draws: usize,
}

/// A recording of a reader, and its direction if it can be a clip.
struct Recording {
    samples: Vec<f32>,
    direction: Option<Vec<f32>>,
}

/// Speech of strangers or of known people, and how it was named.
#[derive(Default)]
struct Named {
    all: f64,
    right: f64,
    wrong: f64,
}

impl Named {
    fn add(&mut self, amount: f64, named: Option<usize>, is: Option<usize>) {
        self.all += amount;
        match named {
            Some(person) if Some(person) == is => self.right += amount,
            Some(_) => self.wrong += amount,
            None => {}
        }
    }

    fn percent(&self, part: f64) -> f64 {
        100.0 * part / self.all.max(f64::MIN_POSITIVE)
    }
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let engine = Engine::open(EngineOptions::default().models(&arguments.models).device(DeviceChoice::Cpu))?;
    let folder = engine.catalog().starter_diarizer().ok_or("the catalog names no diarizer")?;
    let embedder = VoiceEmbedder::load(&folder, &Device::flex(), Precision::Int8)?;
    let readers = read(&arguments.set, &engine)?;
    let mut random = Random(1);
    println!("{:>24} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "strangers", "named %", "known", "missed %", "wrong %");
    for count in &arguments.known {
        let [strangers, known] = readings(&readers, *count, arguments.draws, embedder.cohort(), &mut random);
        print(&format!("readings, {count} known"), &strangers, &known);
    }
    let detector = engine.detector()?;
    let talks: Vec<Talk> = (0..CONVERSATIONS)
        .map(|_| talk(&readers, detector.clone().map(SharedVad::new), &embedder, &mut random))
        .collect::<Result<_, _>>()?;
    for count in &arguments.known {
        let [strangers, known] = conversations(&readers, &talks, *count, embedder.cohort(), &mut random);
        print(&format!("conversations, {count} known"), &strangers, &known);
    }
    Ok(())
}

fn print(what: &str, strangers: &Named, known: &Named) {
    println!(
        "{what:>24} {:>10.0} {:>10.2} {:>10.0} {:>10.1} {:>10.2}",
        strangers.all,
        strangers.percent(strangers.wrong),
        known.all,
        known.percent(known.all - known.right),
        known.percent(known.wrong),
    );
}

/// The readers of a folder.
fn read(set: &Path, engine: &Engine) -> Result<Vec<Vec<Recording>>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(set)?.map(|e| Ok(e?.path())).collect::<Result<_, std::io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension != "tsv"));
    files.sort();
    let mut readers: BTreeMap<String, Vec<Recording>> = BTreeMap::new();
    let (mut short, mut several) = (0, 0);
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let direction = match engine.enroll(AudioStream::open(file)?) {
            Ok(profile) => Some(profile.direction),
            Err(auricle_engine::Error::UnsuitableClip(reason)) => {
                *(if reason.contains("s of speech") { &mut short } else { &mut several }) += 1;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let samples = AudioStream::open(file)?.read_to_end()?;
        let reader = name.split('-').next().unwrap_or_default().to_owned();
        readers.entry(reader).or_default().push(Recording { samples, direction });
    }
    println!(
        "{} recordings of {} readers; as clips {short} are too short, and {several} count as several people",
        files.len(),
        readers.len()
    );
    Ok(readers.into_values().collect())
}

/// Speakers of one recording each.
fn readings(
    readers: &[Vec<Recording>],
    count: usize,
    draws: usize,
    cohort: &[Vec<f32>],
    random: &mut Random,
) -> [Named; 2] {
    let directions = |own: &Vec<Recording>| own.iter().filter_map(|one| one.direction.clone()).collect::<Vec<_>>();
    let people: Vec<Vec<Vec<f32>>> = readers.iter().map(directions).filter(|own| !own.is_empty()).collect();
    let count = count.min(people.len());
    let [mut strangers, mut members] = [Named::default(), Named::default()];
    for _ in 0..draws.div_ceil(count) {
        let chosen = random.distinct(count, people.len());
        let clips: Vec<usize> = chosen.iter().map(|person| random.below(people[*person].len())).collect();
        let known = chosen.iter().zip(&clips).map(|(person, clip)| people[*person][*clip].as_slice());
        let known = KnownVoices::new(known, cohort);
        for (person, recordings) in people.iter().enumerate() {
            let place = chosen.iter().position(|one| *one == person);
            for (clip, direction) in recordings.iter().enumerate() {
                if place.is_some_and(|at| clips[at] == clip) {
                    continue;
                }
                // A speaker of the same direction throughout.
                let windows: Vec<_> = (0..10).map(|at| (at * 500..at * 500 + 500, direction.clone())).collect();
                let activity = [Activity { span: 0..5000, speaker: 0 }];
                let named = known.identify(&windows, &activity).first().map(|(person, _)| *person);
                let kind = if place.is_some() { &mut members } else { &mut strangers };
                kind.add(1.0, named, place);
            }
        }
    }
    [strangers, members]
}

/// A conversation as it is heard.
struct Talk {
    /// The turns of the speakers, in ms.
    turns: Vec<(Range<u64>, usize)>,
    windows: Vec<DirectedWindow>,
    activity: Vec<Activity>,
}

/// The longest recording that can be a clip.
fn clip(recordings: &[Recording]) -> Option<usize> {
    let clips = (0..recordings.len()).filter(|at| recordings[*at].direction.is_some());
    clips.max_by_key(|at| recordings[*at].samples.len())
}

fn talk(
    readers: &[Vec<Recording>],
    detector: Option<SharedVad>,
    embedder: &VoiceEmbedder,
    random: &mut Random,
) -> Result<Talk, Box<dyn Error>> {
    let of_several: Vec<usize> = (0..readers.len()).filter(|at| readers[*at].len() > 1).collect();
    let count = 2 + random.below(3);
    let people = random.distinct(count, of_several.len()).into_iter().map(|at| of_several[at]);
    let voices: Vec<(usize, &[f32])> = people
        .map(|person| {
            let others: Vec<usize> =
                (0..readers[person].len()).filter(|at| Some(*at) != clip(&readers[person])).collect();
            (person, readers[person][others[random.below(others.len())]].samples.as_slice())
        })
        .collect();
    let (mut samples, mut turns): (Vec<f32>, Vec<(Range<u64>, usize)>) = (Vec::new(), Vec::new());
    for half in 0..2 {
        for (person, voice) in &voices {
            let part = if half == 0 { &voice[..voice.len() / 2] } else { &voice[voice.len() / 2..] };
            let power = voice.iter().map(|s| s * s).sum::<f32>() / voice.len() as f32;
            let start = samples.len() / SAMPLES;
            samples.extend(part.iter().map(|s| s * LEVEL / power.sqrt().max(1e-6)));
            turns.push((start as u64..(samples.len() / SAMPLES) as u64, *person));
            let pause = samples.len() + (100 + random.below(700)) * SAMPLES;
            samples.resize(pause, 0.0);
        }
    }
    let mut listener = Listener::new(detector, embedder.stream()?, embedder.mels())?;
    let mut heard = listener.push(&samples)?;
    heard.extend(listener.finish()?);
    let mut clustering = Clustering::new(None);
    let mut windows = Vec::new();
    for window in heard {
        let shape = [1, window.mels.len() / embedder.mels(), embedder.mels()];
        let direction = embedder.embed(Tensor::from_data(TensorData::new(window.mels, shape), &embedder.device()))?;
        clustering.push(&direction);
        windows.push((window.decided.start as u64 * 10..window.decided.end as u64 * 10, direction));
    }
    let activity = windows.iter().zip(clustering.finish());
    let activity = activity.map(|((span, _), speaker)| Activity { span: span.clone(), speaker }).collect();
    Ok(Talk { turns, windows, activity })
}

/// Seconds of speech in conversations.
fn conversations(
    readers: &[Vec<Recording>],
    talks: &[Talk],
    count: usize,
    cohort: &[Vec<f32>],
    random: &mut Random,
) -> [Named; 2] {
    let clips: Vec<Option<&Vec<f32>>> = readers.iter().map(|own| own[clip(own)?].direction.as_ref()).collect();
    let [mut strangers, mut members] = [Named::default(), Named::default()];
    for talk in talks.iter().flat_map(|talk| std::iter::repeat_n(talk, DRAWS)) {
        let order = random.distinct(readers.len(), readers.len());
        let speaks = |person: &usize| talk.turns.iter().any(|(_, speaker)| speaker == person);
        let (inside, outside): (Vec<usize>, Vec<usize>) =
            order.into_iter().filter(|person| clips[*person].is_some()).partition(speaks);
        let mut chosen: Vec<usize> = inside.into_iter().filter(|_| random.below(2) == 0).collect();
        chosen.extend(outside.into_iter().take(count.saturating_sub(chosen.len())));
        let known = KnownVoices::new(chosen.iter().filter_map(|person| clips[*person]).map(Vec::as_slice), cohort);
        let names: BTreeMap<u64, usize> = known
            .identify(&talk.windows, &talk.activity)
            .iter()
            .map(|(at, one)| (one.span.start, chosen[*at]))
            .collect();
        for (span, _) in &talk.windows {
            let overlap =
                |turn: &(Range<u64>, usize)| span.end.min(turn.0.end).saturating_sub(span.start.max(turn.0.start));
            let Some((_, speaker)) =
                talk.turns.iter().filter(|turn| overlap(turn) > 0).max_by_key(|turn| overlap(turn))
            else {
                continue;
            };
            let kind = if chosen.contains(speaker) { &mut members } else { &mut strangers };
            kind.add((span.end - span.start) as f64 / 1e3, names.get(&span.start).copied(), Some(*speaker));
        }
    }
    [strangers, members]
}

/// A generator of numbers that are the same at each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }

    fn distinct(&mut self, count: usize, of: usize) -> Vec<usize> {
        let count = count.min(of);
        let mut all: Vec<usize> = (0..of).collect();
        (0..count).for_each(|at| all.swap(at, at + self.below(of - at)));
        all.truncate(count);
        all
    }
}
