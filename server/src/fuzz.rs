//! What a stranger's bytes reach first, for the fuzz targets to call: HTTP requests, and frames of a WebSocket.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use auricle_engine::Catalog;
use fastwebsockets::{Role, WebSocket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use url::Url;

use crate::config::{Config, Role as NodeRole};
use crate::http::{Surface, connection};
use crate::live::socket::{Incoming, Socket};
use crate::routes::Router;
use crate::serve::{Urls, assemble};
use crate::state::AppState;
use crate::store::Store;

/// A service without an engine, whose connections are memory.
pub struct Service {
    runtime: Runtime,
    app: Arc<AppState>,
    api: Arc<Router>,
    storage: Arc<Router>,
    key: String,
}

impl Service {
    /// Opens one in `data`, an empty folder; once a process.
    ///
    /// # Errors
    /// One line, if it cannot start.
    pub fn start(data: &Path) -> Result<Self, String> {
        crate::outbound::install_tls_provider();
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let (app, key) = runtime.block_on(async {
            let told = |error: crate::store::Error| error.to_string();
            let config =
                Config { data: data.into(), role: NodeRole::Api, request_limit: u32::MAX, ..Config::default() };
            let store = Store::open(&Store::url_in(data)).await.map_err(told)?;
            let account = store.account_of("fuzz@localhost", 1_000_000).await.map_err(told)?;
            let key = store.create_key(&account.id, "fuzz").await.map_err(told)?.secret;
            let catalog = Catalog::read(&config.models).map_err(|error| error.to_string())?;
            let url = Url::parse("http://127.0.0.1:1").map_err(|error| error.to_string())?;
            let urls = Urls { api: url.clone(), storage: url.clone(), dashboard: url };
            Ok::<_, String>((assemble(config, store, "secret".into(), catalog, None, &urls)?, key))
        })?;
        let (api, storage) = (Arc::new(Router::new(Surface::Api)), Arc::new(Router::new(Surface::Storage)));
        Ok(Self { runtime, app: Arc::new(app), api, storage, key })
    }

    /// A key of the service's account.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sends bytes over one connection, then no more; all that comes back.
    pub fn answer(&self, bytes: &[u8], to_storage: bool) -> Vec<u8> {
        let router = if to_storage { &self.storage } else { &self.api };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        self.runtime.block_on(async {
            let (client, server) = tokio::io::duplex(64 << 10);
            let served = tokio::spawn(connection(self.app.clone(), router.clone(), peer, server));
            let (mut read, mut write) = tokio::io::split(client);
            let send = async {
                // A service that has heard enough may hang up.
                let _ = write.write_all(bytes).await;
                let _ = write.shutdown().await;
            };
            let mut answer = Vec::new();
            let (_, _) = tokio::join!(send, read.read_to_end(&mut answer));
            let _ = served.await;
            answer
        })
    }
}

/// What a session makes of a connection's bytes, once it is a WebSocket: the length of every message, and the code that it
/// was, or is to be, closed with.
pub fn frames(runtime: &Runtime, bytes: &[u8]) -> (Vec<usize>, Option<u16>) {
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let mut socket = Socket::new(WebSocket::after_handshake(server, Role::Server));
        let send = async move {
            let _ = client.write_all(bytes).await;
            // What comes back is nobody's concern; a pong fits the buffer.
            drop(client);
        };
        let hear = async {
            let mut lengths = Vec::new();
            loop {
                match socket.next().await {
                    Incoming::Binary(bytes) | Incoming::Ping(bytes) => lengths.push(bytes.len()),
                    Incoming::Text(text) => lengths.push(text.len()),
                    Incoming::Close(code) => return (lengths, code),
                    Incoming::Broken(code) => return (lengths, Some(code)),
                    Incoming::Gone => return (lengths, None),
                }
            }
        };
        tokio::join!(send, hear).1
    })
}
