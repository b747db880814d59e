//! Results of a stream, which end with an explicit message: a worker that died never looks like the end of a stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::notify::Notify;
use crate::error::{Error, Result};

/// Unread outputs of a stream at most: a stream that nobody reads takes no further step.
pub(super) const UNREAD_OUTPUTS: usize = 64;

/// A message from the worker to the holder of a stream.
#[derive(Debug)]
pub(super) enum Message<T> {
    /// The output of a step.
    Output(T),
    /// The stream has failed. Nothing follows.
    Failed(Error),
    /// The stream is complete. Nothing follows.
    Done,
}

/// The worker's end of a stream's results.
pub(super) struct Outputs<T> {
    messages: mpsc::UnboundedSender<Message<T>>,
    unread: Arc<AtomicUsize>,
}

impl<T> Outputs<T> {
    /// Sends a message. The reader may be gone: then its stream is dropped soon.
    pub fn send(&self, message: Message<T>) {
        if matches!(message, Message::Output(_)) {
            self.unread.fetch_add(1, Ordering::AcqRel);
        }
        let _ = self.messages.send(message);
    }

    /// True if the reader is gone.
    pub fn is_closed(&self) -> bool {
        self.messages.is_closed()
    }

    /// True if the reader has to read before the stream goes on.
    pub fn is_full(&self) -> bool {
        !self.is_closed() && self.unread.load(Ordering::Acquire) >= UNREAD_OUTPUTS
    }
}

/// The outputs of a stream, in order.
#[derive(Debug)]
pub struct Results<T> {
    messages: mpsc::UnboundedReceiver<Message<T>>,
    unread: Arc<AtomicUsize>,
    worker: Arc<Notify>,
    ended: bool,
}

impl<T> Results<T> {
    pub(super) fn channel(worker: Arc<Notify>) -> (Outputs<T>, Self) {
        let (sender, messages) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        (Outputs { messages: sender, unread: unread.clone() }, Self { messages, unread, worker, ended: false })
    }

    /// The next output; `None` once the stream is complete. A stream takes no further step while 64 of them wait.
    ///
    /// # Errors
    /// The error that ended the stream, once; [`Error::Internal`] if the worker is gone and the stream is not complete.
    pub async fn next(&mut self) -> Option<Result<T>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Results::next`], for a task that polls.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let message = std::task::ready!(self.messages.poll_recv(context));
        self.ended = !matches!(message, Some(Message::Output(_)));
        Poll::Ready(match message {
            Some(Message::Output(output)) => {
                if self.unread.fetch_sub(1, Ordering::AcqRel) >= UNREAD_OUTPUTS {
                    self.worker.notify();
                }
                Some(Ok(output))
            }
            Some(Message::Failed(error)) => Some(Err(error)),
            Some(Message::Done) => None,
            None => Some(Err(Error::internal("the device's worker ended before the stream was complete"))),
        })
    }

    /// As [`Results::next`], for a thread that may block.
    ///
    /// # Errors
    /// As [`Results::next`].
    pub fn wait(&mut self) -> Option<Result<T>> {
        // The channel's own blocking receive panics on the threads of an asynchronous runtime.
        cubecl::future::block_on(self.next())
    }
}

impl<T> Drop for Results<T> {
    fn drop(&mut self) {
        // A stream that waited for this reader ends.
        self.messages.close();
        self.worker.notify();
    }
}
