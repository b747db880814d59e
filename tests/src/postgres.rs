//! A PostgreSQL server on this machine.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::guard::CleanupGuard;
use crate::optional::skip;
use crate::service::{eventually, unique};

/// A server in a temporary folder, on a port of its own.
pub struct Postgres {
    programs: PathBuf,
    dir: TempDir,
    port: u16,
    as_root: bool,
    guard: Option<CleanupGuard>,
}

impl Postgres {
    /// Starts a server. None, with a note, where the machine lacks PostgreSQL.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            skip("no PostgreSQL found (Debian: apt-get install postgresql)");
            return None;
        };
        let mut server = Self::prepare(programs);
        run(server
            .program("initdb")
            .args(["--no-sync", "-A", "trust", "-U", "auricle", "-E", "UTF8", "-D"])
            .arg(server.cluster()));
        server.begin();
        Some(server)
    }

    /// A server without a cluster yet.
    fn prepare(programs: PathBuf) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let as_root = std::fs::metadata(dir.path()).is_ok_and(|data| data.uid() == 0);
        if as_root {
            run(Command::new("chown").arg("postgres").arg(dir.path()));
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        Self { programs, dir, port, as_root, guard: None }
    }

    /// Starts the server for the first time.
    fn begin(&mut self) {
        self.resume();
        let lock = self.cluster().join("postmaster.pid");
        let script = "kill -QUIT $(head -n 1 \"$1\"); rm -rf \"$2\"";
        self.guard =
            Some(CleanupGuard::new(script, &[lock.to_str().expect("UTF-8"), self.dir.path().to_str().expect("UTF-8")]));
    }

    /// Starts a replica of this server by streaming replication. From now on a commit waits for the replica: what was
    /// acknowledged is on both.
    pub fn replica(&self) -> Self {
        let mut replica = Self::prepare(self.programs.clone());
        run(replica
            .program("pg_basebackup")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "auricle", "-c", "fast", "-R", "-D"])
            .arg(replica.cluster()));
        replica.begin();
        self.set("synchronous_standby_names", "*");
        eventually("the replica follows", || {
            let query = "select 1 / count(*) from pg_stat_replication where sync_state = 'sync'";
            self.can(&self.url("postgres"), query).then_some(())
        });
        replica
    }

    /// Makes a replica the server that takes writes. It has no replica itself.
    pub fn promote(&self) {
        run(self.program("pg_ctl").args(["-w", "-D"]).arg(self.cluster()).arg("promote"));
        // The replica began as a copy of the other server, its settings included.
        self.set("synchronous_standby_names", "");
    }

    fn set(&self, setting: &str, value: &str) {
        let server = self.url("postgres");
        self.sql(&server, &format!("alter system set {setting} = '{value}'"));
        self.sql(&server, "select pg_reload_conf()");
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://auricle@127.0.0.1:{}/{database}", self.port)
    }

    fn cluster(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// One of PostgreSQL's programs, as another user than root, which the server refuses.
    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = if self.as_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir("/").env("LC_ALL", "C");
        command
    }

    /// Starts the server again.
    pub fn resume(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c fsync=off -c max_connections=200",
            self.port,
            self.dir.path().display()
        );
        let log = self.dir.path().join("log");
        // Another program may have taken the port meanwhile.
        eventually("PostgreSQL starts", || {
            let mut start = self.program("pg_ctl");
            start.args(["-w", "-D"]).arg(self.cluster()).arg("-l").arg(&log).args(["-o", &options, "start"]);
            quietly(&mut start).then_some(())
        });
    }

    /// Stops the server at once, without a shutdown checkpoint.
    pub fn crash(&self) {
        run(self.program("pg_ctl").args(["-m", "immediate", "-D"]).arg(self.cluster()).arg("stop"));
    }

    /// Stops all of its processes, as if its machine hung, or lets them go on.
    pub fn hang(&self, hangs: bool) {
        let signal = if hangs { "-STOP" } else { "-CONT" };
        let lock = std::fs::read_to_string(self.cluster().join("postmaster.pid")).unwrap_or_default();
        let Some(main) = lock.lines().next() else { return };
        // The main process would replace children that end.
        quietly(Command::new("kill").args([signal, main]));
        quietly(Command::new("pkill").args([signal, "-P", main]));
    }

    fn psql(&self, database: &str, sql: &str) -> Command {
        let mut psql = self.program("psql");
        psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]);
        psql
    }

    /// Runs SQL in one of its databases.
    pub fn sql(&self, database: &str, sql: &str) {
        run(&mut self.psql(database, sql));
    }

    /// Runs SQL in one of its databases. True without an error.
    pub fn can(&self, database: &str, sql: &str) -> bool {
        quietly(&mut self.psql(database, sql))
    }

    /// The URL of a new, empty database.
    pub fn database(&self) -> String {
        let name = unique("auricle").replace('-', "_");
        let port = self.port.to_string();
        run(self.program("createdb").args(["-h", "127.0.0.1", "-p", &port, "-U", "auricle", &name]));
        self.url(&name)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.hang(false);
        quietly(self.program("pg_ctl").args(["-m", "immediate", "-D"]).arg(self.cluster()).arg("stop"));
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// The folder of the newest server's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    folders.filter(|folder| folder.join("initdb").is_file()).max()
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a command that leaves children behind; their output is discarded, since waiting for its end would block.
fn quietly(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it starts").success()
}
