//! A folder whose recordings are transcribed as they come. It is read again and again, which works on every file system, shared
//! ones too.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::batch::{Batch, Outcome};
use super::destination::{Destination, Existing};
use super::document::Format;
use super::inputs::{Depth, Input, Inputs};
use crate::cli::{Failure, Result, output};

/// The least time between two looks at the folder. A look at a large one may take long, and the pause is then longer, too.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause as a multiple of the time of a look.
const PAUSES_PER_LOOK: u32 = 10;
/// A file whose size and time of change have stood still for so long is whole.
const STILL: Duration = Duration::from_secs(2);

/// A folder that is watched, and its outputs.
pub struct Watch<'a> {
    pub folder: &'a Path,
    pub depth: Depth,
    pub out: &'a Path,
    pub formats: &'a [Format],
    seen: HashMap<PathBuf, Seen>,
    /// The recording that has the outputs of a name. Those of two would replace each other.
    owners: HashMap<String, PathBuf>,
    /// Faults that have been reported.
    faults: HashSet<(String, String)>,
}

/// A state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    bytes: u64,
    modified: Option<SystemTime>,
    /// The time of the last change, permissions included, where the system has it.
    changed: Option<(i64, i64)>,
}

struct Seen {
    state: State,
    since: Instant,
    /// The state in which it was transcribed, or failed.
    done: Option<(State, Outcome)>,
}

impl Seen {
    /// True if there is something to do: it is whole, and not done.
    fn is_ready(&self, now: Instant) -> bool {
        let State { bytes, modified, .. } = self.state;
        let is_done = match self.done {
            Some((state, Outcome::Done)) => (state.bytes, state.modified) == (bytes, modified),
            Some((state, _)) => state == self.state,
            None => false,
        };
        bytes > 0 && !is_done && now.saturating_duration_since(self.since) >= STILL
    }
}

impl<'a> Watch<'a> {
    /// # Errors
    /// [`Failure::Usage`] if `folder` is no folder, or `out` is a file.
    pub fn new(folder: &'a Path, depth: Depth, out: &'a Path, formats: &'a [Format]) -> Result<Self> {
        let metadata = fs::metadata(folder);
        match metadata {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(Failure::Usage(format!("--watch {}: it is not a folder", folder.display()))),
            Err(error) => return Err(Failure::Usage(format!("--watch {}: {error}", folder.display()))),
        }
        Destination::check_is_folder(out, formats)?;
        Ok(Self { folder, depth, out, formats, seen: HashMap::new(), owners: HashMap::new(), faults: HashSet::new() })
    }

    /// Transcribes what is there and what comes, until a signal ends the process.
    ///
    /// # Errors
    /// A failure that is not of one recording alone, such as a broken checkpoint.
    pub fn run(mut self, batch: &mut Batch<'_>) -> Result<()> {
        if !batch.job.is_silent() {
            output::say(&format_args!("watching {}; Ctrl-C ends it", self.folder.display()));
        }
        loop {
            let began = Instant::now();
            let ready = self.look();
            let pause = INTERVAL.max(began.elapsed() * PAUSES_PER_LOOK);
            for input in &ready {
                self.transcribe(input, batch)?;
            }
            std::thread::sleep(pause);
        }
    }

    /// The recordings that are whole and not done.
    fn look(&mut self) -> Vec<Input> {
        let found = Inputs::in_folder(self.folder, self.depth);
        let faults: HashSet<(String, String)> = found.faults.into_iter().collect();
        for (name, reason) in faults.difference(&self.faults) {
            output::fault(name, reason);
        }
        let is_complete = faults.is_empty();
        self.faults = faults;
        let now = Instant::now();
        let here: HashSet<PathBuf> = found.list.iter().filter_map(|input| Some(input.path()?.to_owned())).collect();
        // A folder that cannot be read has not lost its files.
        if is_complete {
            self.seen.retain(|path, _| here.contains(path));
            self.owners.retain(|_, path| here.contains(path));
        }
        let mut ready = Vec::new();
        for input in found.list {
            let Some(path) = input.path().map(Path::to_owned) else { continue };
            // One that is gone since the folder was read is seen as gone at the next look.
            let Some(state) = state_of(&path) else { continue };
            let seen = self.seen.entry(path.clone()).or_insert(Seen { state, since: now, done: None });
            if seen.state != state {
                (seen.state, seen.since) = (state, now);
            }
            let output = input.folder.join(&input.stem).to_string_lossy().to_lowercase();
            let owner = self.owners.entry(output).or_insert_with(|| path.clone());
            if !seen.is_ready(now) {
                continue;
            }
            if *owner == path {
                ready.push(input);
            } else {
                let reason = format!("its outputs would have the names of those of {}: rename it", owner.display());
                output::fault(&input.name, &reason);
                seen.done = Some((state, Outcome::Failed));
            }
        }
        ready
    }

    fn transcribe(&mut self, input: &Input, batch: &mut Batch<'_>) -> Result<()> {
        let Some(seen) = input.path().and_then(|path| self.seen.get_mut(path)) else { return Ok(()) };
        let state = seen.state;
        // Outputs of an earlier run stay; those of an earlier state of the file are replaced.
        let existing = if seen.done.is_none() { Existing::Skip } else { Existing::Replace };
        let destination = Destination::plan(Some(self.out), self.formats, std::slice::from_ref(input), existing)?;
        let Destination::Files(mut files) = destination else { return Ok(()) };
        let files = files.pop().unwrap_or_default();
        if files.is_empty() {
            seen.done = Some((state, Outcome::Done));
            return Ok(());
        }
        let is_another = || input.path().and_then(state_of) != Some(state);
        let outcome = batch.write_files(input, &files, is_another)?;
        // A failure may come of a file that is half written: it is reported as it stands still again.
        if outcome != Outcome::Changed {
            seen.done = Some((state, outcome));
        }
        Ok(())
    }
}

fn state_of(path: &Path) -> Option<State> {
    let metadata = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt as _;
        Some((metadata.ctime(), metadata.ctime_nsec()))
    };
    #[cfg(not(unix))]
    let changed = None;
    Some(State { bytes: metadata.len(), modified: metadata.modified().ok(), changed })
}
