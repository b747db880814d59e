//! The places of a runner: workers, which transcribe, and downloads. Accounts take turns at both.

use std::collections::{HashMap, HashSet};

use tokio::sync::{mpsc, oneshot};

use crate::ids::AccountId;
use crate::sharing::{Place, Places, Round};

/// A worker that a job has taken. It is free again when this value is dropped.
pub type Worker = Place;

/// How a claimed job starts.
pub enum Start {
    /// With a worker: its audio is on this machine.
    Stored(Worker),
    /// With a download.
    Fetched(Download),
}

/// A place for a download. The job holds it until it has a worker, which bounds the files that wait.
pub struct Download {
    _place: Option<Place>,
    queue: mpsc::Sender<Fetched>,
}

impl Download {
    /// Waits until it is the job's turn. None if the runner has ended.
    pub async fn wait_for_worker(self, account: &AccountId) -> Option<Worker> {
        let (start, started) = oneshot::channel();
        self.queue.send(Fetched { account: account.clone(), start }).await.ok()?;
        started.await.ok()
    }
}

/// A job whose audio has been fetched.
struct Fetched {
    account: AccountId,
    start: oneshot::Sender<Worker>,
}

pub struct Queue {
    /// The last free one is for an account that has none, so that no job of one account holds up those of all others.
    workers: Places,
    worker_count: usize,
    work_round: Round,
    downloads: Places,
    download_round: Round,
    /// Fetched jobs, oldest first.
    fetched: Vec<Fetched>,
    sender: mpsc::Sender<Fetched>,
    receiver: mpsc::Receiver<Fetched>,
    /// Stored and fetched jobs alternate while there are both.
    fetched_next: bool,
}

impl Queue {
    pub fn new(workers: usize, downloads: usize) -> Self {
        let (sender, receiver) = mpsc::channel(downloads);
        Self {
            workers: Places::new(workers),
            worker_count: workers,
            work_round: Round::default(),
            downloads: Places::new(downloads),
            download_round: Round::default(),
            fetched: Vec::new(),
            sender,
            receiver,
            fetched_next: false,
        }
    }

    /// Waits for a job to be fetched.
    pub async fn receive(&mut self) {
        // There is always a sender.
        self.fetched.extend(self.receiver.recv().await);
    }

    pub fn has_free_worker(&self) -> bool {
        self.workers.has_free()
    }

    /// Takes a worker for a stored job, of an account that [`Queue::no_work`] does not name.
    pub fn start_stored(&mut self, account: &AccountId) -> Option<Start> {
        self.work_round.record(account);
        self.fetched_next = true;
        self.workers.try_take(account).map(Start::Stored)
    }

    /// Starts fetched jobs while workers are free.
    pub fn start_fetched(&mut self) {
        while self.start_fetched_in_turn() || (!self.fetched.is_empty() && self.begin_work_round()) {}
    }

    pub fn takes_fetched_next(&self) -> bool {
        self.fetched_next
    }

    /// Starts the oldest fetched job of an account that had no turn in this round. False if there is none, or no worker.
    pub fn start_fetched_in_turn(&mut self) -> bool {
        while let Ok(fetched) = self.receiver.try_recv() {
            self.fetched.push(fetched);
        }
        self.fetched.retain(|job| !job.start.is_closed());
        let served = self.work_round.served();
        let taken = self.fetched.iter().enumerate().filter(|(_, job)| !served.contains(&job.account));
        let taken = taken.filter_map(|(index, job)| Some((index, self.workers.try_take(&job.account)?))).next();
        let Some((index, worker)) = taken else { return false };
        let Fetched { account, start } = self.fetched.remove(index);
        self.work_round.record(&account);
        self.fetched_next = false;
        // A job that has ended meanwhile returns its worker.
        drop(start.send(worker));
        true
    }

    /// The accounts that may not take a worker now: they had their turn in this round, or hold their share.
    pub fn no_work(&self) -> HashSet<AccountId> {
        self.work_round.served().union(&self.workers.satisfied()).cloned().collect()
    }

    /// Begins a round. False if no account had a turn since the last one.
    pub fn begin_work_round(&mut self) -> bool {
        self.work_round.begin()
    }

    pub fn begin_download_round(&mut self) -> bool {
        self.download_round.begin()
    }

    pub fn may_download(&self) -> bool {
        self.downloads.has_free()
    }

    /// The accounts that may not fetch now: they had their turn, hold their share, or have enough fetched jobs to keep all
    /// workers at work.
    pub fn no_download(&self) -> HashSet<AccountId> {
        let mut waiting: HashMap<&AccountId, usize> = HashMap::new();
        for job in &self.fetched {
            *waiting.entry(&job.account).or_default() += 1;
        }
        let enough = waiting.into_iter().filter(|(_, count)| *count >= self.worker_count);
        let mut accounts = self.downloads.satisfied();
        accounts.extend(enough.map(|(account, _)| account.clone()));
        accounts.extend(self.download_round.served().iter().cloned());
        accounts
    }

    /// Takes a place for a download.
    pub fn download(&mut self, account: &AccountId) -> Start {
        self.download_round.record(account);
        Start::Fetched(Download { _place: self.downloads.try_take(account), queue: self.sender.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_of_one_account_leave_a_worker_to_others() {
        let (mut queue, greedy, other) = (Queue::new(2, 8), AccountId::new(), AccountId::new());
        let held = queue.start_stored(&greedy);
        assert!(matches!(held, Some(Start::Stored(_))) && queue.has_free_worker());
        let Start::Fetched(download) = queue.download(&greedy) else { panic!("not fetched") };
        let account = greedy.clone();
        let waiting = tokio::spawn(async move { download.wait_for_worker(&account).await });
        queue.receive().await;
        queue.begin_work_round();
        assert!(queue.no_work().contains(&greedy) && !queue.start_fetched_in_turn());
        assert!(!queue.no_work().contains(&other) && queue.start_stored(&other).is_some());
        drop(held);
        assert!(!queue.no_work().contains(&greedy) && queue.start_fetched_in_turn());
        assert!(waiting.await.unwrap().is_some());
    }
}
