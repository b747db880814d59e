//! An S3 server on this machine.

use std::net::SocketAddr;
use std::sync::Mutex;

use hyper::Method;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::service::{Setup, eventually};

const ACCESS_KEY: &str = "AKIATESTSOFAURICLE";
const SECRET_KEY: &str = "a-secret-that-only-the-tests-know";

/// One bucket, over a temporary folder.
pub struct Bucket {
    dir: TempDir,
    address: SocketAddr,
    runtime: Mutex<Option<Runtime>>,
    /// Part of the keys of objects whose reads wait.
    held: watch::Sender<Option<String>>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self::new()
    }
}

impl Bucket {
    /// Listens on a free port.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("recordings")).expect("the bucket");
        let mut bucket = Self {
            dir,
            address: ([127, 0, 0, 1], 0).into(),
            runtime: Mutex::default(),
            held: watch::Sender::default(),
        };
        bucket.address = bucket.listen();
        bucket
    }

    fn listen(&self) -> SocketAddr {
        let files = s3s_fs::FileSystem::new(self.dir.path()).expect("a file system");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(self.address)).expect("the server's port");
        let address = listener.local_addr().expect("its address");
        let held = self.held.subscribe();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (service, held) = (service.clone(), held.clone());
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let (service, mut held) = (service.clone(), held.clone());
                    async move {
                        if request.method() == Method::GET {
                            let key = request.uri().path().to_owned();
                            let free = |held: &Option<String>| held.as_ref().is_none_or(|held| !key.contains(held));
                            let _ = held.wait_for(free).await;
                        }
                        service.call(request.map(s3s::Body::from)).await
                    }
                });
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
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

    /// Lets reads of objects with `part` in their key wait until [`Bucket::release`].
    pub fn hold_reads(&self, part: &str) {
        self.held.send_replace(Some(part.into()));
    }

    /// Answers the reads that wait.
    pub fn release(&self) {
        self.held.send_replace(None);
    }

    /// Configures a service to store its objects in this bucket.
    pub fn keeps(&self, setup: Setup) -> Setup {
        setup
            .with("storage_url", "s3://recordings/kept")
            .with("s3_endpoint", format!("http://{}", self.address))
            .with("s3_region", "us-east-1")
            .with("s3_access_key_id", ACCESS_KEY)
            .with("s3_secret_access_key", SECRET_KEY)
    }

    /// Number of objects in the bucket.
    pub fn objects(&self) -> usize {
        count_files(&self.dir.path().join("recordings"))
    }
}

fn count_files(dir: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Ok(runtime) = self.runtime.get_mut()
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}
