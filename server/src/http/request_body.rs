//! The body of a request: it must arrive at a least rate and without long pauses. What a handler leaves unread goes back to
//! the connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::transfer::TransferLimits;

/// An error of reading a body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("it did not arrive in time")]
    TooSlow,
    #[error("{0}")]
    Broken(#[from] hyper::Error),
}

/// The rest of a body once its request is dropped.
#[derive(Default)]
pub enum Rest {
    /// The whole body was read, or the request is still there.
    #[default]
    Nothing,
    /// The part that no handler has read. `begun` tells if some of it was.
    Body { body: Incoming, begun: bool },
    /// The body came too slowly or broke off.
    Abandoned,
}

/// Where the rest of a body is put.
pub type RestSlot = Arc<Mutex<Rest>>;

/// The body of a request.
pub struct RequestBody {
    /// None after an error.
    inner: Option<Incoming>,
    limits: TransferLimits,
    received: u64,
    /// Time spent waiting for the client. Time in which nobody reads does not count.
    waited: Duration,
    waiting: Option<Waiting>,
    rest: RestSlot,
}

/// A wait for the next part.
struct Waiting {
    since: Instant,
    timeout: Pin<Box<Sleep>>,
}

impl RequestBody {
    pub fn new(inner: Incoming, limits: TransferLimits, rest: RestSlot) -> Self {
        Self { inner: Some(inner), limits, received: 0, waited: Duration::ZERO, waiting: None, rest }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        match Pin::new(inner).poll_frame(context) {
            Poll::Ready(frame) => {
                if let Some(waiting) = this.waiting.take() {
                    this.waited += waiting.since.elapsed();
                }
                if let Some(Ok(frame)) = &frame {
                    this.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
            }
            Poll::Pending => {
                let (limits, received, waited) = (&this.limits, this.received, this.waited);
                let waiting = this.waiting.get_or_insert_with(|| {
                    let since = Instant::now();
                    let left = limits.longest(received).saturating_sub(waited).min(limits.stall);
                    Waiting { since, timeout: Box::pin(tokio::time::sleep_until(since + left)) }
                });
                if waiting.timeout.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                // The rest is not worth reading.
                this.inner = None;
                Poll::Ready(Some(Err(BodyError::TooSlow)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let begun = self.received > 0;
        let rest = match self.inner.take() {
            None => Rest::Abandoned,
            Some(body) if body.is_end_stream() => Rest::Nothing,
            Some(body) => Rest::Body { body, begun },
        };
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}
