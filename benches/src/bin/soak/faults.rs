//! The faults: each minute a kill, a freeze, a restart or failover of the database, and an outage of the bucket.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use auricle_tests::{Forwarder, Postgres};

use crate::{Deployment, LEASE_S};

/// PostgreSQL with a replica, behind one address.
pub struct Database {
    primary: Postgres,
    replica: Postgres,
    address: Forwarder,
    name: String,
}

impl Database {
    /// Starts both servers. None without PostgreSQL.
    pub fn start() -> Option<Self> {
        let primary = Postgres::start()?;
        let url = primary.database();
        let name = url.rsplit('/').next()?.to_owned();
        let replica = primary.replica();
        let address = Forwarder::to(primary.port());
        Some(Self { primary, replica, address, name })
    }

    /// The URL that stays valid when the database fails over.
    pub fn url(&self) -> String {
        format!("postgres://auricle@127.0.0.1:{}/{}", self.address.port(), self.name)
    }

    fn restart(&self) {
        self.primary.crash();
        sleep(Duration::from_secs(2));
        self.primary.resume();
    }

    /// The replica takes over, and gets a replica of its own.
    fn fail_over(&mut self) {
        self.primary.crash();
        self.replica.promote();
        self.address.point_to(self.replica.port());
        let next = self.replica.replica();
        self.primary = std::mem::replace(&mut self.replica, next);
    }
}

/// Faults in turn, until an end.
pub struct Faults<'a> {
    deployment: &'a Deployment,
    database: Database,
    random: Random,
    /// Number of each kind.
    pub injected: BTreeMap<&'static str, usize>,
}

/// The time from one fault to the next.
const INTERVAL: Duration = Duration::from_secs(15);

impl<'a> Faults<'a> {
    pub fn new(deployment: &'a Deployment, database: Database, seed: u64) -> Self {
        Self { deployment, database, random: Random::new(seed), injected: BTreeMap::new() }
    }

    /// Injects faults until the end, and reports each with the load's progress.
    ///
    /// The first node is never killed, so that its memory can be measured; it is frozen as the others are.
    pub fn inject(&mut self, end: Instant, progress: impl Fn() -> String) {
        let begin = Instant::now();
        for round in 0u32.. {
            let next = begin + INTERVAL * round + INTERVAL / 2;
            // The last fault leaves time to recover under load.
            if next + INTERVAL / 2 > end {
                break;
            }
            sleep(next.saturating_duration_since(Instant::now()));
            let fault = self.next(round);
            *self.injected.entry(fault).or_default() += 1;
            eprintln!("{:>5} s  {fault:<20} {}", begin.elapsed().as_secs(), progress());
        }
        sleep(end.saturating_duration_since(Instant::now()));
    }

    fn next(&mut self, round: u32) -> &'static str {
        let nodes = &self.deployment.nodes;
        match round % 4 {
            0 => {
                let node = &nodes[1 + self.random.below(nodes.len() as u64 - 1) as usize];
                node.kill();
                sleep(Duration::from_secs(2));
                node.start();
                "node killed"
            }
            1 => {
                let node = &nodes[self.random.below(nodes.len() as u64) as usize];
                node.signal("STOP");
                sleep(Duration::from_secs(LEASE_S + 3));
                node.signal("CONT");
                "node frozen"
            }
            2 if round % 8 == 2 => {
                self.database.restart();
                "database restarted"
            }
            2 => {
                self.database.fail_over();
                "database failed over"
            }
            _ => {
                self.deployment.bucket.stop();
                sleep(Duration::from_secs(4));
                self.deployment.bucket.start();
                "bucket away"
            }
        }
    }
}

/// A reproducible sequence of choices (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}
