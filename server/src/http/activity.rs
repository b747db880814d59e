//! Activity of a connection: its open requests and the progress of its responses. Decides when it has to be closed.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::response_body::{ResponseBody, ResponseBroken};
use super::transfer::TransferLimits;

/// The activity of one connection.
pub struct Activity {
    limits: TransferLimits,
    state: Mutex<State>,
}

struct State {
    /// Requests whose response has not been passed on entirely.
    open: usize,
    /// When the last of them ended; the start of the connection before the first.
    idle_since: Instant,
    had_request: bool,
    /// Responses that are being passed on.
    responses: Vec<ResponseProgress>,
    next_id: u64,
}

struct ResponseProgress {
    id: u64,
    began: Instant,
    last: Instant,
    bytes: u64,
    /// The client has read all there is, and waits for the service since then.
    waits_since: Option<Instant>,
    /// Time in which the client waited before. It is not the client's.
    waited: Duration,
}

/// The reason to close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// No request came.
    Silent,
    /// No further request came.
    Idle,
    /// The client did not read a response.
    NotRead,
}

impl Activity {
    pub fn new(limits: TransferLimits) -> Arc<Self> {
        let idle_since = Instant::now();
        let state = State { open: 0, idle_since, had_request: false, responses: Vec::new(), next_id: 0 };
        Arc::new(Self { limits, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request as open for as long as the value lives.
    pub fn request(self: &Arc<Self>) -> OpenRequest {
        let mut state = self.state();
        state.open += 1;
        state.had_request = true;
        OpenRequest(self.clone())
    }

    /// The reason to close the connection now, else the time of the next look.
    pub fn check(&self, now: Instant) -> Result<Instant, Expiry> {
        let (limits, state) = (&self.limits, self.state());
        // An event after this look may have an earlier deadline than those known now.
        let mut next = now + limits.shortest();
        if state.open == 0 {
            let (deadline, expiry) = if state.had_request {
                (state.idle_since + limits.idle, Expiry::Idle)
            } else {
                (state.idle_since + limits.head, Expiry::Silent)
            };
            if deadline <= now {
                return Err(expiry);
            }
            next = next.min(deadline);
        }
        for response in state.responses.iter().filter(|response| response.waits_since.is_none()) {
            let pause = response.last + limits.longest_response_pause(response.bytes);
            let deadline = pause.min(response.began + response.waited + limits.longest(response.bytes));
            if deadline <= now {
                return Err(Expiry::NotRead);
            }
            next = next.min(deadline);
        }
        Ok(next)
    }

    /// Waits until the connection has to be closed.
    pub async fn expired(&self) -> Expiry {
        loop {
            match self.check(Instant::now()) {
                Ok(next) => tokio::time::sleep_until(next + Duration::from_millis(1)).await,
                Err(expiry) => return expiry,
            }
        }
    }
}

/// A request that has not been answered entirely.
pub struct OpenRequest(Arc<Activity>);

impl OpenRequest {
    /// The body of the response to this request. Its progress counts.
    pub fn respond(self, body: ResponseBody) -> TrackedBody {
        let mut state = self.0.state();
        let (id, now) = (state.next_id, Instant::now());
        state.next_id += 1;
        state.responses.push(ResponseProgress {
            id,
            began: now,
            last: now,
            bytes: 0,
            waits_since: None,
            waited: Duration::ZERO,
        });
        drop(state);
        TrackedBody { body, id, request: self }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of a response whose progress is known to its connection.
pub struct TrackedBody {
    body: ResponseBody,
    id: u64,
    request: OpenRequest,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = ResponseBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBroken>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let passed_on = match &polled {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let mut state = self.request.0.state();
        if let Some(progress) = state.responses.iter_mut().find(|progress| progress.id == self.id) {
            let now = Instant::now();
            progress.last = now;
            progress.bytes += passed_on as u64;
            if let Some(since) = progress.waits_since.take() {
                progress.waited += now - since;
            }
            if polled.is_pending() {
                progress.waits_since = Some(now);
            }
        }
        drop(state);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.request.0.state().responses.retain(|progress| progress.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    const LIMITS: TransferLimits = TransferLimits {
        head: Duration::from_secs(15),
        idle: Duration::from_secs(75),
        stall: Duration::from_secs(30),
        bytes_per_second: 1000,
    };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_connection_expires_sooner_than_an_idle_one() {
        let activity = Activity::new(LIMITS);
        let start = Instant::now();
        assert!(activity.check(start).is_ok_and(|next| next <= start + seconds(15)));
        assert_eq!(activity.check(start + seconds(15)), Err(Expiry::Silent));
        let request = activity.request();
        assert!(activity.check(start + seconds(1000)).is_ok(), "a handler may take its time");
        drop(request);
        assert!(activity.check(start + seconds(74)).is_ok());
        assert_eq!(activity.check(start + seconds(80)), Err(Expiry::Idle));
    }

    #[tokio::test]
    async fn a_response_must_be_read_at_the_least_rate() {
        let activity = Activity::new(LIMITS);
        let start = Instant::now();
        let whole = ResponseBody::from(Bytes::from(vec![0; 100_000]));
        let mut body = activity.request().respond(whole);
        assert!(activity.check(start + seconds(29)).is_ok());
        assert_eq!(activity.check(start + seconds(35)), Err(Expiry::NotRead));
        let part = body.frame().await.unwrap().unwrap().into_data().unwrap().len();
        assert!(activity.check(start + seconds(35)).is_ok());
        assert_eq!(activity.check(start + seconds(35 + part as u64 / 1000)), Err(Expiry::NotRead));
        drop(body);
        assert!(activity.check(start + seconds(74)).is_ok());
        assert_eq!(activity.check(start + seconds(80)), Err(Expiry::Idle));
    }

    #[tokio::test]
    async fn a_client_that_waits_for_the_service_is_not_slow() {
        let activity = Activity::new(LIMITS);
        let start = Instant::now();
        let (sender, event) = tokio::sync::oneshot::channel();
        let parts = futures_util::stream::once(async { event.await.map_err(|_| ResponseBroken) });
        let mut body = activity.request().respond(ResponseBody::stream(parts));
        {
            let mut frame = std::pin::pin!(body.frame());
            assert!(futures_util::poll!(frame.as_mut()).is_pending());
            assert!(activity.check(start + seconds(1000)).is_ok(), "the service has nothing to send");
            sender.send(Bytes::from_static(b"event")).unwrap();
            assert!(frame.await.is_some());
        }
        assert!(activity.check(start + seconds(29)).is_ok());
        assert_eq!(activity.check(start + seconds(40)), Err(Expiry::NotRead), "then it has to read");
    }
}
