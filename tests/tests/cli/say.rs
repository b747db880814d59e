//! `auricle say` and `auricle voices`: a voice with random weights, so that its speech is noise of a plausible length.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use auricle_engine::audio::{AudioStream, ffmpeg_program};
use auricle_tests::{
    Run, SmallDisk, auricle, command, devices, ended, write_clause_voice, write_frame_voice, write_tiny_voice,
};
use tempfile::TempDir;

/// A models folder with the tiny voice alone.
fn models() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_tiny_voice(&dir.path().join("voice"));
    let catalog = "[[voice]]\nid = \"tiny\"\nstarter = \"voice\"\nlanguage = \"en\"\ndefault_voice = \"zed\"\n";
    std::fs::write(dir.path().join("catalog.toml"), catalog).unwrap();
    dir
}

fn say(models: &Path, args: &[&str]) -> Run {
    let mut all = vec!["say", "--device", "cpu", "--models", models.to_str().unwrap()];
    all.extend(args);
    auricle(all)
}

/// Samples of a WAV file of 16 bits at 24 kHz.
fn samples(path: &Path) -> Vec<i16> {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!((&bytes[..4], &bytes[8..16]), (b"RIFF".as_slice(), b"WAVEfmt ".as_slice()));
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((number(4) as usize, number(24), number(40) as usize), (bytes.len() - 8, 24_000, bytes.len() - 44));
    bytes[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

#[test]
fn a_text_becomes_a_wav_file() {
    let models = models();
    let path = models.path().join("said.wav");
    let to = path.to_str().unwrap();
    let run = say(models.path(), &["Good", "morning.", "-o", to]);
    assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""));
    let said = samples(&path);
    assert!(said.len() > 1_000 && said.iter().any(|sample| sample.abs() > 1_000), "{}", said.len());
    // A text of several words in quotes is the same; slower speech is longer; another voice is another.
    assert_eq!(say(models.path(), &["Good morning.", "-o", to]).status, Some(0));
    assert_eq!(samples(&path), said);
    assert_eq!(say(models.path(), &["Good morning.", "--speed", "0.5", "-o", to]).status, Some(0));
    assert!(samples(&path).len() > said.len() * 3 / 2);
    assert_eq!(say(models.path(), &["Good morning.", "--voice", "bob", "-o", to]).status, Some(0));
    assert_ne!(samples(&path), said);
    assert_eq!(say(models.path(), &["Good morning.", "--voice", "zed", "-o", to]).status, Some(0));
    assert_eq!(samples(&path), said, "the catalog's default voice");
}

#[test]
fn the_text_that_is_said_is_shown_without_a_voice() {
    let models = models();
    // A voice that cannot be loaded is listed all the same.
    for part in ["acoustic", "vocoder"] {
        std::fs::write(models.path().join("voice").join(part).join("model.safetensors"), "no weights").unwrap();
    }
    assert_ne!(say(models.path(), &["Good morning.", "-o", "-"]).status, Some(0));
    let run = say(models.path(), &["--show-text", "On Mar. 14 it cost $5.20. The BBC's was 1.7B."]);
    let expected =
        "on march fourteenth it cost five dollars and twenty cents.\nthe B B C's was one point seven billion.\n";
    assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (Some(0), expected, ""));
    let none = say(models.path(), &["--show-text", "***"]);
    assert!(none.status == Some(1) && none.stdout.is_empty() && none.stderr.contains("nothing to say"));
    let both = say(models.path(), &["--show-text", "Good morning.", "-o", "said.wav"]);
    assert_eq!(both.status, Some(2));
    let unknown = say(models.path(), &["--show-text", "Good morning.", "--voice", "unknown"]);
    assert_ne!(unknown.status, Some(0));
}

#[test]
fn a_file_has_the_format_of_its_ending() {
    let models = models();
    let file = |name: &str| models.path().join(name);
    let said = |name: &str| say(models.path(), &["Good morning.", "-o", file(name).to_str().unwrap()]);
    assert_eq!(said("said.WAV").status, Some(0));
    let whole = samples(&file("said.WAV")).len() as f64 / 24_000.0;
    assert_eq!(said("said.pcm").status, Some(0));
    assert_eq!(std::fs::read(file("said.pcm")).unwrap(), std::fs::read(file("said.WAV")).unwrap()[44..]);
    let unknown = said("said.xyz");
    assert!(unknown.status == Some(2) && unknown.stderr.contains("mp3, opus"), "{}", unknown.stderr);
    assert!(!file("said.xyz").exists());
    let mut without = command();
    without.env("AURICLE_FFMPEG", "/no/such/ffmpeg").args(["say", "--device", "cpu", "Good morning.", "--models"]);
    let without = ended(without.arg(models.path()).arg("-o").arg(file("other.mp3")).output().unwrap());
    assert!(without.status == Some(1) && without.stderr.contains("needs ffmpeg"), "{}", without.stderr);
    assert!(!file("other.mp3").exists());
    if ffmpeg_program().is_none() {
        return auricle_tests::skip("ffmpeg not found (Debian: apt-get install ffmpeg)");
    }
    let nowhere = said("none/said.mp3");
    assert!(nowhere.status == Some(1) && nowhere.stderr.contains("none/said.mp3"), "{}", nowhere.stderr);
    let forms = [("mp3", vec![b"ID3".as_slice(), b"\xff\xf3"]), ("opus", vec![b"OggS"]), ("flac", vec![b"fLaC"])];
    for (ending, starts) in forms.into_iter().chain([("aac", vec![b"\xff\xf1".as_slice()])]) {
        let name = format!("said: it.{ending}");
        let run = said(&name);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{name}");
        let bytes = std::fs::read(file(&name)).unwrap();
        assert!(starts.iter().any(|start| bytes.starts_with(start)), "{name}: {:?}", &bytes[..8]);
        let seconds = AudioStream::open(file(&name)).unwrap().read_to_end().unwrap().len() as f64 / 16_000.0;
        // A lossy format pads the ends.
        assert!((seconds - whole).abs() < 0.15, "{name}: {seconds} s of {whole}");
    }
}

#[test]
fn voices_that_say_clauses_or_frames_speak_on_a_gpu_as_long_as_on_the_cpu() {
    if devices().len() < 2 {
        return;
    }
    for (write, voice) in [(write_clause_voice as fn(&Path), "af_ann"), (write_frame_voice, "ann")] {
        let models = tempfile::tempdir().unwrap();
        write(&models.path().join("voice"));
        let catalog = "[[voice]]\nid = \"tiny\"\nstarter = \"voice\"\nlanguage = \"en\"\n";
        std::fs::write(models.path().join("catalog.toml"), catalog).unwrap();
        let path = models.path().join("said.wav");
        let [here, there] = ["cpu", "vulkan:0"].map(|device| {
            let of = models.path().to_str().unwrap();
            let to = path.to_str().unwrap();
            let run = auricle(["say", "--device", device, "--models", of, "--voice", voice, "Good morning.", "-o", to]);
            assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""), "{device}");
            samples(&path)
        });
        assert_eq!(here.len(), there.len(), "{voice}");
        assert!(there.iter().any(|sample| sample.abs() > 1_000), "{voice}");
    }
}

#[test]
fn a_voice_that_reads_text_stands_beside_one_that_reads_phones() {
    let models = models();
    write_frame_voice(&models.path().join("frames"));
    let more = "[[voice]]\nid = \"frames\"\nstarter = \"frames\"\nlanguage = \"de\"\ndefault_voice = \"bob\"\n";
    let catalog = std::fs::read_to_string(models.path().join("catalog.toml")).unwrap();
    std::fs::write(models.path().join("catalog.toml"), catalog + more).unwrap();
    let of = models.path().to_str().unwrap();
    let listed = auricle(["voices", "list", "--models", of]).stdout;
    assert!(listed.contains("bob  de  frames") && listed.contains("ann  de  frames"), "{listed}");
    let path = models.path().join("said.wav");
    let run = say(models.path(), &["Guten Morgen, 25 Euro.", "--voice", "de", "-o", path.to_str().unwrap()]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let said = samples(&path);
    assert!(said.len() > 5 * 1_920 && said.iter().any(|sample| sample.abs() > 500), "{}", said.len());
    let fast = say(models.path(), &["Schnell.", "--voice", "de", "--speed", "2", "-o", "-"]);
    assert_eq!((fast.status, fast.stderr.lines().count()), (Some(2), 1), "{}", fast.stderr);
    assert!(fast.stderr.contains("one speed"), "{}", fast.stderr);
    let check = auricle(["models", "check", "--models", of]);
    assert_eq!(check.stdout.matches("voice, 0.").count(), 2, "{} {}", check.stdout, check.stderr);
}

#[test]
fn standard_input_is_said_as_it_comes() {
    let models = models();
    let path = models.path().join("said.wav");
    assert_eq!(
        say(
            models.path(),
            &[
                "One old mill stands by the lake and nobody lives there any more. Two men came.",
                "-o",
                path.to_str().unwrap()
            ]
        )
        .status,
        Some(0)
    );
    let whole = samples(&path);
    let mut command = command();
    command.args(["say", "-", "-o", "-", "--device", "cpu", "--models"]).arg(models.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    stdin.write_all(b"One old mill stands by the lake and nobody lives there any more. Two men").unwrap();
    stdin.flush().unwrap();
    // The first sentence sounds before the text ends.
    let mut first = [0; 960];
    stdout.read_exact(&mut first).unwrap();
    stdin.write_all(b" came.").unwrap();
    drop(stdin);
    let mut bytes = first.to_vec();
    stdout.read_to_end(&mut bytes).unwrap();
    let run = ended(child.wait_with_output().unwrap());
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let piped: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    assert_eq!(piped, whole);
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(unix)]
#[test]
fn an_interruption_costs_no_earlier_file() {
    let (models, out) = (models(), tempfile::tempdir().unwrap());
    let path = out.path().join("said.wav");
    std::fs::write(&path, "the earlier file").unwrap();
    let mut command = command();
    command.args(["say", "-", "--device", "cpu", "--models"]).arg(models.path()).arg("-o").arg(&path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"One old mill stands by the lake and nobody lives there any more. Two men").unwrap();
    stdin.flush().unwrap();
    // The first sentence is written before the text ends.
    let begin = std::time::Instant::now();
    while names(out.path()).len() < 2 {
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "nothing is written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(out.path()), ["said.wav"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "the earlier file");
}

#[test]
fn a_full_disk_costs_no_earlier_file() {
    let (models, out) = (models(), tempfile::tempdir().unwrap());
    let Some(disk) = SmallDisk::mount(out.path(), 1) else { return };
    let endings: &[&str] = if ffmpeg_program().is_some() { &["wav", "pcm", "flac"] } else { &["wav", "pcm"] };
    for ending in endings {
        let path = out.path().join(format!("said.{ending}"));
        std::fs::write(&path, "the earlier file").unwrap();
        disk.fill();
        let run = say(models.path(), &["Good morning.", "-o", path.to_str().unwrap()]);
        assert_eq!((run.status, run.stderr.lines().count()), (Some(1), 1), "{ending}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("cannot write to {}", path.display())), "{}", run.stderr);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "the earlier file", "{ending}");
        disk.free();
        assert_eq!(say(models.path(), &["Good morning.", "-o", path.to_str().unwrap()]).status, Some(0));
        assert!(std::fs::metadata(&path).unwrap().len() > 100, "{ending}");
    }
    let mut expected: Vec<String> = endings.iter().map(|ending| format!("said.{ending}")).collect();
    expected.sort();
    assert_eq!(names(out.path()), expected);
}

#[test]
fn a_text_that_is_no_text_is_said_so() {
    let models = models();
    let mut command = command();
    command.args(["say", "-", "-o", "-", "--device", "cpu", "--models"]).arg(models.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"RIFF\xff\xfe\x00").unwrap();
    let run = ended(child.wait_with_output().unwrap());
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("UTF-8") && run.stderr.lines().count() == 1, "{}", run.stderr);
}

#[test]
fn what_cannot_be_said_is_one_line() {
    let models = models();
    let path = models.path().join("said.wav");
    let to = path.to_str().unwrap();
    let refused = |args: &[&str], status: i32, why: &str| {
        let run = say(models.path(), args);
        assert_eq!((run.status, run.stdout.as_str()), (Some(status), ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{args:?}: {}", run.stderr);
        assert!(!path.exists(), "{args:?}");
        run.stderr.lines().count()
    };
    for text in ["", "...", "\u{1F600}", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}"] {
        assert_eq!(refused(&[text, "-o", to], 1, "nothing to say"), 1);
    }
    assert_eq!(refused(&["Hi.", "-o", to, "--voice", "siri"], 1, "unknown voice \"siri\"; there are zed (en)"), 1);
    assert_eq!(refused(&["Hi.", "-o", to, "--voice", "de"], 1, "no voice speaks de; there are zed (en)"), 1);
    assert_eq!(refused(&["Hi.", "-o", to, "--voice", "af_sky"], 1, "no voice is named af_sky or speaks af; there"), 1);
    refused(&["Hi.", "-o", to, "--speed", "3"], 2, "0.5 to 2");
    refused(&["Hi.", "-o", to, "--speed", "NaN"], 2, "0.5 to 2");
    refused(&["-o", to], 2, "TEXT");
    assert_eq!(refused(&["Hi.", "-o", "no-such-folder/said.wav"], 1, "no-such-folder"), 1);
    // A checkpoint that gives no numbers.
    let weights = models.path().join("voice/vocoder/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + length..].chunks_exact_mut(2).for_each(|half| half.copy_from_slice(&0x7e00u16.to_le_bytes()));
    std::fs::write(&weights, bytes).unwrap();
    assert_eq!(refused(&["Hi.", "-o", to], 1, "no numbers"), 1);
}

#[test]
fn a_language_without_a_voice_names_the_command_that_brings_one() {
    let models = tempfile::tempdir().unwrap();
    write_frame_voice(&models.path().join("frames"));
    let voices = "[[voice]]\nid = \"frames\"\nstarter = \"frames\"\nlanguage = \"de\"\n";
    let more = "[[voice]]\nid = \"voice-en\"\npublished = \"some/voice\"\nfolder = \"some\"\nstarter = \"none\"\nlanguage = \"en\"\n";
    std::fs::write(models.path().join("catalog.toml"), format!("{voices}{more}")).unwrap();
    let refused = |voice: &str| {
        let run = say(models.path(), &["Hi.", "--voice", voice, "-o", "-"]);
        assert_eq!((run.status, run.stdout.as_str(), run.stderr.lines().count()), (Some(1), "", 1), "{}", run.stderr);
        run.stderr
    };
    let english = refused("en");
    assert!(
        english.contains("no voice speaks en; `auricle models pull voice-en` fetches voices; there are"),
        "{english}"
    );
    let french = refused("fr");
    assert!(french.contains("no voice speaks fr; there are ann (de)"), "{french}");
    std::fs::remove_dir_all(models.path().join("frames")).unwrap();
    let none = refused("en");
    assert!(none.contains("no voice is there") && none.contains("`auricle models pull voice-en`"), "{none}");
}

#[test]
fn a_language_chooses_the_voice() {
    let models = models();
    write_frame_voice(&models.path().join("frames"));
    let catalog = models.path().join("catalog.toml");
    let german = "[[voice]]\nid = \"frames\"\nstarter = \"frames\"\nlanguage = \"de\"\n";
    std::fs::write(&catalog, std::fs::read_to_string(&catalog).unwrap() + german).unwrap();
    let path = models.path().join("said.wav");
    let said = |more: &[&str]| {
        let run = say(models.path(), &[&["Guten Morgen.", "-o", path.to_str().unwrap()][..], more].concat());
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        samples(&path)
    };
    let german = said(&["--language", "de"]);
    assert_eq!(said(&["--voice", "ann", "--language", "de-CH"]), german);
    assert_ne!(said(&[]), german);
    assert_eq!(said(&["--language", "en"]), said(&[]));
    for (args, reason) in [
        (vec!["--language", "fr"], "no voice speaks fr; there are"),
        (vec!["--voice", "zed", "--language", "de"], "zed speaks en, not de"),
    ] {
        let run = say(models.path(), &[vec!["Hi.", "-o", "-"], args].concat());
        assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
}

#[test]
fn voices_are_listed_with_the_default_first() {
    let models = models();
    let list = |models: &Path| auricle(["voices", "list", "--models", models.to_str().unwrap()]);
    let run = list(models.path());
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(run.stdout, "zed  en  tiny\nann  en  tiny\nbob  en  tiny\n");
    assert_eq!(auricle(["voices", "--models", models.path().to_str().unwrap()]).stdout, run.stdout);
    let as_json = auricle(["voices", "--json", "--models", models.path().to_str().unwrap()]).stdout;
    let objects = as_json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ids: Vec<_> = objects.map(|voice| voice["id"].clone()).collect();
    assert_eq!(ids, ["zed", "ann", "bob"]);
    let checked = auricle(["models", "check", "--models", models.path().to_str().unwrap()]);
    assert_eq!(checked.status, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("voice: good\n  voice, "), "{}", checked.stdout);
    let known = auricle(["models", "list", "--models", models.path().to_str().unwrap()]);
    assert!(known.stdout.contains("tiny") && known.stdout.contains("starter"), "{}", known.stdout);
    std::fs::remove_dir_all(models.path().join("voice")).unwrap();
    let none = list(models.path());
    assert_eq!((none.status, none.stdout.as_str()), (Some(1), ""));
    assert!(none.stderr.contains("no voice is there"), "{}", none.stderr);
}

/// Words of a text, in lower case.
fn spoken(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.to_lowercase());
    words.map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned()).collect()
}

#[test]
fn the_recogniser_hears_what_the_starter_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("said.wav");
    let models = auricle_tests::models();
    let text = "The birch canoe slid on the smooth planks. It is easy to tell the depth of a well.";
    let run = say(&models, &[text, "-o", path.to_str().unwrap()]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let seconds = samples(&path).len() as f64 / 24_000.0;
    assert!((3.0..10.0).contains(&seconds), "{seconds} s");
    assert_heard(&path, text);
}

/// Holds what the starter hears in a file to two thirds of a text's words.
fn assert_heard(path: &Path, text: &str) {
    let models = auricle_tests::models();
    let (path, models) = (path.to_str().unwrap(), models.to_str().unwrap());
    let heard = auricle(["transcribe", path, "--quiet", "--device", "cpu", "--models", models]);
    assert_eq!(heard.status, Some(0), "{}", heard.stderr);
    let heard_words = spoken(&heard.stdout);
    let said = spoken(text);
    let known = said.iter().filter(|word| heard_words.contains(word)).count();
    assert!(known * 3 >= said.len() * 2, "{known} of {} words: {}", said.len(), heard.stdout);
}

#[test]
fn the_samples_are_small_and_understood() {
    for (name, text) in [
        (
            "speech-kathleen.opus",
            "Good evening. The night train to the coast leaves at nine forty from platform three, and a ticket costs twenty-four dollars and \
             fifty cents. There is a place to eat on board, and the windows are wide. When the sun comes up, you will see the water on the \
             left.",
        ),
        (
            "speech-26.opus",
            "The old mill stood by the river for two hundred years. On March third, nineteen twenty-one, the river rose by four feet in a \
             single night and took the wheel with it. Nobody was hurt, and the miller wrote it all down in a letter to his brother.",
        ),
    ] {
        let path = auricle_tests::models().join("samples").join(name);
        assert!(std::fs::metadata(&path).unwrap().len() < 100_000);
        assert_heard(&path, text);
    }
}

/// The integrated loudness of a file in LUFS, as `ffmpeg` measures it.
fn loudness(path: &Path) -> Option<f64> {
    let ffmpeg = auricle_engine::audio::ffmpeg_program()?;
    let mut measured = Command::new(ffmpeg);
    measured.args(["-hide_banner", "-nostats", "-i"]).arg(path);
    let run = measured.args(["-af", "ebur128", "-f", "null", "-"]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let number = said.lines().rev().find_map(|line| line.trim().strip_prefix("I:")?.trim().strip_suffix("LUFS"));
    Some(number.expect("a loudness").trim().parse().unwrap())
}

#[test]
fn every_voice_of_the_starter_is_as_loud_as_promised() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("said.wav");
    let models = auricle_tests::models();
    let list = auricle(["voices", "list", "--models", models.to_str().unwrap()]);
    for voice in list.stdout.lines().map(|line| line.split(' ').next().unwrap()) {
        let text = "It is easy to tell the depth of a well. These days a chicken leg is a rare dish.";
        assert_eq!(say(&models, &[text, "--voice", voice, "-o", path.to_str().unwrap()]).status, Some(0));
        let Some(loudness) = loudness(&path) else { return auricle_tests::skip("ffmpeg") };
        assert!((loudness + 20.0).abs() < 2.0, "{voice}: {loudness:.1} LUFS");
        assert!(samples(&path).iter().all(|sample| sample.abs() < i16::MAX), "{voice} is cut");
    }
}
