//! The destination of transcripts: standard output, or files of each input.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{MAIN_SEPARATOR, Path, PathBuf, is_separator};

use clap::ValueEnum as _;

use super::document::Format;
use super::inputs::Input;
use crate::cli::{Failure, Result, out_file};

/// What happens to outputs that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Replace,
    /// They stay, and are not made again.
    Skip,
}

pub enum Destination {
    StandardOutput(Format),
    /// The files of each input: those that are to be written.
    Files(Vec<Vec<(Format, PathBuf)>>),
}

impl Destination {
    /// Chooses all files before the first is written. `out` is a file if its ending names a format, or if one format is asked for and it has
    /// another ending; a folder otherwise, and also where it is one already or ends in a slash.
    ///
    /// # Errors
    /// [`Failure::Usage`] if `out`, the formats and the inputs do not go together, and [`Failure::Write`] where nothing can be written.
    pub fn plan(out: Option<&Path>, formats: &[Format], inputs: &[Input], existing: Existing) -> Result<Self> {
        let mut asked = Vec::new();
        for format in formats {
            if !asked.contains(format) {
                asked.push(*format);
            }
        }
        let Some(out) = out else {
            return match asked[..] {
                [] => Ok(Self::StandardOutput(Format::Text)),
                [format] => Ok(Self::StandardOutput(format)),
                _ => Err(Failure::Usage("several formats are files: name their folder with --out".into())),
            };
        };
        let mut files = match file_format(out, &asked)? {
            Some(format) => vec![vec![(format, one_file(out, inputs)?)]],
            None if asked.is_empty() => folder(out, &[Format::Text], inputs, existing)?,
            None => folder(out, &asked, inputs, existing)?,
        };
        if existing == Existing::Skip {
            files.iter_mut().for_each(|files| files.retain(|(_, path)| !path.exists()));
        }
        Ok(Self::Files(files))
    }

    /// # Errors
    /// [`Failure::Usage`] unless `out` is a folder.
    pub fn check_is_folder(out: &Path, formats: &[Format]) -> Result<()> {
        match file_format(out, formats)? {
            None => Ok(()),
            Some(_) => {
                let reason = format!("--out {}: it is one file, and each recording has its own", out.display());
                Err(Failure::Usage(format!("{reason}: name a folder, which ends in {MAIN_SEPARATOR}")))
            }
        }
    }
}

/// The formats that `out` and the command line name.
///
/// # Errors
/// [`Failure::Usage`] if `out` is a file whose ending names none.
pub fn formats(out: Option<&Path>, asked: &[Format]) -> Result<Vec<Format>> {
    match out {
        _ if !asked.is_empty() => Ok(asked.to_vec()),
        Some(out) => Ok(vec![file_format(out, &[])?.unwrap_or(Format::Text)]),
        None => Ok(vec![Format::Text]),
    }
}

/// The format of `out` if that is a file; none for a folder.
fn file_format(out: &Path, asked: &[Format]) -> Result<Option<Format>> {
    let wrong = |reason: String| Err(Failure::Usage(format!("--out {}: {reason}", out.display())));
    let Some(ending) = out.extension().filter(|_| !out.is_dir() && !out.to_string_lossy().ends_with(is_separator))
    else {
        return Ok(None);
    };
    let named = Format::value_variants().iter().copied().find(|format| ending.eq_ignore_ascii_case(format.extension()));
    match (named, asked) {
        (_, [_, _, ..]) => wrong(format!("several formats are several files: a folder ends in {MAIN_SEPARATOR}")),
        (Some(named), [asked]) if named != *asked => {
            let (named, asked) = (named.extension(), asked.extension());
            wrong(format!("its ending is {named}, and --format asks for {asked}: name one of them"))
        }
        (Some(named), _) => Ok(Some(named)),
        (None, [asked]) => Ok(Some(*asked)),
        (None, []) => {
            let known: Vec<&str> = Format::value_variants().iter().map(|format| format.extension()).collect();
            let known = known.join(", ");
            wrong(format!("the ending of a file names its format, one of {known}; a folder ends in {MAIN_SEPARATOR}"))
        }
    }
}

/// The one file of one input.
fn one_file(out: &Path, inputs: &[Input]) -> Result<PathBuf> {
    let wrong = |reason: String| Err(Failure::Usage(format!("--out {}: {reason}", out.display())));
    if inputs.len() > 1 {
        let count = inputs.len();
        return wrong(format!("it is one file for {count} inputs: name a folder, which ends in {MAIN_SEPARATOR}"));
    }
    let place = out.canonicalize();
    let is_place = |path: &Path| matches!((path.canonicalize(), &place), (Ok(path), Ok(place)) if path == *place);
    if inputs.iter().filter_map(Input::path).any(is_place) {
        return wrong("it is the input itself".into());
    }
    // A device is written as it is.
    if place.is_err() || out.is_file() {
        check_folder(out_file::folder_of(place.as_deref().unwrap_or(out)), out)?;
    }
    Ok(out.to_owned())
}

/// `STEM.txt` (`.json`, `.srt` and so on) for every input. A repeated stem becomes `STEM-2`, `STEM-3` and so on. No output replaces an input.
fn folder(out: &Path, formats: &[Format], inputs: &[Input], existing: Existing) -> Result<Vec<Vec<(Format, PathBuf)>>> {
    let failed = |source| Failure::Write { what: format!("to {}", out.display()), source };
    fs::create_dir_all(out).map_err(failed)?;
    check_folder(out, out)?;
    let sources: HashSet<PathBuf> = inputs.iter().filter_map(|input| input.path()?.canonicalize().ok()).collect();
    let mut taken: HashMap<String, &Input> = HashMap::new();
    let mut files = Vec::with_capacity(inputs.len());
    for input in inputs {
        let mut number = 1;
        let paths = loop {
            let mut stem = input.stem.clone();
            if number > 1 {
                stem.push(format!("-{number}"));
            }
            let base = out.join(&input.folder).join(stem);
            // Some file systems treat "Talk" and "talk" as the same name.
            let folded = base.to_string_lossy().to_lowercase();
            let paths = formats.iter().map(|format| {
                let mut path = base.clone().into_os_string();
                path.push(format!(".{}", format.extension()));
                (*format, PathBuf::from(path))
            });
            let paths: Vec<_> = paths.collect();
            let is_source = |path: &PathBuf| path.canonicalize().is_ok_and(|path| sources.contains(&path));
            match taken.get(&folded) {
                // Which of the two an output is of depends on the others that were there when it was made.
                Some(other) if existing == Existing::Skip => {
                    return Err(Failure::Usage(format!(
                        "{} and {} have outputs of one name, which --skip-existing cannot tell apart: do them one after the other, \
                         each with its own --out",
                        other.name, input.name
                    )));
                }
                None if !paths.iter().any(|(_, path)| is_source(path)) => {
                    taken.insert(folded, input);
                    break paths;
                }
                _ => number += 1,
            }
        };
        files.push(paths);
    }
    Ok(files)
}

/// Checks that files can be made in `folder`: before the work, which may be long.
fn check_folder(folder: &Path, out: &Path) -> Result<()> {
    let failed = |source| Failure::Write { what: format!("to {}", out.display()), source };
    out_file::check_folder(folder).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::super::inputs::Source;
    use super::*;

    fn inputs(paths: &[&str]) -> Vec<Input> {
        let input = |path: &&str| Input {
            source: Source::File(path.into()),
            name: (*path).into(),
            stem: Path::new(path).file_stem().unwrap().into(),
            folder: PathBuf::new(),
        };
        paths.iter().map(input).collect()
    }

    fn files(out: &Path, formats: &[Format], inputs: &[Input], existing: Existing) -> Result<Vec<Vec<String>>, String> {
        match Destination::plan(Some(out), formats, inputs, existing) {
            Ok(Destination::Files(files)) => {
                let name = |(_, path): &(Format, PathBuf)| path.file_name().map(OsStr::to_string_lossy).unwrap().into();
                Ok(files.iter().map(|files| files.iter().map(name).collect()).collect())
            }
            Ok(Destination::StandardOutput(_)) => Err("standard output".into()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn inputs_of_one_stem_get_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = inputs(&["a/talk.mp3", "b/Talk.wav", "talk-2.ogg"]);
        let planned = files(dir.path(), &[Format::Srt, Format::Json, Format::Srt], &inputs, Existing::Replace).unwrap();
        assert_eq!(
            planned,
            [["talk.srt", "talk.json"], ["Talk-2.srt", "Talk-2.json"], ["talk-2-2.srt", "talk-2-2.json"]]
        );
        let refused = files(dir.path(), &[Format::Srt], &inputs, Existing::Skip).unwrap_err();
        assert!(refused.contains("a/talk.mp3 and b/Talk.wav"), "{refused}");
    }

    #[test]
    fn a_result_never_replaces_an_input() {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("talk.srt");
        fs::write(&input, "audio under a wrong name").unwrap();
        let of = inputs(&[input.to_str().unwrap()]);
        assert_eq!(files(dir.path(), &[Format::Srt], &of, Existing::Replace).unwrap(), [["talk-2.srt"]]);
        assert!(files(&input, &[], &of, Existing::Replace).unwrap_err().contains("the input itself"));
    }

    #[test]
    fn the_ending_of_out_and_the_formats_decide() {
        let dir = tempfile::tempdir().unwrap();
        let talk = inputs(&["talk.mp3"]);
        let plan = |out: &str, formats: &[Format]| files(&dir.path().join(out), formats, &talk, Existing::Replace);
        assert_eq!(plan("a.srt", &[]).unwrap(), [["a.srt"]]);
        assert_eq!(plan("A.VTT", &[Format::Vtt]).unwrap(), [["A.VTT"]]);
        assert_eq!(plan("notes.log", &[Format::Text]).unwrap(), [["notes.log"]]);
        assert_eq!(plan("notes.md", &[]).unwrap(), [["notes.md"]]);
        assert_eq!(plan("folder/", &[Format::Lrc, Format::Csv]).unwrap(), [["talk.lrc", "talk.csv"]]);
        assert_eq!(plan("folder", &[]).unwrap(), [["talk.txt"]]);
        assert_eq!(plan("folder.srt/", &[Format::Json]).unwrap(), [["talk.json"]]);
        assert_eq!(plan("folder.srt", &[]).unwrap(), [["talk.txt"]], "it is there");
        for (out, formats, reason) in [
            ("a.srt", &[Format::Json][..], "its ending is srt, and --format asks for json"),
            ("a.doc", &[], "one of txt, json, srt, vtt, tsv, csv, lrc, md;"),
            ("notes.md", &[Format::Text], "its ending is md, and --format asks for txt"),
            ("a.srt", &[Format::Srt, Format::Json], "several files"),
            ("none/a.srt", &[], "cannot write to"),
        ] {
            let refused = plan(out, formats).unwrap_err();
            assert!(refused.contains(reason), "{out}: {refused}");
        }
    }
}
