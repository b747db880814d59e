//! The inputs of the command line: files, folders of files, addresses, standard input.

use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use url::Url;

use crate::api::uploads::is_media;

/// Characters of an address's last part that name its output at most.
const STEM_CHARS: usize = 100;

/// A recording.
pub struct Input {
    pub source: Source,
    /// As the command line has it, for messages and JSON; of a file in a folder, with the folder.
    pub name: String,
    /// The name of its output without an ending.
    pub stem: OsString,
    /// Of a file in a folder: its own folder below that one. Its output goes into such a folder, too.
    pub folder: PathBuf,
}

pub enum Source {
    File(PathBuf),
    Address(Url),
    StandardInput,
}

/// How deep a folder is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Its own files.
    Flat,
    /// Those of all folders within, too. Links to folders are not followed: they may lead back.
    Recursive,
}

/// What the command line names.
#[derive(Default)]
pub struct Inputs {
    pub list: Vec<Input>,
    /// What gives nothing: its name, and why.
    pub faults: Vec<(String, String)>,
}

impl Inputs {
    /// In the order of the command line; the files of a folder by their names.
    pub fn find(named: &[PathBuf], depth: Depth) -> Self {
        let mut inputs = Self::default();
        for path in named {
            if path == Path::new("-") {
                let (source, stem) = (Source::StandardInput, "stdin".into());
                inputs.list.push(Input { source, name: "-".into(), stem, folder: PathBuf::new() });
                continue;
            }
            match address(path) {
                Some(Ok(url)) => {
                    let (stem, folder) = (stem_of(&url).into(), PathBuf::new());
                    inputs.list.push(Input { source: Source::Address(url), name: name(path), stem, folder });
                }
                Some(Err(error)) => inputs.faults.push((name(path), format!("the address is not valid: {error}"))),
                None if path.is_dir() => inputs.add_folder(path, depth),
                None => inputs.list.push(Input::file(path.clone(), PathBuf::new())),
            }
        }
        inputs
    }

    /// Those of one folder, none of which may be there.
    pub fn in_folder(path: &Path, depth: Depth) -> Self {
        let mut inputs = Self::default();
        inputs.search(path, Path::new(""), depth);
        inputs
    }

    fn add_folder(&mut self, path: &Path, depth: Depth) {
        let before = (self.list.len(), self.faults.len());
        self.search(path, Path::new(""), depth);
        if before == (self.list.len(), self.faults.len()) {
            let advice = match depth {
                Depth::Flat => "; --recursive searches the folders within, too",
                Depth::Recursive => "",
            };
            self.faults.push((name(path), format!("the folder has no audio or video file{advice}")));
        }
    }

    /// Adds the audio and video files of `below` in `root`. Hidden files and folders are left out.
    fn search(&mut self, root: &Path, below: &Path, depth: Depth) {
        let folder = if below.as_os_str().is_empty() { root.to_owned() } else { root.join(below) };
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<DirEntry>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.faults.push((name(&folder), error.to_string())),
        };
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let (path, file_name) = (entry.path(), entry.file_name());
            let shown = file_name.to_string_lossy();
            if shown.starts_with('.') {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth == Depth::Recursive {
                    self.search(root, &below.join(&file_name), depth);
                }
            } else if is_media(&shown, "") && path.is_file() {
                self.list.push(Input::file(path, below.to_owned()));
            }
        }
    }
}

impl Input {
    fn file(path: PathBuf, folder: PathBuf) -> Self {
        let stem = path.file_stem().map_or_else(|| "transcript".into(), OsString::from);
        Self { name: name(&path), stem, folder, source: Source::File(path) }
    }

    /// The path of a file; none for other sources.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Address(_) | Source::StandardInput => None,
        }
    }
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The address; none for a path.
fn address(path: &Path) -> Option<Result<Url, url::ParseError>> {
    let (text, scheme) = (path.to_str()?, path.to_str()?.split_once("://")?.0);
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then(|| Url::parse(text))
}

/// The last part of an address's path without its ending, as a file may be named; the host for an address without a path.
fn stem_of(url: &Url) -> String {
    let part = url.path_segments().into_iter().flatten().rfind(|part| !part.is_empty()).unwrap_or_default();
    let part = percent_decode_str(part).decode_utf8_lossy();
    let part = part.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = part.rsplit_once('.').map_or(part, |(stem, _)| stem).trim_start_matches('.');
    let stem = if stem.is_empty() { url.host_str().unwrap_or("transcript") } else { stem };
    let is_plain = |letter: char| !letter.is_control() && !r#"/\:*?"<>|"#.contains(letter);
    stem.chars().take(STEM_CHARS).map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_output() {
        for (address, stem) in [
            ("https://example.com/talks/keynote.mp3?token=a.b", "keynote"),
            ("https://example.com/a/b/", "b"),
            ("http://example.com", "example.com"),
            ("http://[::1]:8000/", "[__1]"),
            ("https://example.com/caf%C3%A9%20one.part.ogg", "café one.part"),
            ("https://example.com/..%2F..%2Fetc%2Fpasswd", "passwd"),
            ("https://example.com/a%3Ab%00%5C..%5Cc%3Ad", "c_d"),
            ("https://example.com/.mp3", "example.com"),
        ] {
            assert_eq!(stem_of(&Url::parse(address).unwrap()), stem, "{address}");
        }
        for path in ["ftp://example.com/a.mp3", "c:/a.mp3", "http:a.mp3", "talk.mp3"] {
            assert!(address(Path::new(path)).is_none(), "{path}");
        }
        assert!(address(Path::new("HTTPS://EXAMPLE.com/a.mp3")).is_some_and(|url| url.is_ok()));
        assert!(address(Path::new("http://")).is_some_and(|url| url.is_err()));
    }
}
