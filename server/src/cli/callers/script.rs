//! The words of a simulated caller and their times.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::audio::{AudioStream, RateConversion, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{Error, SpeakOptions};

use super::room::samples;
use crate::cli::talk::call::RATE;
use crate::cli::{Failure, Result};

/// The greeting of the agent: long enough to be spoken over.
pub const GREETING: &str = "Good morning, and welcome to the mill of the valley. We grind wheat, rye and oats on every day of the week but \
                            Sunday, from eight in the morning until the sun goes down. Our bread is baked in the village, and you may \
                            order it here as well. The road to us goes along the river, past the old church and over the wooden bridge. \
                            Please tell me now how I can help you.";

/// Sentences of one turn.
const SENTENCES: &[&str] = &[
    "What time does the train leave tomorrow?",
    "Please tell me about the weather in the mountains.",
    "I would like to hear a story about the sea.",
    "How many people live in the village?",
    "Can you explain this to me again?",
    "Where did the old man go after the war?",
];

/// Sentences with a pause in a place where everybody hears that more will come.
const PAUSED: &[[&str; 2]] = &[
    ["I would like to go to the", "house beside the river."],
    ["Tell me something about the", "people of the village."],
    ["We want to know the name of the", "man who came to the door."],
    ["Can you send a letter to my", "mother in the country?"],
];

/// Words of a listener.
const BACKCHANNELS: &[&str] = &["Yeah.", "Okay.", "Right.", "Uh-huh."];

/// Words that interrupt.
const INTERRUPTIONS: &[&str] = &["Wait, I have another question.", "Stop, that is not what I want."];

/// Length of the pause within a sentence, ms.
pub const PAUSE_MS: usize = 1_000;
/// Energy below which the beginning and the end of a rendered line are silent, relative to its loudest 10 ms.
const SILENCE: f32 = 1e-3;

/// A line as the microphone hears it: no silence before and after it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its text, or the name of its file.
    pub name: Arc<str>,
    pub samples: Arc<[i16]>,
}

/// Something that the caller does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Waits until the agent has said all.
    Listen,
    /// Says a line, and waits for a reply.
    Say(Line),
    /// Says the first line, pauses, says the second, and waits for a reply.
    SayWithPause([Line; 2]),
    /// Says a word that means "I listen", while the agent speaks.
    Backchannel(Line),
    /// Interrupts the agent, and waits for a reply.
    Interrupt(Line),
}

/// All lines of the callers.
pub struct Lines {
    sentences: Vec<Line>,
    paused: Vec<[Line; 2]>,
    backchannels: Vec<Line>,
    interruptions: Vec<Line>,
}

impl Lines {
    /// Lets the engine's last voice say all lines: the agent speaks with the first one. Recordings in the folders `sentences`,
    /// `backchannels` and `interruptions` of `recorded` take the places of the lines of their kind.
    ///
    /// # Errors
    /// If there is no voice, none of these folders has a file, or one of the files is no recording.
    pub fn prepare(engine: &Engine, recorded: Option<&Path>) -> Result<Self> {
        let files = |kind| recorded.map_or(Ok(Vec::new()), |folder| files_of(&folder.join(kind)));
        let (sentences, backchannels, interruptions) =
            (files("sentences")?, files("backchannels")?, files("interruptions")?);
        if let Some(folder) = recorded
            && [&sentences, &backchannels, &interruptions].iter().all(|files| files.is_empty())
        {
            let folder = folder.display();
            let message = format!("{folder} has no recordings in sentences, backchannels or interruptions");
            return Err(Failure::Usage(message));
        }
        let mut options = SpeakOptions::default();
        options.voice = engine.voices(&options)?.pop().map(|voice| voice.id);
        let say = |text: &&str| say(engine, &options, text);
        let lines = |files: Vec<PathBuf>, texts: &[&str]| -> Result<Vec<Line>> {
            if files.is_empty() {
                texts.iter().map(say).collect()
            } else {
                files.iter().map(|path| read(path)).collect()
            }
        };
        Ok(Self {
            sentences: lines(sentences, SENTENCES)?,
            paused: PAUSED.iter().map(|[first, second]| Ok([say(first)?, say(second)?])).collect::<Result<_>>()?,
            backchannels: lines(backchannels, BACKCHANNELS)?,
            interruptions: lines(interruptions, INTERRUPTIONS)?,
        })
    }

    /// The acts of a call: over the greeting an interruption, or in every second call two backchannels; then turns, every third with a
    /// pause.
    pub fn acts(&self, call: usize, turns: usize) -> Vec<Act> {
        let mut acts = Vec::new();
        if call.is_multiple_of(2) {
            acts.extend(nth(&self.interruptions, call / 2).map(Act::Interrupt));
        } else {
            acts.extend((call - 1..=call).filter_map(|number| nth(&self.backchannels, number).map(Act::Backchannel)));
        }
        acts.push(Act::Listen);
        for turn in 0..turns {
            acts.extend(match turn % 3 {
                1 => nth(&self.paused, call + turn / 3).map(Act::SayWithPause),
                _ => nth(&self.sentences, call * turns + turn).map(Act::Say),
            });
            acts.push(Act::Listen);
        }
        acts
    }
}

fn nth<T: Clone>(all: &[T], number: usize) -> Option<T> {
    all.get(number % all.len().max(1)).cloned()
}

fn say(engine: &Engine, options: &SpeakOptions, text: &str) -> Result<Line> {
    let (mut input, speech) = engine.speak(options)?;
    input.push(text)?;
    input.finish();
    let mut spoken: Vec<i16> = Vec::new();
    for frame in speech {
        spoken.extend(frame?.samples.iter().map(to_i16));
    }
    Ok(Line { name: text.into(), samples: trimmed(&spoken).into() })
}

/// The files of a folder by their names; none if there is no such folder.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let entries = entries.map_err(|error| Failure::Usage(format!("{}: {error}", folder.display())))?;
    let mut files: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

/// A recorded line.
fn read(path: &Path) -> Result<Line> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut conversion = RateConversion::new(SAMPLE_RATE, RATE)?;
    let mut converted = conversion.push(&AudioStream::open(path)?.read_to_end()?)?;
    converted.extend(conversion.finish()?);
    let spoken: Vec<i16> = converted.iter().map(to_i16).collect();
    let samples: Arc<[i16]> = trimmed(&spoken).into();
    if samples.is_empty() {
        return Err(Error::InvalidOption(format!("{}: a line of a caller needs sound", path.display())).into());
    }
    Ok(Line { name: name.into(), samples })
}

fn to_i16(sample: &f32) -> i16 {
    (sample.clamp(-1.0, 1.0) * 32_767.0) as i16
}

/// A line without the silence before and after it.
fn trimmed(line: &[i16]) -> &[i16] {
    let step = samples(10);
    let energy: Vec<f32> = line.chunks(step).map(|part| part.iter().map(|s| f32::from(*s).powi(2)).sum()).collect();
    let loudest = energy.iter().copied().fold(0.0, f32::max);
    let is_loud = |energy: &f32| *energy > loudest * SILENCE;
    match (energy.iter().position(is_loud), energy.iter().rposition(is_loud)) {
        (Some(first), Some(last)) => &line[first * step..((last + 1) * step).min(line.len())],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_around_a_line_is_cut_off() {
        let mut line = vec![0_i16; samples(100)];
        line.extend(vec![9_000; samples(50)]);
        line.extend(vec![3; samples(200)]);
        assert_eq!(trimmed(&line).len(), samples(50));
        assert_eq!(trimmed(&[0; 480]).len(), 0);
    }
}
