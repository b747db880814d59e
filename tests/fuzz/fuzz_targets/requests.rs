//! Arbitrary bytes on a connection of the API or the storage listener are answered, or turned away: never with a failure of
//! the service's own. `KEY` in them stands for a key that works.

#![no_main]

use std::sync::LazyLock;

use auricle_server::fuzz::Service;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static SERVICE: LazyLock<(TempDir, Service)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let service = Service::start(folder.path()).expect("a service");
    (folder, service)
});

fuzz_target!(|bytes: &[u8]| {
    let (_, service) = &*SERVICE;
    let Some((first, rest)) = bytes.split_first() else { return };
    let sent = with_key(rest, service.key().as_bytes());
    let answer = service.answer(&sent, *first == b'S');
    let failed = answer.windows(12).any(|line| line.starts_with(b"HTTP/1.1 5"));
    assert!(!failed, "{}", String::from_utf8_lossy(&answer));
});

fn with_key(bytes: &[u8], key: &[u8]) -> Vec<u8> {
    match bytes.windows(3).position(|three| three == b"KEY") {
        Some(at) => [&bytes[..at], key, &bytes[at + 3..]].concat(),
        None => bytes.to_vec(),
    }
}
