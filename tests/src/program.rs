//! The real binary, started as a user starts it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A run of `auricle` that has ended.
pub struct Run {
    /// The exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `auricle` with these arguments, nothing on its standard input.
pub fn auricle<A: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    ended(command().args(args).stdin(Stdio::null()).output().expect("auricle starts"))
}

/// The result of an ended process.
pub fn ended(output: Output) -> Run {
    Run {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    }
}

/// The command `auricle` without this machine's `AURICLE_*` variables.
pub fn command() -> Command {
    command_of(binary())
}

/// [`command`] of a copy of the program.
pub fn command_of(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AURICLE_")) {
        command.env_remove(name);
    }
    // The user's own models folder, which the program fills.
    command.env("XDG_DATA_HOME", binary().with_file_name("data-home"));
    command
}

/// The command under a limit of open files, in the words of `ulimit`: `-n 300`, or `-Sn 64` for the soft limit alone.
pub(crate) fn command_with_open_files(limit: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]).arg(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AURICLE_")) {
        shell.env_remove(name);
    }
    shell
}

/// The program: `AURICLE_BIN`, else what cargo builds with the profile that this test was built with.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("AURICLE_BIN") {
        Some(named) => named.into(),
        None => built("auricle"),
    })
}

/// Builds a program of the workspace. Always asked for: cargo knows whether the one that is there is of these sources.
fn built(name: &str) -> PathBuf {
    // A test is target/release/deps/cli-0123456789abcdef, a load tool target/release/live_load.
    let this = std::env::current_exe().expect("a program knows its path");
    let folder = this.parent().expect("a program is in a folder");
    let folder = if folder.ends_with("deps") { folder.parent().expect("deps is in target/PROFILE") } else { folder };
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    // With the features of the whole workspace, as the checks build it: those of one package alone would compile burn a
    // second time.
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells a test of its own package would be news to build scripts, and what they build be built anew.
    for (name, _) in std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    }) {
        cargo.env_remove(name);
    }
    let built = cargo
        .args(["build", "--quiet", "--workspace", "--bin", name, "--profile", profile])
        .args(if cfg!(feature = "webrtc") { &["--features", "webrtc"][..] } else { &[] })
        .current_dir(crate::repository())
        .env("CARGO_TARGET_DIR", folder.parent().expect("target/PROFILE"))
        .status()
        .expect("cargo starts");
    assert!(built.success(), "{name} does not build");
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// A models folder in which `svc-best` is the tiny streaming checkpoint of the fixtures: quick, and its words are nonsense.
pub fn tiny_models() -> TempDir {
    models_with("streaming")
}

/// A models folder in which `svc-best` is a checkpoint of the fixtures.
pub fn models_with(fixture: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = crate::fixtures().join("fastconformer").join(fixture);
    let catalog = format!(
        "[[model]]\nid = \"svc-best\"\nkind = \"prerecorded\"\npublished = \"somebody/something\"\n\
         folder = \"something\"\nlanguages = [\"en\", \"de\"]\nstarter = {checkpoint:?}\nstarter_languages = [\"en\"]\n"
    );
    std::fs::write(dir.path().join("catalog.toml"), catalog).expect("the catalog is written");
    dir
}

/// A models folder as of [`models_with`], whose catalog names the detector of the fixtures, which has random weights.
pub fn models_with_detector(fixture: &str) -> TempDir {
    let dir = models_with(fixture);
    let path = dir.path().join("catalog.toml");
    let detector = crate::fixtures().join("silero");
    let entry = format!("[detector]\npublished = \"somebody/something\"\nfolder = \"none\"\nstarter = {detector:?}\n");
    let catalog = std::fs::read_to_string(&path).expect("the catalog was written") + &entry;
    std::fs::write(path, catalog).expect("the catalog is written");
    dir
}

/// A models folder with the starters for English files, and this folder in the place of the published diarizer.
pub fn models_with_diarizer(diarizer: &Path) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let starter = |name: &str| models().join("starter").join(name);
    let catalog = format!(
        "[[model]]\nid = \"svc-best\"\nkind = \"prerecorded\"\npublished = \"somebody/something\"\nfolder = \"none\"\n\
         languages = [\"en\"]\nstarter = {:?}\nstarter_languages = [\"en\"]\n\
         [detector]\npublished = \"somebody/something\"\nfolder = \"none\"\nstarter = {:?}\n\
         [diarizer]\npublished = \"somebody/something\"\nfolder = {diarizer:?}\nstarter = {:?}\n",
        starter("asr-en"),
        starter("vad"),
        starter("voice"),
    );
    std::fs::write(dir.path().join("catalog.toml"), catalog).expect("the catalog is written");
    dir
}

/// The repository's models folder, with the starters.
pub fn models() -> PathBuf {
    crate::fixtures().join("../../models")
}

/// The recording of eleven seconds of speech that ships with the models.
pub fn speech() -> PathBuf {
    models().join("samples/jfk.flac")
}

/// A unigram language model as ARPA text: these words are likely, all others are not.
pub fn arpa(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("-0.5\t{word}\n")).collect();
    let count = words.lines().count() + 1;
    format!("\\data\\\nngram 1={count}\n\n\\1-grams:\n-9\t<unk>\n{words}\n\\end\\\n")
}
