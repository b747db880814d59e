//! Microphone and loudspeaker as standard input and output: raw samples of 16 bits, little-endian.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc;

use super::TICK;
use crate::cli::{Failure, Result};

/// Reads standard input piece by piece, no faster than the pieces are taken.
pub fn read(to: mpsc::Sender<Vec<i16>>) {
    // Never joined: it may wait for a pipe that does not end.
    thread::spawn(move || {
        let (mut stdin, mut bytes) = (io::stdin().lock(), [0; 2 * TICK]);
        loop {
            let mut filled = 0;
            while filled < bytes.len() {
                match stdin.read(&mut bytes[filled..]) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        tracing::error!("standard input: {error}");
                        break;
                    }
                }
            }
            let samples = bytes[..filled].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
            if to.blocking_send(samples).is_err() || filled < bytes.len() {
                return;
            }
        }
    });
}

/// Writes pieces to standard output as they come. A closed pipe ends it, and is no failure.
pub fn write(mut from: mpsc::Receiver<Vec<i16>>) -> JoinHandle<Result<()>> {
    thread::spawn(move || {
        let mut out = io::stdout().lock();
        while let Some(samples) = from.blocking_recv() {
            let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            out.write_all(&bytes)
                .and_then(|()| out.flush())
                .map_err(|source| Failure::Write { what: "to standard output".into(), source })?;
        }
        Ok(())
    })
}
