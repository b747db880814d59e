//! A folder for a test of `auricle transcribe`, and how the program is run there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use auricle_tests::{Run, command, ended, speech, tiny_models};
use serde_json::Value;
use tempfile::TempDir;

/// A folder for the test's files, and the models folder.
pub struct Place {
    pub dir: TempDir,
    pub models: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), models: tiny_models() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A copy of the speech sample under another name.
    pub fn speech(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(speech(), &path).unwrap();
        path
    }

    /// A text file with a media file's name.
    pub fn text(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, "Dear diary, today I was named like a recording.\n").unwrap();
        path
    }

    pub fn transcribe(&self, args: &[&str], files: &[&Path]) -> Run {
        ended(self.command(args, files).stdin(Stdio::null()).output().unwrap())
    }

    pub fn command(&self, args: &[&str], files: &[&Path]) -> Command {
        let mut command = command();
        command.args(["transcribe", "--device", "cpu", "--models"]).arg(self.models.path()).args(args).args(files);
        command
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The lines of standard error, each of which must begin with the program's name.
pub fn messages(run: &Run) -> Vec<&str> {
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("auricle: ")), "{}", run.stderr);
    lines
}
