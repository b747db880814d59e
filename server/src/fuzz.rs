//! Entry points of the fuzz targets: HTTP requests, and frames of a WebSocket.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use auricle_engine::Catalog;
use fastwebsockets::{Role, WebSocket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::config::{Config, Role as NodeRole};
use crate::dispatch::Dispatcher;
use crate::http::connection;
use crate::http::transfer::TransferLimits;
use crate::live::socket::{ClientMessage, MessageLimits, Socket};
use crate::routes::Surface;
use crate::serve::{Opened, PublicUrls, Service as Assembled, transfer_limits};
use crate::store::{Durability, Store};

/// Time for an answer before the client ends its side.
const GRACE: Duration = Duration::from_millis(5);

/// A service without an engine, reached through connections in memory.
pub struct Service {
    runtime: Runtime,
    api: Dispatcher,
    storage: Dispatcher,
    limits: TransferLimits,
    key: String,
}

impl Service {
    /// Opens a service in `data`, an empty folder. This is possible once per process.
    ///
    /// # Errors
    /// One line, if it cannot start.
    pub fn start(data: &Path) -> Result<Self, String> {
        crate::outbound::install_tls_provider();
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let (assembled, key) = runtime.block_on(async {
            let database_error = |error: crate::store::Error| error.to_string();
            let config =
                Config { data: data.into(), role: NodeRole::Api, request_limit: u32::MAX, ..Config::default() };
            let store = Store::open(&Store::url_in(data), Durability::Crash).await.map_err(database_error)?;
            let account = store.account_of("fuzz@localhost", 1_000_000).await.map_err(database_error)?;
            let key = store.create_key(&account.id, "fuzz", None).await.map_err(database_error)?.secret;
            let catalog = Catalog::read(&config.models).map_err(|error| error.to_string())?;
            let url = Url::parse("http://127.0.0.1:1").map_err(|error| error.to_string())?;
            let urls = PublicUrls { api: url.clone(), storage: url.clone(), dashboard: url, health: None };
            let (secret, engine) = ("secret".into(), None);
            let opened = Opened { config: &config, store, secret, catalog, engine, urls: &urls };
            Ok::<_, String>((Assembled::assemble(opened)?, key))
        })?;
        let dispatcher = |surfaces| Dispatcher::new(assembled.state.clone(), surfaces);
        let (api, storage) = (dispatcher(&[Surface::Api, Surface::Health]), dispatcher(&[Surface::Storage]));
        let limits = transfer_limits(&Config::default());
        Ok(Self { api, storage, limits, runtime, key })
    }

    /// A key of the service's account.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sends bytes over one connection, ends the sending side, and returns the whole response.
    pub fn answer(&self, bytes: &[u8], to_storage: bool) -> Vec<u8> {
        let dispatcher = if to_storage { &self.storage } else { &self.api };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        self.runtime.block_on(async {
            let (client, server) = tokio::io::duplex(64 << 10);
            let stopping = CancellationToken::new();
            let served = tokio::spawn(connection::serve(dispatcher.clone(), peer, server, None, self.limits, stopping));
            let (mut read, mut write) = tokio::io::split(client);
            let send = async {
                // The service may close the connection before it has read everything.
                let _ = write.write_all(bytes).await;
                // A client that ends its side has left, and is not answered.
                tokio::time::sleep(GRACE).await;
                let _ = write.shutdown().await;
            };
            let mut answer = Vec::new();
            let (_, _) = tokio::join!(send, read.read_to_end(&mut answer));
            let _ = served.await;
            answer
        })
    }
}

/// Parses the bytes of a WebSocket connection as a session does. Returns the length of every message and the close code.
pub fn frames(runtime: &Runtime, bytes: &[u8]) -> (Vec<usize>, Option<u16>) {
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let mut socket = Socket::new(WebSocket::after_handshake(server, Role::Server), MessageLimits::SHORT);
        let send = async move {
            let _ = client.write_all(bytes).await;
            // Replies are not checked; a pong fits the buffer.
            drop(client);
        };
        let receive = async {
            let mut lengths = Vec::new();
            loop {
                match socket.next().await {
                    ClientMessage::Binary(bytes) | ClientMessage::Ping(bytes) => lengths.push(bytes.len()),
                    ClientMessage::Text(text) => lengths.push(text.len()),
                    ClientMessage::Audio(samples) => lengths.push(samples.len()),
                    ClientMessage::Close(code) => return (lengths, code),
                    ClientMessage::ProtocolError(code) => return (lengths, Some(code)),
                    ClientMessage::Disconnected => return (lengths, None),
                }
            }
        };
        tokio::join!(send, receive).1
    })
}
