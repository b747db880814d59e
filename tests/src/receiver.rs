//! An HTTP server on this machine: receives webhooks, serves audio, and can misbehave.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::media::silence;
use crate::service::{eventually, unique};

/// A response of the server.
#[derive(Clone)]
pub enum Reply {
    /// A status, nothing else.
    Status(u16),
    /// A status and a body.
    Body(u16, &'static str, Bytes),
    /// A 302 to this URL.
    Redirect(String),
    /// Half of a 200's body at once, the rest when the gate opens.
    Held(Bytes, Gate),
    /// No response.
    Silence,
    /// The connection closes without a response.
    Disconnect,
}

impl Reply {
    /// A recording.
    pub fn audio(bytes: impl Into<Bytes>) -> Self {
        Self::Body(200, "audio/wav", bytes.into())
    }
}

/// Holds replies back until it is opened.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its method.
    pub method: String,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Delivery {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }
}

#[derive(Default)]
struct Place {
    /// The last response repeats.
    replies: VecDeque<Reply>,
    deliveries: Vec<Delivery>,
}

type Places = Arc<Mutex<HashMap<String, Place>>>;

/// The server. A path without a response of its own responds with 200.
pub struct Receiver {
    address: SocketAddr,
    places: Places,
    runtime: Mutex<Option<Runtime>>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// Listens on 127.0.0.1.
    pub fn new() -> Self {
        Self::on("127.0.0.1")
    }

    /// Listens on a free port of an address.
    pub fn on(host: &str) -> Self {
        let address = SocketAddr::new(host.parse().expect("an address"), 0);
        let mut receiver = Self { address, places: Places::default(), runtime: Mutex::default() };
        receiver.address = receiver.listen();
        receiver
    }

    fn listen(&self) -> SocketAddr {
        let (runtime, address) = listen(self.address, Arc::clone(&self.places));
        *self.runtime.lock().unwrap() = Some(runtime);
        address
    }

    /// Listens again on the same address.
    pub fn start(&self) {
        self.listen();
    }

    /// Closes every connection and refuses new ones.
    pub fn stop(&self) {
        let runtime = self.runtime.lock().unwrap().take();
        runtime.expect("it runs").shutdown_background();
        eventually("the port is free", || std::net::TcpListener::bind(self.address).ok());
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The URL of a path with these responses, one after the other; the last one repeats.
    pub fn answers(&self, path: &str, replies: impl IntoIterator<Item = Reply>) -> String {
        self.places.lock().unwrap().entry(path.to_owned()).or_default().replies = replies.into_iter().collect();
        self.url(path)
    }

    /// The URL of a second of silence.
    pub fn sound(&self) -> String {
        self.answers(&format!("/{}.wav", unique("sound")), [Reply::audio(silence(1.0))])
    }

    /// The URL of a second of silence whose second half is held back until the gate opens.
    pub fn held(&self) -> (String, Gate) {
        let gate = Gate::new();
        let reply = Reply::Held(silence(1.0).into(), gate.clone());
        (self.answers(&format!("/{}.wav", unique("held")), [reply]), gate)
    }

    /// Requests received on a path.
    pub fn deliveries(&self, path: &str) -> Vec<Delivery> {
        let places = self.places.lock().unwrap();
        places.get(path).map(|place| place.deliveries.clone()).unwrap_or_default()
    }

    /// Waits for this many requests on a path.
    pub fn wait(&self, path: &str, count: usize) -> Vec<Delivery> {
        eventually("a request reaches the receiver", || {
            Some(self.deliveries(path)).filter(|deliveries| deliveries.len() >= count)
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Ok(runtime) = self.runtime.get_mut()
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

/// Serves `places` on a runtime of its own; dropping the runtime closes every connection.
fn listen(address: SocketAddr, places: Places) -> (Runtime, SocketAddr) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind(address)).expect("the receiver's port");
    let address = listener.local_addr().expect("its address");
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let places = Arc::clone(&places);
            let service = service_fn(move |request| answer(request, Arc::clone(&places)));
            tokio::spawn(async move {
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (runtime, address)
}

async fn answer(
    request: Request<Incoming>,
    places: Places,
) -> Result<Response<Either<Full<Bytes>, HeldBody>>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "the request ended early")?.to_bytes();
    let reply = {
        let mut places = places.lock().unwrap();
        let place = places.entry(head.uri.path().to_owned()).or_default();
        place.deliveries.push(Delivery { method: head.method.to_string(), headers: head.headers, body });
        match place.replies.len() {
            0 => Reply::Status(200),
            1 => place.replies[0].clone(),
            _ => place.replies.pop_front().expect("more than one"),
        }
    };
    let response = Response::builder();
    let empty = Either::Left(Full::default());
    let response = match reply {
        Reply::Status(status) => response.status(status).body(empty),
        Reply::Body(status, kind, bytes) => {
            response.status(status).header("content-type", kind).body(Either::Left(Full::new(bytes)))
        }
        Reply::Redirect(to) => response.status(302).header("location", to).body(empty),
        Reply::Held(bytes, gate) => {
            response.header("content-type", "audio/wav").body(Either::Right(HeldBody::new(bytes, &gate)))
        }
        Reply::Silence => std::future::pending().await,
        Reply::Disconnect => return Err("closed as asked"),
    };
    response.map_err(|_| "a reply that is no HTTP")
}

/// A body whose second half waits for a gate.
struct HeldBody {
    parts: VecDeque<Bytes>,
    open: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HeldBody {
    fn new(mut bytes: Bytes, gate: &Gate) -> Self {
        let first = bytes.split_to(bytes.len() / 2);
        let mut gate = gate.0.subscribe();
        let open = Box::pin(async move {
            // An error means that the gate was dropped; the body goes on.
            let _ = gate.wait_for(|open| *open).await;
        });
        Self { parts: [first, bytes].into(), open }
    }
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.parts.len() == 1 && self.open.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(self.parts.pop_front().map(|part| Ok(Frame::data(part))))
    }
}
