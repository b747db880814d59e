//! The first impression: which model is at work, how to get a better one, and no lines of other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use auricle_engine::Catalog;
use auricle_tests::{Run, binary, command, ended, fixtures, skip, speech, tiny_models};

/// The variables that Mesa's device selection layer and the desktop's library read.
const DESKTOP: [&str; 6] =
    ["NODEVICE_SELECT", "MESA_VK_DEVICE_SELECT", "DRI_PRIME", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DISPLAY"];

/// A run on a terminal, which `script` makes; its output and its messages come in one text. None without `script`.
fn on_terminal(args: &[&str], models: &Path) -> Option<String> {
    let mut terminal = Command::new("script");
    terminal.args(["-q", "-e", "-c", r#""$PROGRAM" $ARGS --models "$MODELS" "$RECORDING""#, "/dev/null"]);
    terminal.env("PROGRAM", binary()).env("ARGS", args.join(" ")).env("MODELS", models).env("RECORDING", speech());
    let Ok(output) = terminal.env("TERM", "xterm").stdin(Stdio::null()).output() else {
        skip("no `script` found (Debian: apt-get install bsdutils)");
        return None;
    };
    let run = ended(output);
    assert_eq!(run.status, Some(0), "{}", run.stdout);
    Some(run.stdout)
}

fn starter_models() -> std::path::PathBuf {
    fixtures().join("../../models")
}

#[test]
fn a_terminal_shows_the_model_its_errors_and_the_command_for_a_better_one() {
    let catalog = Catalog::read(starter_models()).unwrap();
    let rate = |model: &str| catalog.choose(model).unwrap().word_error_rate().unwrap().percent;
    let line = format!(
        "auricle: svc-best runs on the small starter checkpoint, {} % of words wrong on 80 utterances of LibriSpeech test-clean; \
         a better one: auricle models pull svc-fast --recommended",
        rate("svc-best")
    );
    let Some(shown) = on_terminal(&["transcribe", "--device", "cpu"], &starter_models()) else { return };
    assert_eq!(shown.matches(&line).count(), 1, "{shown}");
    assert!(shown.contains("loading svc-best (starter, "), "{shown}");
    let quiet = on_terminal(&["transcribe", "--device", "cpu", "--quiet"], &starter_models()).unwrap();
    assert!(!quiet.contains("a better one") && !quiet.contains("loading"), "{quiet}");
    let live = on_terminal(&["listen", "--device", "cpu", "--fast"], &starter_models()).unwrap();
    let line = format!("svc-realtime-pro runs on the small starter checkpoint, {} %", rate("svc-realtime-pro"));
    assert!(live.contains(&line), "{live}");
    assert!(live.contains("loading svc-realtime-pro (starter, "), "{live}");
    assert!(live.contains("a better one: auricle models pull svc-realtime-pro"), "{live}");
}

#[test]
fn without_a_terminal_the_line_is_left_out() {
    let mut transcribe = command();
    transcribe.args(["transcribe", "--device", "cpu", "--models"]).arg(starter_models()).arg(speech());
    let run = ended(transcribe.stdin(Stdio::null()).output().unwrap());
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn standard_error_has_no_lines_of_other_programs() {
    let models = tiny_models();
    let run = |args: &[&str], runtime_folder: Option<&str>| -> Run {
        let mut command = command();
        for name in DESKTOP {
            command.env_remove(name);
        }
        command.args(args).stdin(Stdio::null());
        if let Some(folder) = runtime_folder {
            command.env("XDG_RUNTIME_DIR", folder);
        }
        ended(command.output().unwrap())
    };
    let (models, recording) = (models.path().to_str().unwrap(), speech());
    for runtime_folder in [None, Some("")] {
        for args in [&["devices"][..], &["transcribe", "--models", models, recording.to_str().unwrap()]] {
            let run = run(args, runtime_folder);
            assert_eq!(run.status, Some(0), "{args:?}: {}", run.stderr);
            let foreign: Vec<&str> = run.stderr.lines().filter(|line| !line.starts_with("auricle: ")).collect();
            assert!(foreign.is_empty(), "{args:?}, XDG_RUNTIME_DIR {runtime_folder:?}: {foreign:?}");
        }
    }
}
