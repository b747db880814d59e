//! A headless Chromium, controlled through the Chrome DevTools Protocol.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

use crate::optional::skip;
use crate::service::eventually;

/// One page of a browser whose microphone plays a recording.
pub struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    next: u64,
    _profile: TempDir,
}

impl Browser {
    /// Opens a page with a WAV file as its microphone. None, with a note, where the machine lacks a browser.
    pub fn open(page: &str, microphone: &Path) -> Option<Self> {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let started = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(|name| {
            Command::new(name)
                .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
                .args(["--remote-debugging-port=0", "--autoplay-policy=no-user-gesture-required"])
                .args(["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", "--window-size=900,700"])
                .arg(format!("--use-file-for-fake-audio-capture={}%noloop", microphone.display()))
                .arg(format!("--user-data-dir={}", profile.path().display()))
                .arg("about:blank")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .ok()
        });
        let Some(mut process) = started else {
            skip("no Chromium found (Debian: apt-get install chromium)");
            return None;
        };
        let mut said = BufReader::new(process.stderr.take().expect("its standard error")).lines();
        let address = said.find_map(|line| Some(line.ok()?.split_once("listening on ws://")?.1.to_owned()));
        let host = address.expect("the browser says where it listens").split('/').next().unwrap_or_default().to_owned();
        // The browser goes on writing; a full pipe would block it.
        std::thread::spawn(move || said.for_each(drop));
        let tab = eventually("a page of the browser", || {
            let list = crate::http().get(format!("http://{host}/json/list")).send();
            let list: Value =
                serde_json::from_str(&crate::block_on(async { list.await.ok()?.text().await.ok() })?).ok()?;
            list.as_array()?.iter().find(|tab| tab["type"] == "page")?["webSocketDebuggerUrl"]
                .as_str()
                .map(str::to_owned)
        });
        let stream = TcpStream::connect(&host).expect("the browser listens");
        let (socket, _) = tungstenite::client(tab.as_str(), stream).expect("the browser takes a WebSocket");
        let mut browser = Self { process, socket, next: 0, _profile: profile };
        browser.ask("Page.enable", &json!({}));
        browser.ask("Page.navigate", &json!({ "url": page }));
        Some(browser)
    }

    /// Sends one command of the protocol and returns its result.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let question = json!({ "id": self.next, "method": method, "params": params });
        self.socket.send(Message::text(question.to_string())).expect("the browser takes commands");
        loop {
            let Message::Text(answer) = self.socket.read().expect("the browser answers") else { continue };
            let answer: Value = serde_json::from_str(&answer).expect("an answer in JSON");
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Evaluates a script on the page and returns its value as text.
    pub fn run(&mut self, script: &str) -> String {
        let result = self.ask("Runtime.evaluate", &json!({ "expression": script, "userGesture": true }));
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].as_str().map_or_else(|| result["result"]["value"].to_string(), str::to_owned)
    }

    /// A screenshot of the page: PNG in base64.
    pub fn picture(&mut self) -> String {
        self.ask("Page.captureScreenshot", &json!({}))["data"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
