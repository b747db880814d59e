//! An SMTP server on this machine, of another make: Python's aiosmtpd.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::optional::skip;
use crate::service::eventually;

/// The server.
pub struct MailServer {
    port: u16,
    python: PathBuf,
    /// A certificate and its key.
    certificate: Option<(PathBuf, PathBuf)>,
    process: Option<Child>,
    letters: Arc<Mutex<Vec<Value>>>,
}

impl MailServer {
    /// A server that is not running yet, on a port that is free. None, with a note, where the machine lacks aiosmtpd.
    pub fn stopped() -> Option<Self> {
        let folder = std::env::var_os("AURICLE_PYTHON_TOOLS").map(PathBuf::from);
        let python = folder.map_or_else(|| PathBuf::from("python3"), |folder| folder.join("python"));
        let has = Command::new(&python).args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            skip("the Python package aiosmtpd (pip install aiosmtpd, AURICLE_PYTHON_TOOLS=ENVIRONMENT/bin)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        Some(Self { port, python, certificate: None, process: None, letters: Arc::default() })
    }

    /// A running server.
    pub fn start() -> Option<Self> {
        let mut server = Self::stopped()?;
        server.run();
        Some(server)
    }

    /// A running server that wants STARTTLS, the user `auricle` and [`Self::PASSWORD`].
    pub fn start_with_tls(certificate: &Path, key: &Path) -> Option<Self> {
        let mut server = Self::stopped()?;
        server.certificate = Some((certificate.to_owned(), key.to_owned()));
        server.run();
        Some(server)
    }

    /// The password of the server with TLS.
    pub const PASSWORD: &'static str = "the mail password";

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server and waits until it listens.
    pub fn run(&mut self) {
        let mut command = Command::new(&self.python);
        command.arg(crate::fixtures().join("../clients/mail_server.py")).args(["--port", &self.port.to_string()]);
        if let Some((certificate, key)) = &self.certificate {
            command.arg("--certificate").arg(certificate).arg("--key").arg(key);
        }
        // It ends with its standard input, and so with this program.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("Python starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let first = lines.next().expect("the server says that it listens").expect("a line");
        assert_eq!(first, "ready");
        let letters = self.letters.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                letters.lock().unwrap().push(serde_json::from_str(&line).expect("a letter in JSON"));
            }
        });
        self.process = Some(process);
    }

    /// The letters to an address so far.
    pub fn letters(&self, to: &str) -> Vec<Value> {
        let letters = self.letters.lock().unwrap();
        letters.iter().filter(|letter| letter["to"] == serde_json::json!([to])).cloned().collect()
    }

    /// Waits for a number of letters to an address.
    pub fn wait(&self, to: &str, count: usize) -> Vec<Value> {
        eventually("a letter", || Some(self.letters(to)).filter(|letters| letters.len() >= count))
    }

    /// Waits for a letter to an address and returns the path of its first link below `base`.
    pub fn link(&self, to: &str, base: &str) -> String {
        let letter = self.wait(to, 1).pop().expect("a letter");
        let body = letter["body"].as_str().expect("text").to_owned();
        let link = body.lines().find_map(|line| line.trim().strip_prefix(base));
        link.unwrap_or_else(|| panic!("no link: {body}")).to_owned()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
