//! A client of the service's API.

use std::future::Future;
use std::sync::OnceLock;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, RequestBuilder, Version};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::service::eventually;

/// Runs a future to its end on a runtime that all tests share.
pub fn block_on<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime")).block_on(future)
}

/// The HTTP client: no redirects, no proxy, one connection for each request.
pub fn http() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| client(|builder| builder))
}

/// The same client over HTTP/2 without TLS, with prior knowledge.
pub fn http2() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| client(reqwest::ClientBuilder::http2_prior_knowledge))
}

fn client(more: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder) -> Client {
    // Fails where another test has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A pooled connection to a killed service would fail an unrelated request.
    let builder = Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().pool_max_idle_per_host(0);
    more(builder.tls_certs_only([])).build().expect("a client")
}

/// A response with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The HTTP version.
    pub version: Version,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// Sends a request. None without a complete response.
    pub fn try_of(request: RequestBuilder) -> Option<Self> {
        block_on(async {
            let response = request.send().await.ok()?;
            let (status, version) = (response.status().as_u16(), response.version());
            let headers = response.headers().clone();
            Some(Self { status, version, headers, body: response.bytes().await.ok()? })
        })
    }

    /// Sends a request.
    pub fn of(request: RequestBuilder) -> Self {
        let what = format!("{request:?}");
        Self::try_of(request).unwrap_or_else(|| panic!("no answer to {what}"))
    }

    /// A header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header of visible characters"))
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// The body as JSON; fails if the content type is another.
    pub fn json(&self) -> Value {
        let kind = self.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/json"), "content-type {kind:?} of {}: {:?}", self.status, self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The JSON body; fails if the status is not 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{:?}", self.body);
        self.json()
    }

    /// Asserts an error of this status and code in the common error shape. Returns its message.
    #[track_caller]
    pub fn error(&self, status: u16, code: &str) -> String {
        let got = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "wanted {status} {code}: {got}");
        let body = self.json();
        assert_eq!(body["error"]["code"], code, "wanted {status} {code}: {got}");
        let message = body["error"]["message"].as_str().expect("error.message is a string");
        assert!(!message.is_empty(), "an error without a message: {got}");
        message.to_owned()
    }
}

/// An account with one of its keys.
#[derive(Clone, Debug)]
pub struct Account {
    /// The base address of the API.
    pub api: String,
    /// The secret of the key.
    pub key: String,
    /// The account's name.
    pub email: String,
}

impl Account {
    /// The same account on another node.
    pub fn at(&self, api: &str) -> Self {
        Self { api: api.to_owned(), ..self.clone() }
    }

    /// A request with the key.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        http().request(method, format!("{}{path}", self.api)).header(AUTHORIZATION, format!("Bearer {}", self.key))
    }

    /// GET.
    pub fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path))
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path))
    }

    /// POST of a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_raw(path, "application/json", body.to_string())
    }

    /// POST without a body.
    pub fn post_empty(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::POST, path))
    }

    /// POST of any body.
    pub fn post_raw(&self, path: &str, kind: &str, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.request(Method::POST, path).header(CONTENT_TYPE, kind).body(body))
    }

    /// Asks for a signed URL.
    pub fn sign(&self, filename: &str, kind: &str) -> Signed {
        Signed(self.post("/v2/uploads/sign", &json!({"filename": filename, "content_type": kind})).ok())
    }

    /// Completes an upload.
    pub fn complete(&self, upload: &str) -> Answer {
        self.post_empty(&format!("/v2/uploads/{upload}/complete"))
    }

    /// Signs, sends and completes an upload. Returns its id.
    pub fn upload(&self, filename: &str, bytes: impl Into<Bytes>) -> String {
        let signed = self.sign(filename, "audio/wav");
        let put = signed.put(bytes);
        assert_eq!(put.status, 200, "{:?}", put.body);
        self.complete(signed.id()).ok();
        signed.id().to_owned()
    }

    /// Creates a transcript. Returns its id.
    #[track_caller]
    pub fn create(&self, body: &Value) -> String {
        let made = self.post("/v2/transcripts", body).ok();
        made["id"].as_str().expect("an id").to_owned()
    }

    /// The transcript as it is now.
    #[track_caller]
    pub fn transcript(&self, id: &str) -> Value {
        self.get(&format!("/v2/transcripts/{id}")).ok()
    }

    /// Waits for a transcript to end: `completed` or `error`.
    pub fn finished(&self, id: &str) -> Value {
        eventually("the transcript ends", || {
            // A service that restarts does not respond, or responds with a 5xx status.
            let answer = Answer::try_of(self.request(Method::GET, &format!("/v2/transcripts/{id}")))?;
            (answer.status < 500)
                .then(|| answer.ok())
                .filter(|now| now["status"] == "completed" || now["status"] == "error")
        })
    }

    /// Creates a transcript of these bytes and waits for its completion.
    #[track_caller]
    pub fn transcribe(&self, filename: &str, bytes: impl Into<Bytes>) -> Value {
        let id = self.create(&json!({"upload_id": self.upload(filename, bytes)}));
        let done = self.finished(&id);
        assert_eq!(done["status"], "completed", "{done}");
        done
    }

    /// The usage events, newest first.
    pub fn usage(&self) -> Vec<Value> {
        const PAGE: usize = 100;
        let page = |offset: usize| self.get(&format!("/v2/usage?limit={PAGE}&offset={offset}")).ok()["data"].clone();
        let mut events: Vec<Value> = Vec::new();
        loop {
            let page = page(events.len());
            let page = page.as_array().expect("events");
            events.extend(page.iter().cloned());
            if page.len() < PAGE {
                return events;
            }
        }
    }

    /// The usage events of one transcript.
    pub fn bills(&self, transcript: &str) -> Vec<Value> {
        self.usage().into_iter().filter(|event| event["transcript_id"] == transcript).collect()
    }

    /// The credit object.
    pub fn credits(&self) -> Value {
        self.get("/v2/credits").ok()
    }
}

/// The response of the sign request.
#[derive(Clone, Debug)]
pub struct Signed(pub Value);

impl Signed {
    /// The upload's id.
    pub fn id(&self) -> &str {
        self.0["upload_id"].as_str().expect("upload_id")
    }

    /// The signed URL.
    pub fn url(&self) -> &str {
        self.0["url"].as_str().expect("url")
    }

    /// The headers that the PUT must send.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let headers = self.0["headers"].as_object().expect("headers");
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str().expect("a header's value"))).collect()
    }

    /// The PUT with exactly those headers, and no key.
    pub fn request(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let request = http().put(self.url()).body(body);
        self.headers().into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Sends the bytes.
    pub fn put(&self, bytes: impl Into<Bytes>) -> Answer {
        Answer::of(self.request(bytes.into()))
    }
}
