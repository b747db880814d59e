//! The service that a call goes to: a running one by its address, or one of its own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use clap::Args;
use tempfile::TempDir;
use url::Url;

use super::call::Host;
use crate::cli::progress::Bar;
use crate::cli::{EngineArgs, Failure, Result, interrupt};

#[derive(Args)]
pub struct HostArgs {
    /// A running service to call [default: one of its own, as long as the command runs]
    #[arg(long, value_name = "URL", requires = "key")]
    url: Option<Url>,
    /// A key of the running service
    #[arg(long, value_name = "KEY", env = "AURICLE_KEY", hide_env_values = true)]
    key: Option<String>,
}

/// A service to call.
pub struct Service {
    pub host: Host,
    _own: Option<OwnService>,
}

/// A child process that serves on free ports with a folder of its own. It ends with this value.
struct OwnService {
    process: Child,
    /// Open, so that the child can go on writing.
    output: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl HostArgs {
    /// True for a service that runs already.
    pub fn is_running(&self) -> bool {
        self.url.is_some()
    }

    /// The service to call, started if there is none, with this language model for its agents. A signal ends the process from now on, its own service and `bar` with it.
    ///
    /// # Errors
    /// One line, if it cannot be started.
    pub fn service(&self, engine: &EngineArgs, language_model: Option<&str>, bar: Bar) -> Result<Service> {
        match (&self.url, &self.key) {
            (Some(url), Some(key)) => {
                interrupt::on_signal(bar);
                Ok(Service { host: Host { url: url.clone(), key: key.clone() }, _own: None })
            }
            _ => start(engine, language_model, bar),
        }
    }
}

fn start(engine: &EngineArgs, language_model: Option<&str>, bar: Bar) -> Result<Service> {
    let failed = |error: std::io::Error| Failure::Service(format!("the service cannot be started: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("serve").arg("--data").arg(folder.path()).args(engine.serve_flags()?);
    for listener in ["--listen", "--storage-listen", "--dashboard-listen"] {
        command.args([listener, "127.0.0.1:0"]);
    }
    if let Some(model) = language_model {
        // As text, also where it looks like a number.
        command.env("AURICLE_DEFAULT_LANGUAGE_MODEL", toml::Value::from(model).to_string());
    }
    // Its own addresses and database, whatever those of the service of this machine are.
    for name in [
        "DATABASE_URL",
        "STORAGE_URL",
        "PUBLIC_URL",
        "STORAGE_PUBLIC_URL",
        "DASHBOARD_PUBLIC_URL",
        "ROLE",
        "HEALTH_LISTEN",
    ] {
        command.env_remove(format!("AURICLE_{name}"));
    }
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (id, path) = (process.id(), folder.path().to_owned());
    interrupt::end_with(move || {
        bar.clear();
        // At once: nothing of the service is kept.
        end(id, End::Now);
        let _ = std::fs::remove_dir_all(path);
    });
    let Some(output) = process.stdout.take() else { return Err(Failure::Service("no output".into())) };
    let mut own = OwnService { process, output: BufReader::new(output), _folder: folder };
    let host = own.host()?;
    Ok(Service { host, _own: Some(own) })
}

impl OwnService {
    /// Reads the address and the key that the service prints.
    fn host(&mut self) -> Result<Host> {
        let (mut url, mut line) = (None, String::new());
        loop {
            line.clear();
            if !self.output.read_line(&mut line).is_ok_and(|read| read > 0) {
                // It has said why on standard error.
                return Err(Failure::Service("the service of this command did not start".into()));
            }
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["api", address] => url = Url::parse(address).ok(),
                ["key", key] => {
                    let url = url.ok_or_else(|| Failure::Service("the service printed no address".into()))?;
                    return Ok(Host { url, key: key.to_owned() });
                }
                _ => {}
            }
        }
    }
}

impl Drop for OwnService {
    fn drop(&mut self) {
        if cfg!(unix) {
            end(self.process.id(), End::InOrder);
        } else {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// The way in which a service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    InOrder,
    Now,
}

/// Ends a child process that has not been waited for.
#[cfg(unix)]
fn end(id: u32, end: End) {
    use rustix::process::{Pid, Signal, kill_process};

    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, if end == End::Now { Signal::KILL } else { Signal::TERM });
    }
}

/// Other systems end processes by their handles alone.
#[cfg(not(unix))]
fn end(_id: u32, _end: End) {}
