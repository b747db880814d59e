//! `auricle serve`: reads the settings and runs the service.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use auricle_engine::Catalog;
use clap::Args;
use toml::{Table, Value};
use url::Url;

use super::progress::Bar;
use super::{Failure, Result, hint, loading};
use crate::config::{Config, LogFormat, Origins, Role, precision_choice};
use crate::serve;

/// The model of recordings that name none.
const DEFAULT_MODEL: &str = "svc-best";

#[derive(Args, Default)]
#[command(after_long_help = "\
The first start creates the data folder, an account and an API key. It prints the key once, with a curl line to try.

Every setting has a key: in the file of --config (TOML), and as AURICLE_KEY_IN_CAPITALS in the environment. Flags win over
the environment, which wins over the file. docs/settings.md lists them all.

Examples:
  auricle serve
  auricle serve --data /var/lib/auricle --listen 0.0.0.0:8080 --public-url https://speech.example.com
  AURICLE_DATABASE_URL=postgres://auricle@db/auricle auricle serve --role worker

SIGTERM and Ctrl-C stop the service after running work has ended.")]
pub struct ServeArgs {
    /// Settings, as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of the database, the objects and temporary files [default: auricle-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The models folder, with catalog.toml
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Compute devices: auto, gpu, cpu, or vulkan:N, several with commas [default: auto]
    ///
    /// auto and gpu take the first real GPU and all that are like it. Devices share the work.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Precision of the weights: auto, full, half, int8 or int4 [default: auto]
    ///
    /// auto is int8 for Whisper on a CPU, and full for the rest. docs/settings.md says what the others are.
    #[arg(long, value_name = "PRECISION", value_parser = precision_name)]
    precision: Option<String>,
    /// Role of this process [default: all]
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Address of the API [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of signed uploads [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    storage_listen: Option<SocketAddr>,
    /// Address of the dashboard [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDRESS")]
    dashboard_listen: Option<SocketAddr>,
    /// Address of the Wyoming protocol, for Home Assistant, such as 127.0.0.1:10300 [default: off]
    #[arg(long, value_name = "ADDRESS")]
    wyoming: Option<SocketAddr>,
    /// The API's URL as clients see it [default: http:// and --listen]
    #[arg(long, value_name = "URL")]
    public_url: Option<Url>,
}

impl ServeArgs {
    /// The settings, and where they come from.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the key at fault.
    pub fn settings(&self) -> Result<(Config, Origins)> {
        Config::read_with_origins(self.config.as_deref(), self.flags()).map_err(Failure::Usage)
    }

    /// The file of the settings.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The flags that were given, by their keys.
    fn flags(&self) -> Table {
        let text = |value: &Option<SocketAddr>| value.map(|value| value.to_string());
        let path = |value: &Option<PathBuf>| value.as_ref().map(|value| value.to_string_lossy().into_owned());
        let role = self.role.map(|role| format!("{role:?}").to_lowercase());
        [
            ("data", path(&self.data)),
            ("models", path(&self.models)),
            ("device", self.device.clone()),
            ("precision", self.precision.clone()),
            ("role", role),
            ("listen", text(&self.listen)),
            ("storage_listen", text(&self.storage_listen)),
            ("dashboard_listen", text(&self.dashboard_listen)),
            ("wyoming", text(&self.wyoming)),
            ("public_url", self.public_url.as_ref().map(Url::to_string)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), Value::String(value?))))
        .collect()
    }
}

fn precision_name(text: &str) -> Result<String, String> {
    precision_choice(text).map(|_| text.to_owned())
}

/// Variables of the environment that are nearly settings, and those settings.
pub fn misspelled() -> Vec<(String, String)> {
    Config::misspelled(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

pub fn run(args: &ServeArgs) -> Result<()> {
    let (config, _) = args.settings()?;
    super::log_to_stderr(if config.log_format == LogFormat::Json { super::Log::Json } else { super::Log::Text });
    for (name, meant) in misspelled() {
        tracing::warn!("the environment has {name}, which is no setting; did you mean {meant}?");
    }
    let hint = Catalog::read(&config.models).ok().and_then(|catalog| hint::line(&catalog, DEFAULT_MODEL));
    // A service whose output another program reads has no line that goes.
    let bar = Bar::new(!io::stdout().is_terminal());
    let is_loading = bar.loading(&loading::service(&config.models));
    let served = serve::run(config, hint, || drop(is_loading));
    super::runtime()?.block_on(served).map_err(Failure::Service)
}
