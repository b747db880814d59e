//! Checks of what the service needs: ports, disks, the data folder, open files.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use reqwest::Client;

use super::Finding;
use crate::api::health::{LEAST_FREE_BYTES, free_bytes};
use crate::checkpoints::decimal_bytes;
use crate::cli::{Failure, Result, runtime};
use crate::config::{Config, Role};
use crate::serve::open_files;

/// The longest wait for a service that may run.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// With less free space a disk is soon full.
const LITTLE_FREE_BYTES: u64 = 2 << 30;

/// The keys and addresses of the listeners.
fn listeners(config: &Config) -> Vec<(&'static str, SocketAddr)> {
    let mut all = vec![("listen", config.listen)];
    if config.role != Role::Worker {
        all.extend([("storage_listen", config.storage_listen), ("dashboard_listen", config.dashboard_listen)]);
        all.extend(config.wyoming.map(|address| ("wyoming", address)));
    }
    all.extend(config.health_listen.map(|address| ("health_listen", address)));
    all
}

/// # Errors
/// If there are no threads.
pub fn ports(config: &Config) -> Result<Vec<Finding>> {
    let is_running = runtime()?.block_on(is_auricle(config.listen))?;
    Ok(listeners(config).into_iter().map(|(key, address)| port(key, address, is_running)).collect())
}

fn port(key: &'static str, address: SocketAddr, is_running: bool) -> Finding {
    let subject = "port";
    let flag = key.replace('_', "-");
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(subject, format!("{address} is free for {key}")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_running => {
            Finding::ok(subject, format!("{address} is in use, and the service runs"))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let message = format!("{address} of {key} is taken by another program");
            let free = TcpListener::bind((address.ip(), 0)).and_then(|listener| listener.local_addr());
            let free = free.unwrap_or_else(|_| SocketAddr::new(address.ip(), 0));
            Finding::broken(subject, message, format!("auricle serve --{flag} {free}"))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let message = format!("{address} of {key} is not for this user: {error}");
            Finding::broken(subject, message, "sudo setcap cap_net_bind_service=+ep \"$(command -v auricle)\"")
        }
        Err(error) => {
            let message = format!("{address} of {key} cannot be listened on: {error}");
            Finding::broken(subject, message, format!("auricle serve --{flag} 127.0.0.1:{}", address.port()))
        }
    }
}

/// Tells if the API of this program answers at an address.
async fn is_auricle(address: SocketAddr) -> Result<bool> {
    let client = Client::builder().timeout(ANSWER_TIMEOUT).no_proxy().build();
    let client = client.map_err(|error| Failure::Service(error.to_string()))?;
    let answer = client.get(format!("http://{address}/openapi.json")).send().await;
    Ok(match answer {
        Ok(answer) => answer.text().await.is_ok_and(|text| text.contains("\"Auricle\"")),
        Err(_) => false,
    })
}

pub fn disks(config: &Config) -> Vec<Finding> {
    let temporary = std::env::temp_dir();
    let places = [("data", &*config.data), ("models", &*config.models), ("temporary files", &*temporary)];
    places.into_iter().map(|(what, folder)| disk(what, folder)).collect()
}

/// The room and the permissions of a folder, or of the place where it would be made.
fn disk(what: &str, folder: &Path) -> Finding {
    let subject = "disk";
    let here = Path::new(".");
    let parents = folder.ancestors().map(|parent| if parent.as_os_str().is_empty() { here } else { parent });
    let mut there = parents.filter(|parent| parent.exists());
    let Some(place) = there.next() else {
        return Finding::broken(subject, format!("{} is nowhere", folder.display()), "pwd");
    };
    let shown = folder.display();
    if let Err(error) = tempfile::tempfile_in(place) {
        let message = format!("{shown}, for {what}, takes no files: {error}");
        // The catalog and the checkpoints are read alone.
        let mend = format!("sudo chown -R \"$USER\" {}", place.display());
        return match what {
            "models" => Finding::warning(subject, format!("{message}; nothing can be pulled"), mend),
            _ => Finding::broken(subject, message, mend),
        };
    }
    match free_bytes(place) {
        Ok(Some(free)) => {
            let message = format!("{shown}, for {what}, has {} free", decimal_bytes(free));
            let mend = format!("du -xh --max-depth=1 {} | sort -h", place.display());
            match free {
                0..LEAST_FREE_BYTES => Finding::broken(subject, message, mend),
                LEAST_FREE_BYTES..LITTLE_FREE_BYTES => Finding::warning(subject, message, mend),
                _ => Finding::ok(subject, message),
            }
        }
        Ok(None) => Finding::ok(subject, format!("{shown}, for {what}, takes files")),
        Err(error) => {
            Finding::broken(subject, format!("{shown}, for {what}: {error}"), format!("df -h {}", place.display()))
        }
    }
}

pub fn open_files(config: &Config) -> Vec<Finding> {
    let subject = "open files";
    let listeners = listeners(config).len();
    let needed = open_files::needed(listeners, config.max_connections);
    let least = open_files::needed(listeners, open_files::LEAST_CONNECTIONS);
    let mend = format!("ulimit -n {needed}   (a service of systemd: LimitNOFILE={needed})");
    vec![match open_files::highest() {
        None => Finding::ok(subject, "no limit"),
        Some(highest) if highest >= needed => Finding::ok(subject, format!("{highest}, and {needed} are needed")),
        Some(highest) if highest >= least => {
            let message = format!("{highest}, and {needed} are needed for all connections: it takes fewer");
            Finding::warning(subject, message, mend)
        }
        Some(highest) => Finding::broken(subject, format!("{highest}, and the service needs {least} at least"), mend),
    }]
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_port_that_is_taken_names_one_that_is_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let finding = port("storage_listen", address, false);
        assert_eq!(finding.state, State::Broken);
        let mend = finding.mend.unwrap();
        let free: SocketAddr = mend.strip_prefix("auricle serve --storage-listen ").unwrap().parse().unwrap();
        assert!(free != address && TcpListener::bind(free).is_ok(), "{mend}");
        assert_eq!(port("listen", address, true).state, State::Ok);
        drop(taken);
        assert_eq!(port("listen", "192.0.2.1:80".parse().unwrap(), false).state, State::Broken);
    }

    #[test]
    fn a_folder_that_is_not_there_is_judged_by_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert_ne!(disk("data", &folder.path().join("a/b/c")).state, State::Broken);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let finding = disk("data", &file.join("data"));
        assert_eq!(finding.state, State::Broken, "{finding:?}");
    }
}
