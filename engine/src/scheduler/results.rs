//! Results of a stream, which end with an explicit message: a worker that died never looks like the end of a stream.

use tokio::sync::mpsc;

use crate::error::{Error, Result};

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
pub(super) type Outputs<T> = mpsc::UnboundedSender<Message<T>>;

/// The outputs of a stream, in order.
#[derive(Debug)]
pub struct Results<T> {
    messages: mpsc::UnboundedReceiver<Message<T>>,
    ended: bool,
}

impl<T> Results<T> {
    pub(super) fn channel() -> (Outputs<T>, Self) {
        let (outputs, messages) = mpsc::unbounded_channel();
        (outputs, Self { messages, ended: false })
    }

    /// The next output; `None` once the stream is complete.
    ///
    /// # Errors
    /// The error that ended the stream, once; [`Error::Internal`] if the worker is gone and the stream is not complete.
    pub async fn next(&mut self) -> Option<Result<T>> {
        if self.ended {
            return None;
        }
        let message = self.messages.recv().await;
        self.ended = !matches!(message, Some(Message::Output(_)));
        match message {
            Some(Message::Output(output)) => Some(Ok(output)),
            Some(Message::Failed(error)) => Some(Err(error)),
            Some(Message::Done) => None,
            None => Some(Err(Error::internal("the device's worker ended before the stream was complete"))),
        }
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
