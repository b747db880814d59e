//! `auricle doctor`: what this machine and its settings lack, each with the command that mends it.
//!
//! - `machine`: devices and their drivers, ffmpeg.
//! - `models`: the checkpoints, and what they lack.
//! - `service`: ports, disks, the data folder, the limit of open files.

mod machine;
mod models;
mod service;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::output::{self, ListForm, ListFormArgs};
use super::serve::{ServeArgs, misspelled};
use super::{Failure, Result};
use crate::config::Config;

#[derive(Args)]
#[command(after_long_help = "\
It takes the file and the flags of `auricle serve`, and changes nothing. What is broken keeps a command from working; a warning is about
a part that is missing. The line under a finding is the command that mends it. Exit status 1 if something is broken.

Examples:
  auricle doctor
  auricle doctor --config /etc/auricle/auricle.toml
  auricle doctor --json | jq -r 'select(.state == \"broken\") | .mend'")]
pub struct DoctorArgs {
    #[command(flatten)]
    form: ListFormArgs,
    #[command(flatten)]
    service: ServeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Broken,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Broken => "broken",
        }
    }
}

/// The finding of a check.
#[derive(Debug)]
struct Finding {
    state: State,
    subject: &'static str,
    message: String,
    /// The command that mends it.
    mend: Option<String>,
}

impl Finding {
    fn ok(subject: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Ok, subject, message: message.into(), mend: None }
    }

    fn warning(subject: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { state: State::Warning, subject, message: message.into(), mend: Some(mend.into()) }
    }

    fn broken(subject: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { state: State::Broken, ..Self::warning(subject, message, mend) }
    }
}

pub fn run(args: &DoctorArgs) -> Result<()> {
    let form = args.form.form();
    let (mut broken, mut warnings) = (0, 0);
    let mut report = |findings: Vec<Finding>| {
        findings.into_iter().try_for_each(|finding| {
            broken += usize::from(finding.state == State::Broken);
            warnings += usize::from(finding.state == State::Warning);
            print(&finding, form)
        })
    };
    let (config, findings) = settings(&args.service);
    report(findings)?;
    report(machine::devices(&config))?;
    report(machine::ffmpeg())?;
    report(models::check(&config))?;
    report(service::ports(&config)?)?;
    report(service::disks(&config))?;
    report(service::open_files(&config))?;
    if form == ListForm::Table {
        output::print(&match (broken, warnings) {
            (0, 0) => "\nNothing is missing.\n".to_owned(),
            (broken, warnings) => format!("\nBroken: {broken}. Warnings: {warnings}.\n"),
        })?;
    }
    if broken > 0 { Err(Failure::Reported) } else { Ok(()) }
}

fn print(finding: &Finding, form: ListForm) -> Result<()> {
    let Finding { state, subject, message, mend } = finding;
    output::print(&match form {
        ListForm::Json => output::json(&json!({ "state": state, "check": subject, "message": message, "mend": mend }))?,
        ListForm::Table => {
            let mend = mend.as_ref().map(|mend| format!("{:20}{mend}\n", "")).unwrap_or_default();
            format!("{:8} {subject:10} {}\n{mend}", state.name(), output::one_line(message))
        }
    })
}

/// The settings, those that are there without them where they cannot be read, and what is wrong with them.
fn settings(args: &ServeArgs) -> (Config, Vec<Finding>) {
    let (config, first) = match args.settings() {
        Ok((config, origins)) => {
            let finding = Finding::ok(
                "settings",
                match origins.len() {
                    0 => "all are the defaults".to_owned(),
                    count => format!("{count} from a file, the environment or a flag"),
                },
            );
            (config, finding)
        }
        Err(failure) => {
            let look = match args.file() {
                Some(file) => format!("${{EDITOR:-vi}} {}", file.display()),
                None => "env | grep ^AURICLE_".into(),
            };
            (Config::default(), Finding::broken("settings", failure.to_string(), look))
        }
    };
    let mistyped = misspelled().into_iter().map(|(name, meant)| {
        let message = format!("the environment has {name}, which is no setting");
        Finding::warning("settings", message, format!("export {meant}=\"${name}\"; unset {name}"))
    });
    (config, std::iter::once(first).chain(mistyped).collect())
}
