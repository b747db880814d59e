//! A headless Chromium, controlled through the Chrome DevTools Protocol.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

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
        self.try_ask(method, params).unwrap_or_else(|| panic!("{method} failed"))
    }

    /// The same; none if the browser refuses it.
    fn try_ask(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.next += 1;
        let question = json!({ "id": self.next, "method": method, "params": params });
        self.socket.send(Message::text(question.to_string())).expect("the browser takes commands");
        loop {
            let Message::Text(answer) = self.socket.read().expect("the browser answers") else { continue };
            let answer: Value = serde_json::from_str(&answer).expect("an answer in JSON");
            if answer["id"] == self.next {
                if !answer["error"].is_null() {
                    eprintln!("{method}: {answer}");
                    return None;
                }
                return Some(answer["result"].clone());
            }
        }
    }

    /// Goes to another page and waits until it is there.
    pub fn go(&mut self, page: &str) {
        // A mark that the next page does not have.
        self.run("window.before = true");
        self.ask("Page.navigate", &json!({ "url": page }));
        self.arrive();
    }

    /// Does something that leads to another page, and waits until that is there.
    pub fn follow(&mut self, script: &str) {
        self.run(&format!("window.before = true; {script}; true"));
        self.arrive();
    }

    fn arrive(&mut self) {
        eventually("another page", || self.holds("!window.before && document.readyState == 'complete'").then_some(()));
    }

    /// True if a condition of the page holds. Between two pages none does: a script has nowhere to run, or finds half a page.
    pub fn holds(&mut self, condition: &str) -> bool {
        let how =
            json!({ "expression": format!("document.readyState != 'loading' && ({condition})"), "awaitPromise": true });
        let Some(result) = self.try_ask("Runtime.evaluate", &how) else { return false };
        assert!(result["exceptionDetails"].is_null(), "{condition}: {result}");
        result["result"]["value"] == true
    }

    /// Puts files into a field of the page.
    pub fn choose(&mut self, field: &str, files: &[&Path]) {
        // The browser reads no path with `..` in it.
        let files: Vec<_> = files.iter().map(|file| file.canonicalize().expect("the file")).collect();
        let document = self.ask("DOM.getDocument", &json!({}))["root"]["nodeId"].clone();
        let found = self.ask("DOM.querySelector", &json!({ "nodeId": document, "selector": field }));
        self.ask("DOM.setFileInputFiles", &json!({ "nodeId": found["nodeId"], "files": files }));
    }

    /// Presses a key as a keyboard does, with all that the browser does by itself: `Enter` or `Escape`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = if key == "Enter" { (13, "\r") } else { (27, "") };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    /// Types a text where the cursor stands, in the place of what is selected.
    pub fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", &json!({ "text": text }));
    }

    /// Sets the size of the page in pixels, and its colours.
    pub fn view(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let colours = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &colours);
    }

    /// Evaluates a script on the page, waits for its promise, and returns the value as text.
    pub fn run(&mut self, script: &str) -> String {
        let how = json!({ "expression": script, "userGesture": true, "awaitPromise": true });
        let result = self.ask("Runtime.evaluate", &how);
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].as_str().map_or_else(|| result["result"]["value"].to_string(), str::to_owned)
    }

    /// What axe-core finds against the accessibility of the page, each finding a line. Nothing, with a note, where the machine lacks
    /// it.
    pub fn findings(&mut self) -> Vec<String> {
        static AXE: LazyLock<Option<String>> = LazyLock::new(|| {
            let modules = PathBuf::from(std::env::var_os("AURICLE_NODE_MODULES")?);
            std::fs::read_to_string(modules.join("axe-core/axe.min.js")).ok()
        });
        let Some(axe) = &*AXE else {
            skip("the npm package axe-core (npm install axe-core, AURICLE_NODE_MODULES=FOLDER/node_modules)");
            return Vec::new();
        };
        if self.run("!!window.axe") != "true" {
            self.run(axe);
        }
        let found = self.run(
            "axe.run().then(found => JSON.stringify(found.violations.flatMap(rule => rule.nodes.map(node =>
                `${rule.id} at ${node.target.join(' ')}: ${node.failureSummary.replace(/\\s+/g, ' ')}`))))",
        );
        serde_json::from_str(&found).expect("a list of findings")
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
