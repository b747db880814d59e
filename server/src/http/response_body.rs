//! The body of a response: bytes, or a stream that is produced as the client reads.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};

/// The size of the parts that a body is passed on in. It bounds what a connection buffers.
const PART_BYTES: usize = 64 << 10;

/// An error in the middle of a response. The cause is logged; the client sees that the connection ends early.
#[derive(Debug, thiserror::Error)]
#[error("the response could not be completed")]
pub struct ResponseBroken;

/// The parts of a streamed body.
type Parts = Pin<Box<dyn Stream<Item = Result<Bytes, ResponseBroken>> + Send>>;

/// The body of a response.
#[derive(Default)]
pub struct ResponseBody {
    /// Bytes that are ready.
    ready: Bytes,
    /// The parts after them.
    more: Option<Parts>,
}

impl ResponseBody {
    /// A body that `parts` produce one after another, each when the one before has been passed on.
    pub fn stream(parts: impl Stream<Item = Result<Bytes, ResponseBroken>> + Send + 'static) -> Self {
        Self { ready: Bytes::new(), more: Some(Box::pin(parts)) }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(ready: Bytes) -> Self {
        Self { ready, more: None }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBroken>>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            let Some(more) = &mut this.more else { return Poll::Ready(None) };
            match more.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => this.more = None,
                Poll::Ready(Some(Ok(part))) => this.ready = part,
                Poll::Ready(Some(Err(error))) => {
                    this.more = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let part = this.ready.split_to(this.ready.len().min(PART_BYTES));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.more.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.more {
            None => SizeHint::with_exact(self.ready.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_passed_on_in_small_parts() {
        let whole = Bytes::from(vec![7; PART_BYTES * 2 + 1]);
        let parts = stream::iter([Ok(Bytes::from_static(b"a")), Ok(Bytes::new()), Ok(whole.clone())]);
        for (mut body, size, expected) in [
            (ResponseBody::from(whole.clone()), Some(whole.len() as u64), vec![PART_BYTES, PART_BYTES, 1]),
            (ResponseBody::stream(parts), None, vec![1, PART_BYTES, PART_BYTES, 1]),
            (ResponseBody::default(), Some(0), vec![]),
        ] {
            assert_eq!(body.size_hint().exact(), size);
            let mut lengths = Vec::new();
            while let Some(frame) = body.frame().await {
                lengths.push(frame.unwrap().into_data().unwrap().len());
            }
            assert_eq!(lengths, expected);
            assert!(body.is_end_stream());
        }
    }

    #[tokio::test]
    async fn a_broken_stream_ends_with_its_error() {
        let parts = stream::iter([Ok(Bytes::from_static(b"a")), Err(ResponseBroken), Ok(Bytes::from_static(b"b"))]);
        assert!(ResponseBody::stream(parts).collect().await.is_err());
    }
}
