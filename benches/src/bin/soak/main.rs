//! Soak test: several nodes under mixed load and a series of faults.

mod faults;
mod load;
mod verify;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use auricle_benches::process::resident_mb;
use auricle_tests::{Account, Bucket, Receiver, Service, Setup};
use clap::Parser;

use faults::{Database, Faults};
use load::Load;

/// Soak test: three nodes under mixed load, with a fault every few seconds
///
/// Starts PostgreSQL with a synchronous replica, an S3 server and three nodes on them. Clients upload recordings, name URLs, wait
/// for webhooks and hold live sessions, and repeat what failed, as clients do. Each minute a node is killed, a node is frozen, the
/// database restarts or fails over to its replica, and the bucket is away. At the end every job that was accepted must be completed,
/// billed once and notified; every session that was opened must be billed once; and the node that is never killed must not have
/// grown. The exit status is 1 if any of this does not hold.
#[derive(Parser)]
#[command(after_help = "Examples:
  tests/soak.sh 30
  cargo run --release --bin soak -- --minutes 2 --seed 7

PostgreSQL must be installed (Debian: apt-get install postgresql). AURICLE_BIN names the auricle program to start, if it is not the
one of this build.")]
struct Arguments {
    /// Length of the load, in minutes
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    minutes: f64,
    /// Clients that send recordings
    #[arg(long, default_value_t = 3)]
    recordings: usize,
    /// Clients that hold a live session
    #[arg(long, default_value_t = 3)]
    sessions: usize,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|minutes: &f64| *minutes > 0.0).ok_or_else(|| "a positive number is needed".into())
}

/// A worker without a heartbeat for this time is dead. A frozen node is frozen for longer.
const LEASE_S: u64 = 5;
/// The interval of memory measurements.
const SAMPLE: Duration = Duration::from_secs(5);

/// The parts of one deployment.
struct Deployment {
    nodes: Vec<Service>,
    bucket: Bucket,
    receiver: Receiver,
    account: Account,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { minutes, recordings, sessions, seed } = arguments;
    let database = Database::start().ok_or("PostgreSQL is missing (Debian: apt-get install postgresql)")?;
    let bucket = Bucket::new();
    let setup = bucket
        .keeps(Setup::local().starter())
        .with("database_url", database.url())
        .with("job_lease_seconds", LEASE_S)
        .with("webhook_retry_seconds", "[1, 2, 4, 8, 16, 16, 16, 16]")
        .with("free_credit_cents", 100_000_000);
    let nodes: Vec<Service> = (0..3).map(|_| setup.clone().start()).collect();
    let account = nodes[0].account();
    let deployment = Deployment { nodes, bucket, receiver: Receiver::new(), account };
    eprintln!("3 nodes, PostgreSQL with a synchronous replica, S3: {minutes} minutes, seed {seed}");

    let load = Load::new(&deployment, seed);
    let memory = Mutex::new(Vec::new());
    let stops = AtomicBool::new(false);
    let length = Duration::from_secs_f64(minutes * 60.0);
    let mut faults = Faults::new(&deployment, database, seed);
    std::thread::scope(|scope| {
        for client in 0..recordings {
            let (load, stops) = (&load, &stops);
            scope.spawn(move || load.send_recordings(client as u64, stops));
        }
        for client in 0..sessions {
            let (load, stops) = (&load, &stops);
            scope.spawn(move || load.hold_sessions(client as u64, stops));
        }
        scope.spawn(|| {
            while !stops.load(Ordering::Relaxed) {
                memory.lock().unwrap().push(resident_mb(deployment.nodes[0].process_id()));
                std::thread::sleep(SAMPLE);
            }
        });
        faults.inject(Instant::now() + length, || load.progress());
        stops.store(true, Ordering::Relaxed);
    });
    eprintln!("the load has ended: {}", load.progress());
    let memory = memory.into_inner().unwrap();
    verify::verify(&deployment, &load, &faults.injected, &memory)
}
