//! The starter models within the program, for a program that has been copied or installed to a place of its own.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

/// A file below the models folder: its path and its bytes.
macro_rules! files {
    ($($path:literal)*) => {
        [$(($path, include_bytes!(concat!("../../models/", $path)) as &[u8])),*]
    };
}

static FILES: [(&str, &[u8]); 33] = files! {
    "catalog.toml"
    "samples/jfk.flac"
    "starter/asr-en/confidence.json"
    "starter/asr-en/config.json"
    "starter/asr-en/emission_delay.json"
    "starter/asr-en/generation_config.json"
    "starter/asr-en/model.gguf"
    "starter/asr-en/processor_config.json"
    "starter/asr-en/tokenizer.json"
    "starter/asr-en/tokenizer_config.json"
    "starter/asr-multi/confidence.json"
    "starter/asr-multi/config.json"
    "starter/asr-multi/emission_delay.json"
    "starter/asr-multi/generation_config.json"
    "starter/asr-multi/model-00001-of-00002.gguf"
    "starter/asr-multi/model-00002-of-00002.gguf"
    "starter/asr-multi/tokenizer.json"
    "starter/lm-en/en.ngram"
    "starter/tagger/config.json"
    "starter/tagger/model.gguf"
    "starter/tagger/tokenizer.json"
    "starter/vad/model.safetensors"
    "starter/voice-en/acoustic/config.json"
    "starter/voice-en/acoustic/model.gguf"
    "starter/voice-en/acoustic/vocab.json"
    "starter/voice-en/acoustic/voices.json"
    "starter/voice-en/g2p/config.json"
    "starter/voice-en/g2p/model.gguf"
    "starter/voice-en/vocoder/config.json"
    "starter/voice-en/vocoder/model.gguf"
    "starter/voice/cohort.safetensors"
    "starter/voice/config.json"
    "starter/voice/model.safetensors"
};

/// The models folder where none is named: the one that the engine finds, else the user's own, which this program fills.
pub fn default_folder() -> PathBuf {
    auricle_engine::models_dir().or_else(user_folder).unwrap_or_else(|| "models".into())
}

/// `auricle/models` in the folder for the data of the user's programs; none without a home folder.
fn user_folder() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.data_dir().join("auricle/models"))
}

/// Writes the starters into `folder` if that is the user's own models folder and they are not there. Those of another version go,
/// checkpoints that were fetched into it stay.
///
/// # Errors
/// A line that says which file cannot be written, and what to do.
pub fn prepare(folder: &Path) -> Result<(), String> {
    if auricle_engine::models_dir().is_some() || user_folder().as_deref() != Some(folder) {
        return Ok(());
    }
    let failed = |what: &str, path: &Path, error: io::Error| {
        format!("cannot {what} {}: {error}; name another models folder with --models", path.display())
    };
    let record = folder.join(RECORD);
    if state(folder).is_some_and(|state| std::fs::read_to_string(&record).is_ok_and(|known| known == state)) {
        return Ok(());
    }
    for (path, bytes) in FILES {
        let path = folder.join(path);
        write(&path, bytes).map_err(|error| failed("write the starter model", &path, error))?;
    }
    let remove = |error| failed("remove older starter models from", &folder.join("starter"), error);
    remove_others(folder, "starter").map_err(remove)?;
    // A folder that only another user may write has no record, and is compared at each start.
    let _ = state(folder).map(|state| write(&record, state.as_bytes()));
    Ok(())
}

/// The file with the state in which a program left the folder: a comparison of all bytes would keep them in memory.
const RECORD: &str = ".starters";

/// Length and time of the program and of each file that it holds; none where one is missing.
fn state(folder: &Path) -> Option<String> {
    let line = |path: &Path| {
        let found = path.metadata().ok()?;
        let modified = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}\n", path.display(), found.len(), modified.as_nanos()))
    };
    let program = std::env::current_exe().ok()?;
    std::iter::once(program).chain(FILES.iter().map(|(path, _)| folder.join(path))).map(|path| line(&path)).collect()
}

/// Removes the files of a starter's folder that this program does not hold: of a checkpoint in two forms the older one may be read.
fn remove_others(folder: &Path, below: &str) -> io::Result<()> {
    for entry in std::fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let name = format!("{below}/{file}");
        if entry.file_type()?.is_dir() {
            remove_others(folder, &name)?;
        // Another program that starts now writes its files under hidden names first.
        } else if !file.starts_with('.') && FILES.iter().all(|(path, _)| *path != name) {
            match std::fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Writes a file unless it holds these bytes already. A reader sees the old file or the new one, never a part.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let same_length = path.metadata().is_ok_and(|found| found.len() == bytes.len() as u64);
    if same_length && std::fs::read(path)? == bytes {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file that the catalog's starters need is within the program.
    #[test]
    fn the_program_holds_the_whole_starters() {
        let models = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models"));
        let folders = [
            "asr-en",
            "asr-multi",
            "lm-en",
            "tagger",
            "vad",
            "voice",
            "voice-en/acoustic",
            "voice-en/g2p",
            "voice-en/vocoder",
        ];
        let needed = folders.into_iter().flat_map(|starter| {
            let folder = models.join("starter").join(starter);
            let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.is_file() && path.extension().is_none_or(|extension| extension != "md"))
        });
        for path in needed {
            let name = path.strip_prefix(models).unwrap().to_str().unwrap();
            assert!(FILES.iter().any(|(held, _)| *held == name), "{name}");
        }
    }

    #[test]
    fn what_another_version_wrote_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let names = [
            "starter/asr-en/model.gguf",
            "starter/asr-en/model.safetensors",
            "starter/old/a/config.json",
            "starter/asr-en/.tmp1",
            "mine/config.json",
        ];
        for name in names {
            write(&path(name), b"{}").unwrap();
        }
        remove_others(folder.path(), "starter").unwrap();
        assert_eq!(names.map(|name| path(name).exists()), [true, false, false, true, true]);
    }

    #[test]
    fn the_state_shows_a_file_that_is_missing_or_another() {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in FILES {
            write(&folder.path().join(path), &bytes[..bytes.len().min(9)]).unwrap();
        }
        let before = state(folder.path()).unwrap();
        assert_eq!(state(folder.path()).unwrap(), before);
        let path = folder.path().join("starter/vad/model.safetensors");
        std::fs::write(&path, "as long a").unwrap();
        assert_ne!(state(folder.path()).unwrap(), before, "its time is another");
        std::fs::remove_file(path).unwrap();
        assert_eq!(state(folder.path()), None);
    }

    #[test]
    fn a_file_is_written_once_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        write(&path, b"right").unwrap();
        let written = path.metadata().unwrap().modified().unwrap();
        write(&path, b"right").unwrap();
        assert_eq!(path.metadata().unwrap().modified().unwrap(), written);
        std::fs::write(&path, b"wrong").unwrap();
        write(&path, b"right").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"right");
        assert_eq!(std::fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
    }
}
