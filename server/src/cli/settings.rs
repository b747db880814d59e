//! `auricle config`: the settings of the service, each with the place that it comes from, and a file of all of them to begin with.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use toml::{Table, Value};
use url::Url;

use super::output::ListFormArgs;
use super::serve::ServeArgs;
use super::{Failure, Result, output};
use crate::config::{Config, KEYS, Origin, SECRETS};

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Show each setting in force, and where it is from: default, file, environment or flag
    #[command(after_long_help = "\
It takes the file and the flags of `auricle serve`. Secrets, and passwords in URLs, are hidden.

Examples:
  auricle config show
  auricle config show --config /etc/auricle/auricle.toml --listen 0.0.0.0:8080
  auricle config show --json | jq -r 'select(.from != \"default\") | .key'")]
    Show(Box<ShowArgs>),
    /// Write a file with every setting, its meaning and its default, as comments
    #[command(after_long_help = "\
A file that is there stays as it is. Only its owner can read the new one, since settings may be secrets.

Examples:
  auricle config init                  auricle.toml in this folder
  auricle config init /etc/auricle/auricle.toml
  auricle serve --config auricle.toml")]
    Init(InitArgs),
}

#[derive(Args)]
pub struct ShowArgs {
    #[command(flatten)]
    form: ListFormArgs,
    #[command(flatten)]
    service: ServeArgs,
}

#[derive(Args)]
pub struct InitArgs {
    /// The new file
    #[arg(value_name = "FILE", default_value = "auricle.toml")]
    file: PathBuf,
}

pub fn run(command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Init(args) => init(&args.file),
    }
}

fn show(args: &ShowArgs) -> Result<()> {
    let (config, origins) = args.service.settings()?;
    let values = table(&config)?;
    let items = KEYS.map(|key| {
        let value =
            values.get(key).map(|value| if SECRETS.contains(&key) { hidden() } else { without_password(value) });
        let (name, place) = match origins.get(key) {
            None => ("default", "default".to_owned()),
            Some(Origin::File) => {
                ("file", args.service.file().map(|file| file.display().to_string()).unwrap_or_default())
            }
            Some(Origin::Environment) => ("environment", format!("AURICLE_{}", key.to_uppercase())),
            Some(Origin::Flag) => ("flag", format!("--{}", key.replace('_', "-"))),
        };
        let shown = value.as_ref().map_or_else(|| "-".into(), Value::to_string);
        (json!({ "key": key, "value": value, "from": name }), vec![key.into(), shown, place])
    });
    output::list(&["key", "value", "from"], items.to_vec(), args.form.form())
}

fn init(path: &Path) -> Result<()> {
    let failed = |source| Failure::Write { what: path.display().to_string(), source };
    let defaults = table(&Config::default())?;
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::Usage(format!("{} is there already, and stays as it is", path.display())));
        }
        opened => opened.map_err(failed)?,
    };
    file.write_all(commented(&defaults).as_bytes()).map_err(failed)?;
    output::print(&format!("{} is written; `auricle serve --config {}` reads it\n", path.display(), path.display()))
}

/// All settings as a table; those without a value are left out.
fn table(config: &Config) -> Result<Table> {
    Table::try_from(config).map_err(|error| Failure::Service(format!("the settings: {error}")))
}

fn hidden() -> Value {
    Value::String("(hidden)".into())
}

/// The value with stars for the password of a URL.
fn without_password(value: &Value) -> Value {
    let url = value.as_str().and_then(|text| Url::parse(text).ok()).filter(|url| url.password().is_some());
    match url {
        Some(mut url) => match url.set_password(Some("***")) {
            Ok(()) => Value::String(url.into()),
            Err(()) => hidden(),
        },
        None => value.clone(),
    }
}

/// A file of all settings, in which each is a comment.
fn commented(defaults: &Table) -> String {
    let mut out = String::from(
        "# Settings of `auricle serve --config FILE`. A line without its # is in force; the values are the defaults.\n\
         # Flags win over the environment (AURICLE_ and the key in capitals), which wins over this file.\n",
    );
    for key in KEYS {
        out.push('\n');
        for line in meaning(key) {
            let _ = writeln!(out, "# {line}");
        }
        // The folder of the models is found anew at each start.
        let value = defaults.get(key).filter(|_| key != "models").map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(out, "{}", format!("#{key} = {value}").trim_end());
    }
    out
}

/// The lines of a setting's documentation: its comment in the source.
fn meaning(key: &str) -> Vec<&'static str> {
    let source = include_str!("../config.rs");
    let Some((before, _)) = source.split_once(&format!("\n    pub {key}: ")) else { return Vec::new() };
    let lines = before.lines().rev().map(str::trim).filter(|line| !line.starts_with("#["));
    let mut lines: Vec<&str> = lines.map_while(|line| line.strip_prefix("/// ")).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_meaning_and_the_file_is_toml() {
        for key in KEYS {
            assert!(!meaning(key).is_empty(), "{key} has no comment");
        }
        let file = commented(&table(&Config::default()).unwrap());
        assert!(file.parse::<Table>().unwrap().is_empty(), "all are comments");
        let with_values = file.lines().filter_map(|line| line.strip_prefix('#').filter(|line| line.contains(" = ")));
        let in_force: String =
            with_values.filter(|line| !line.starts_with(' ')).map(|line| format!("{line}\n")).collect();
        let read: Config = in_force.parse::<Table>().unwrap().try_into().unwrap();
        assert_eq!(table(&read).unwrap(), table(&Config::default()).unwrap());
    }

    #[test]
    fn passwords_of_urls_are_hidden() {
        let shown = |text: &str| without_password(&Value::String(text.into())).as_str().unwrap().to_owned();
        assert_eq!(shown("postgres://auricle:secret@db/auricle"), "postgres://auricle:***@db/auricle");
        assert_eq!(shown("https://example.com/a"), "https://example.com/a");
        assert_eq!(shown("auto"), "auto");
    }
}
