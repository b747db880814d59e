//! A provider of OpenID Connect on this machine: the npm package oidc-provider.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::optional::skip;
use crate::service::{Service, Setup};
use crate::visitor::{Visitor, between};

/// The provider.
pub struct OpenIdProvider {
    port: u16,
    posts_secret: bool,
    process: Option<Child>,
}

impl OpenIdProvider {
    /// A provider that is not running yet, on a port that is free. None, with a note, where the machine lacks oidc-provider.
    pub fn stopped() -> Option<Self> {
        let modules = std::env::var_os("AURICLE_NODE_MODULES").map(std::path::PathBuf::from).unwrap_or_default();
        if !modules.join("oidc-provider").is_dir() {
            skip("the npm package oidc-provider (npm install oidc-provider, AURICLE_NODE_MODULES=.../node_modules)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        Some(Self { port, posts_secret: false, process: None })
    }

    /// The settings of a service that sends people to it.
    pub fn settings(&self, setup: Setup) -> Setup {
        setup
            .with("openid_issuer", self.issuer())
            .with("openid_client_id", "auricle")
            .with("openid_client_secret", "the secret of the client")
            .with("openid_name", "Example & Co")
    }

    /// From the next start on it takes the secret of a client in the form alone.
    pub fn take_secret_in_form(&mut self) {
        self.posts_secret = true;
    }

    /// Its address.
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it for a service, with new keys, and waits until it listens. One that runs is stopped before.
    pub fn run(&mut self, service: &Service) {
        self.stop();
        let mut command = Command::new("node");
        command.arg(crate::fixtures().join("../clients/openid_provider.mjs")).arg(self.port.to_string());
        command.arg(format!("{}/login/openid/callback", service.dashboard()));
        if self.posts_secret {
            command.arg("post");
        }
        // It ends with its standard input, and so with this program.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("Node starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let first = lines.by_ref().map_while(Result::ok).find(|line| line == "ready");
        assert!(first.is_some(), "the provider says that it listens");
        // It goes on to write, and would end without a reader.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(process);
    }

    /// Ends it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Goes from an address of the provider through its pages, as somebody of this name, and returns the path of the dashboard to
    /// which it leads back.
    pub fn sign_in(&self, service: &Service, url: &str, name: &str) -> String {
        let mut person = Visitor::at(&self.issuer());
        let back = service.dashboard();
        let mut path = url.strip_prefix(&self.issuer()).expect("an address of the provider").to_owned();
        for _ in 0..12 {
            let answer = person.get(&path);
            let next = match answer.header("location") {
                Some(location) => location.to_owned(),
                None => {
                    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
                    let page = answer.text().to_owned();
                    let prompt = between(&page, "name=\"prompt\" value=\"", "\"").expect("a form").to_owned();
                    let fields = [("prompt", prompt.as_str()), ("login", name), ("password", "any")];
                    let answer = person.post(&path, &fields);
                    answer.header("location").unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
                }
            };
            if let Some(callback) = next.strip_prefix(&back) {
                return callback.to_owned();
            }
            path = next.strip_prefix(&self.issuer()).unwrap_or(&next).to_owned();
        }
        panic!("the provider does not lead back: {path}");
    }
}

impl Drop for OpenIdProvider {
    fn drop(&mut self) {
        self.stop();
    }
}
