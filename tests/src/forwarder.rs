//! A TCP forwarder, as the floating address of a database that fails over.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Listens on 127.0.0.1 and connects each client to the present target.
pub struct Forwarder {
    port: u16,
    target: watch::Sender<SocketAddr>,
    _runtime: Runtime,
}

impl Forwarder {
    /// A forwarder to a port of this machine.
    pub fn to(port: u16) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let own = listener.local_addr().expect("its address").port();
        let target = watch::Sender::new(local(port));
        let changes = target.clone();
        runtime.spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut changed = changes.subscribe();
                tokio::spawn(async move {
                    let address = *changed.borrow_and_update();
                    let Ok(mut server) = TcpStream::connect(address).await else { return };
                    // A connection to the former target ends with it.
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = changed.changed() => {}
                    }
                });
            }
        });
        Self { port: own, target, _runtime: runtime }
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads new clients to another port and ends all present connections.
    pub fn point_to(&self, port: u16) {
        self.target.send_replace(local(port));
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
