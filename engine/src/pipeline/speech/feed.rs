//! Text that is pushed and not said yet. The device gets a few phrases ahead of what it says; the phones of the rest are found when their
//! turn comes, so that any amount of text costs no more than its own memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput};
use crate::pipeline::executors::speech::Progress;
use crate::pipeline::executors::speech::phrase::Phrase;
use crate::pipeline::executors::speech::voice_model::VoiceModel;
use crate::scheduler::Stream;
use crate::text::speech::{Clause, ClauseSplitter};

/// Phrases that the device has and has not begun, at most.
const PHRASES_AHEAD: usize = 2;
/// Clauses that a writer who waits lets wait.
const CLAUSES_AHEAD: usize = 8;

/// Text of one stream, which its two halves share.
pub struct Feed {
    inner: Mutex<Inner>,
    progress: Arc<Progress>,
    /// Tells a writer that waits that clauses have gone, or the stream has ended.
    taken: Notify,
}

struct Inner {
    /// None once the stream has ended.
    open: Option<OpenFeed>,
    splitter: ClauseSplitter,
    /// The pushed text from `written_from` on.
    written: String,
    written_from: usize,
    clauses: VecDeque<Clause>,
    /// Phrases whose turn has come, for which the device has no room yet.
    phrases: VecDeque<Phrase>,
    /// Phrases that the device has got.
    sent: usize,
    /// No more text comes.
    finished: bool,
    /// Error of a push that nobody has heard of.
    failed: Option<Error>,
    reader: Option<Waker>,
}

struct OpenFeed {
    model: Arc<VoiceModel>,
    stream: Stream<DeviceExecutor>,
    _permit: SpeechPermit,
}

/// Room for one stream of speech, given back when dropped.
pub struct SpeechPermit(Arc<std::sync::atomic::AtomicUsize>);

impl SpeechPermit {
    /// # Errors
    /// [`Error::Busy`] when there are as many streams as there may be.
    pub fn take(most: usize, open: &Arc<std::sync::atomic::AtomicUsize>) -> Result<Self> {
        let one_more = |count: usize| (count < most).then_some(count + 1);
        match open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(Self(open.clone())),
            Err(_) => Err(Error::Busy("all voices are in use".into())),
        }
    }
}

impl Drop for SpeechPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The reason for a reader to wait.
pub enum FeedState {
    /// The device has phrases to say.
    Saying,
    /// The device's queue has no room: try again when it has.
    Full(tokio::sync::futures::OwnedNotified),
    /// All is said.
    Over,
}

impl Feed {
    pub fn new(
        model: Arc<VoiceModel>,
        stream: Stream<DeviceExecutor>,
        permit: SpeechPermit,
        progress: Arc<Progress>,
    ) -> Self {
        let inner = Inner {
            open: Some(OpenFeed { model, stream, _permit: permit }),
            splitter: ClauseSplitter::new(),
            written: String::new(),
            written_from: 0,
            clauses: VecDeque::new(),
            phrases: VecDeque::new(),
            sent: 0,
            finished: false,
            failed: None,
            reader: None,
        };
        Self { inner: Mutex::new(inner), progress, taken: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes text, and gives the device what it has room for.
    pub fn push(&self, text: &str) {
        let mut inner = self.lock();
        if inner.open.is_none() || inner.finished {
            return;
        }
        inner.written.push_str(text);
        let clauses = inner.splitter.push(text);
        inner.clauses.extend(clauses);
        self.send(&mut inner);
        if let Some(reader) = inner.reader.take() {
            reader.wake();
        }
    }

    /// Marks the end of the text.
    pub fn finish(&self) {
        let mut inner = self.lock();
        if !inner.finished {
            inner.finished = true;
            let rest = inner.splitter.finish();
            inner.clauses.extend(rest);
            self.send(&mut inner);
            if let Some(reader) = inner.reader.take() {
                reader.wake();
            }
        }
    }

    /// Ends the stream: the device computes no further step for it, and what is not said yet is forgotten.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.open = None;
        inner.clauses.clear();
        inner.phrases.clear();
        if let Some(reader) = inner.reader.take() {
            reader.wake();
        }
        self.taken.notify_waiters();
    }

    /// Gives the device what it has room for, for a reader that has heard `ended` phrases end.
    ///
    /// # Errors
    /// The error of phones that could not be found, which ends the stream.
    pub fn advance(&self, ended: usize, reader: &Waker) -> Result<FeedState> {
        let mut inner = self.lock();
        let full = self.send(&mut inner);
        if let Some(error) = inner.failed.take() {
            return Err(error);
        }
        let nothing_left = inner.clauses.is_empty() && inner.phrases.is_empty() && ended >= inner.sent;
        if inner.open.is_none() || (inner.finished && nothing_left) {
            inner.open = None;
            self.taken.notify_waiters();
            return Ok(FeedState::Over);
        }
        inner.reader = Some(reader.clone());
        Ok(full.map_or(FeedState::Saying, FeedState::Full))
    }

    /// Tells the device that the reader has taken so many samples in all, at the model's rate.
    pub fn delivered(&self, samples: u64) {
        self.progress.delivered.store(samples, Ordering::Release);
        if let Some(open) = &self.lock().open {
            open.stream.wake();
        }
    }

    /// Completes when few clauses wait, or the stream has ended.
    pub async fn caught_up(&self) {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            if !self.is_behind() {
                return;
            }
            taken.await;
        }
    }

    /// True while more clauses wait than a writer should add to.
    fn is_behind(&self) -> bool {
        let inner = self.lock();
        inner.open.is_some() && inner.clauses.len() > CLAUSES_AHEAD
    }

    /// Sends phrases while the device has few; gives what to wait for where its queue has no room.
    fn send(&self, inner: &mut Inner) -> Option<tokio::sync::futures::OwnedNotified> {
        let OpenFeed { model, stream, .. } = inner.open.as_ref()?;
        let mut full = None;
        loop {
            let begun = self.progress.begun.load(Ordering::Acquire);
            if inner.sent.saturating_sub(begun) >= PHRASES_AHEAD {
                break;
            }
            let Some(phrase) = inner.phrases.pop_front() else {
                let Some(clause) = inner.clauses.pop_front() else { break };
                let (text, from) = (&inner.written, inner.written_from);
                let written = |range: Range<usize>| {
                    let range = range.start.saturating_sub(from)..range.end.saturating_sub(from);
                    text.get(range).unwrap_or_default().to_owned()
                };
                match model.phrases(&clause, written) {
                    Ok(phrases) => inner.phrases.extend(phrases),
                    Err(error) => {
                        inner.failed = Some(error);
                        break;
                    }
                }
                // Text before the next clause is not needed again.
                let done = clause.tokens.iter().map(|token| token.written.end).max().unwrap_or(0);
                let done = done.saturating_sub(inner.written_from).min(inner.written.len());
                if inner.written.is_char_boundary(done) {
                    inner.written.drain(..done);
                    inner.written_from += done;
                }
                self.taken.notify_waiters();
                continue;
            };
            // Counts from before the try, so that no room is missed.
            let room = stream.room();
            match stream.push(StreamInput::Speech(phrase)) {
                Ok(()) => inner.sent += 1,
                Err(StreamInput::Speech(phrase)) => {
                    inner.phrases.push_front(phrase);
                    full = Some(room);
                    break;
                }
                Err(_) => break,
            }
        }
        full
    }
}
