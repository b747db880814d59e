//! `auricle serve`, started as a user starts it: free ports, a data folder of its own, addresses as it prints them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Account, Answer, http};
use crate::guard::CleanupGuard;
use crate::program::{Run, command, command_with_open_files, ended};
use crate::voices::write_tiny_voice;

/// Deadline for an event that must happen, far above the time that a busy machine needs. No test measures time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);
/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(15);

/// Polls until there is a value, and fails after the deadline.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// A name that no other test of this run uses.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Settings of a service.
#[derive(Clone, Debug)]
pub struct Setup {
    settings: BTreeMap<String, String>,
    /// Environment variables of the process.
    variables: BTreeMap<String, String>,
    models: Option<PathBuf>,
    config: Option<PathBuf>,
    open_files: Option<String>,
    has_voice: bool,
    talks: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// The defaults, on the tiny checkpoint; private addresses are refused. Anybody may sign up, so that tests have accounts.
    pub fn new() -> Self {
        Self {
            settings: BTreeMap::from([("sign_up".to_owned(), "true".to_owned())]),
            variables: BTreeMap::new(),
            models: None,
            config: None,
            open_files: None,
            has_voice: false,
            talks: false,
        }
    }

    /// The defaults, with receivers on 127.0.0.1 allowed and several workers: a job that waits for a receiver blocks no
    /// other.
    pub fn local() -> Self {
        Self::new().with("allow_private_hosts", "[\"127.0.0.1\"]").with("job_workers", 8)
    }

    /// Sets a key of the configuration.
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.insert(key.to_owned(), value.to_string());
        self
    }

    /// Leaves a key of the configuration at its default.
    pub fn unset(mut self, key: &str) -> Self {
        self.settings.remove(key);
        self
    }

    /// With these variables in its environment.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        self.variables.extend(variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// With a configuration file.
    pub fn config(mut self, path: &Path) -> Self {
        self.config = Some(path.to_owned());
        self
    }

    /// Under a limit of open files, in the words of `ulimit`: `-n 300`, or `-Sn 64` for the soft limit alone.
    pub fn open_files(mut self, limit: &str) -> Self {
        self.open_files = Some(limit.to_owned());
        self
    }

    /// With the voice of random weights beside the tiny checkpoint.
    pub fn voice(mut self) -> Self {
        self.has_voice = true;
        self
    }

    /// On the checkpoints that ship with the repository, with the voice of random weights: it hears words and answers in noise.
    pub fn talking(mut self) -> Self {
        self.talks = true;
        self
    }

    /// On a models folder.
    pub fn on(mut self, models: &Path) -> Self {
        self.models = Some(models.to_owned());
        self
    }

    /// On the checkpoints that ship with the repository.
    pub fn starter(mut self) -> Self {
        self.models = Some(crate::models());
        self
    }

    /// Starts a service on an empty data folder.
    pub fn start(self) -> Service {
        let service = self.prepare();
        service.start();
        service
    }

    /// A service that has not been started yet.
    pub fn prepare(self) -> Service {
        let root = tempfile::tempdir().expect("a temporary folder");
        let models = self.models.unwrap_or_else(|| match self.talks {
            true => write_talking_models(root.path()),
            false => write_tiny_models(root.path()),
        });
        if self.has_voice {
            write_tiny_voice(&models.join("voice"));
            let path = models.join("catalog.toml");
            let entry = "[[voice]]\nid = \"voice-tiny\"\nstarter = \"voice\"\nlanguage = \"en\"\n";
            let catalog = fs::read_to_string(&path).expect("the catalog was written") + entry;
            fs::write(path, catalog).expect("the catalog is written");
        }
        fs::create_dir(root.path().join("data")).expect("the data folder");
        let Self { settings, variables, config, open_files, .. } = self;
        Service { root, models, config, open_files, settings, variables, state: Mutex::default() }
    }
}

/// A models folder in which every model is the tiny streaming checkpoint of the fixtures; `svc-fast` and `svc-realtime` also
/// claim Portuguese. Its language model `chat` has no checkpoint.
fn write_tiny_models(root: &Path) -> PathBuf {
    let checkpoint = crate::fixtures().join("fastconformer/streaming");
    let entry = |id: &str, kind: &str, languages: &str, more: &str| {
        format!(
            "[[model]]\nid = {id:?}\nkind = {kind:?}\npublished = \"somebody/something\"\nfolder = \"something\"\n\
             languages = [\"en\", \"pt\"]\nstarter = {checkpoint:?}\nstarter_languages = {languages}\n{more}\n"
        )
    };
    let models = root.join("models");
    fs::create_dir(&models).expect("the models folder");
    let catalog = [
        entry("svc-best", "prerecorded", "[\"en\"]", ""),
        entry("svc-fast", "prerecorded", "[\"en\", \"pt\"]", ""),
        entry("svc-realtime-pro", "realtime", "[\"en\"]", "look_ahead_ms = 160\n"),
        entry("svc-realtime", "realtime", "[\"en\", \"pt\"]", "look_ahead_ms = 1120\n"),
        "[[language]]\nid = \"chat\"\ndefault = true\npublished = \"somebody/something\"\nfolder = \"chat\"\n\
         download_bytes = 1\n"
            .into(),
    ];
    fs::write(models.join("catalog.toml"), catalog.concat()).expect("the catalog is written");
    models
}

/// Writes a models folder of the starters below `root`, whose voice is the one of random weights.
pub fn write_talking_models(root: &Path) -> PathBuf {
    let (models, shipped) = (root.join("models"), crate::models());
    let catalog = fs::read_to_string(shipped.join("catalog.toml")).expect("the catalog");
    let (before, voice) = catalog.split_once("[[voice]]").expect("the catalog has a voice");
    let (_, after) = voice.split_once("\n[[model]]").expect("models follow the voice");
    let tiny = "[[voice]]\nid = \"voice-tiny\"\nstarter = \"voice\"\nlanguage = \"en\"\n";
    fs::create_dir(&models).expect("the models folder");
    fs::write(models.join("catalog.toml"), format!("{before}{tiny}\n[[model]]{after}"))
        .expect("the catalog is written");
    std::os::unix::fs::symlink(shipped.join("starter"), models.join("starter")).expect("a link to the starters");
    write_tiny_voice(&models.join("voice"));
    models
}

/// A service and its data. The data outlives the process.
pub struct Service {
    root: TempDir,
    models: PathBuf,
    config: Option<PathBuf>,
    open_files: Option<String>,
    settings: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    addresses: BTreeMap<&'static str, String>,
}

struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    guard: CleanupGuard,
}

/// The listeners: the name of each in the printed lines, and its flag.
const LISTENERS: [(&str, &str); 3] =
    [("api", "--listen"), ("storage", "--storage-listen"), ("dashboard", "--dashboard-listen")];

impl Service {
    /// Starts a process on the data and waits until it says where it listens: the addresses of the one before, if there
    /// was one.
    pub fn start(&self) {
        // Another program may have taken a port meanwhile.
        eventually("the service starts", || {
            self.spawn();
            loop {
                if self.line("dashboard").is_some() {
                    break;
                }
                if let Some(status) = self.ended() {
                    let log = self.log();
                    assert!(log.contains("in use"), "the service ended with {status}: {log}");
                    return None;
                }
                std::thread::sleep(PAUSE);
            }
            Some(())
        });
        let lines = self.lines();
        let mut state = self.state.lock().unwrap();
        for (name, _) in LISTENERS {
            let address = lines.iter().find_map(|line| line.strip_prefix(name)).expect("a line with its address");
            state.addresses.insert(name, address.trim().to_owned());
        }
    }

    /// Starts a process and returns at once.
    pub fn spawn(&self) {
        let mut state = self.state.lock().unwrap();
        let mut command = self.open_files.as_deref().map_or_else(command, command_with_open_files);
        command.arg("serve").args(["--device", "cpu", "--models"]).arg(&self.models).arg("--data").arg(self.data());
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        for (name, flag) in LISTENERS {
            let address = state.addresses.get(name).map_or("127.0.0.1:0", |url| url.trim_start_matches("http://"));
            command.args([flag, address]);
        }
        let log = File::options().create(true).append(true).open(self.root.path().join("log")).expect("the log");
        command.envs(self.environment()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("auricle starts");
        let guard = CleanupGuard::new("kill -9 \"$1\"; rm -rf \"$2\"", &[&child.id().to_string(), self.root()]);
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                seen.lock().unwrap().push(line);
            }
        });
        if let Some(before) = state.process.replace(Process { child, lines, guard }) {
            // The old process has ended; its guard would delete the data.
            before.guard.dismiss();
        }
    }

    fn environment(&self) -> impl Iterator<Item = (String, &String)> {
        let settings = self.settings.iter().map(|(key, value)| (format!("AURICLE_{}", key.to_uppercase()), value));
        settings.chain(self.variables.iter().map(|(name, value)| (name.clone(), value)))
    }

    fn root(&self) -> &str {
        self.root.path().to_str().expect("UTF-8")
    }

    /// Puts a language model where its catalog has `chat`: a tiny checkpoint with random weights that reads `context` tokens, and a chat
    /// template, its own if none is given.
    pub fn pull_chat(&self, context: u32, template: Option<&str>) {
        let (from, to) = (crate::fixtures().join("decoder/qwen2"), self.models.join("chat"));
        fs::create_dir(&to).expect("the folder of the language model");
        for entry in fs::read_dir(from).expect("the fixture").map(|entry| entry.expect("an entry")) {
            if entry.file_name() != "config.json" {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("a file of the language model");
            }
        }
        if let Some(template) = template {
            fs::write(to.join("chat_template.jinja"), template).expect("the chat template");
        }
        let config = fs::read(crate::fixtures().join("decoder/qwen2/config.json")).expect("the configuration");
        let mut config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
        config["max_position_embeddings"] = context.into();
        // It is there once its configuration is.
        fs::write(to.join("config.json"), config.to_string()).expect("the configuration");
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// Lines that the running process has printed.
    pub fn lines(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.process.as_ref().map(|process| process.lines.lock().unwrap().clone()).unwrap_or_default()
    }

    /// The rest of the printed line that begins with a word.
    pub fn line(&self, name: &str) -> Option<String> {
        self.lines().iter().find_map(|line| line.strip_prefix(name).map(|rest| rest.trim().to_owned()))
    }

    /// Standard error of all processes so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }

    /// The exit status of the process, once it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        let mut state = self.state.lock().unwrap();
        state.process.as_mut().expect("a process").child.try_wait().expect("its status")
    }

    /// `kill -9`.
    pub fn kill(&self) {
        let mut state = self.state.lock().unwrap();
        let mut process = state.process.take().expect("a process");
        process.child.kill().expect("it is killed");
        process.child.wait().expect("it ends");
        process.guard.dismiss();
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.process_id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().expect("kill starts").success());
    }

    /// Waits for the end of the process.
    pub fn wait(&self) -> ExitStatus {
        eventually("the service ends", || self.ended())
    }

    /// The id of the process.
    pub fn process_id(&self) -> u32 {
        self.state.lock().unwrap().process.as_ref().expect("a process").child.id()
    }

    fn address(&self, name: &str) -> String {
        self.state.lock().unwrap().addresses.get(name).expect("the service has been started").clone()
    }

    /// The base address of the API.
    pub fn api(&self) -> String {
        self.address("api")
    }

    /// The value of a series of the metrics, named with its labels; 0 if there is none.
    pub fn metric(&self, series: &str) -> f64 {
        let metrics = Answer::of(http().get(format!("{}/metrics", self.api())));
        let value = metrics.text().lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.unwrap_or(0.0)
    }

    /// The base address of the storage listener.
    pub fn storage(&self) -> String {
        self.address("storage")
    }

    /// The base address of the dashboard.
    pub fn dashboard(&self) -> String {
        self.address("dashboard")
    }

    /// Runs `auricle keys` on this service's data.
    pub fn keys<A: AsRef<std::ffi::OsStr>>(&self, action: &str, args: impl IntoIterator<Item = A>) -> Run {
        let mut command = command();
        command.envs(self.environment()).args(["keys", action, "--data"]).arg(self.data()).args(args);
        ended(command.stdin(Stdio::null()).output().expect("auricle starts"))
    }

    /// Runs `auricle accounts` on this service's data.
    pub fn accounts<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        let mut command = command();
        command.envs(self.environment()).arg("accounts").args(args).arg("--data").arg(self.data());
        ended(command.stdin(Stdio::null()).output().expect("auricle starts"))
    }

    /// Makes a link with `auricle accounts link`, and returns its path on the dashboard.
    pub fn password_link(&self, email: &str) -> String {
        let run = self.accounts(["link", email]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let at = run.stdout.find("/welcome/").expect("a link");
        run.stdout[at..].trim().to_owned()
    }

    /// A new key of an account.
    pub fn key(&self, email: &str) -> String {
        let run = self.keys("create", ["--account", email]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        run.stdout.trim().to_owned()
    }

    /// A new account with a key.
    pub fn account(&self) -> Account {
        let email = format!("{}@example.org", unique("somebody"));
        let key = self.key(&email);
        Account { api: self.api(), key, email }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            eprintln!("the end of the service's log:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
        if let Ok(state) = self.state.get_mut()
            && let Some(mut process) = state.process.take()
        {
            let _ = process.child.kill();
            let _ = process.child.wait();
            process.guard.dismiss();
        }
    }
}
