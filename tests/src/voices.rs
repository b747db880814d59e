//! A voice of random weights.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A folder of a voice whose networks are tiny and random: its speech is noise. Its voices are ann, zed and bob.
pub fn tiny_voice() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write_tiny_voice(dir.path());
    dir
}

/// Writes the voice of [`tiny_voice`] into a folder.
pub fn write_tiny_voice(dir: &Path) {
    for (part, fixture) in [("acoustic", "fastspeech2"), ("vocoder", "vocos"), ("g2p", "bert/g2p")] {
        let to = dir.join(part);
        fs::create_dir_all(&to).expect("a folder is made");
        let files = fs::read_dir(crate::fixtures().join(fixture)).expect("the fixture is there");
        for file in files.map(|file| file.expect("a file").path()) {
            let name = file.file_name().expect("a file has a name");
            if !name.to_string_lossy().starts_with("oracle") {
                fs::copy(&file, to.join(name)).expect("a file is copied");
            }
        }
    }
}

/// Writes a voice that gives a frame at a time, tiny and random, into a folder. Its voices are ann and bob.
pub fn write_frame_voice(dir: &Path) {
    fs::create_dir_all(dir).expect("a folder is made");
    crate::oracle::copy_folder(&crate::fixtures().join("pocket_tts/pocket"), dir);
}

/// Writes a voice that says a clause at once, tiny and random, into a folder. Its voices are af_ann and bm_bob, and ff_other, which speaks
/// French.
pub fn write_clause_voice(dir: &Path) {
    fs::create_dir_all(dir).expect("a folder is made");
    crate::oracle::copy_folder(&crate::fixtures().join("kokoro"), dir);
}
