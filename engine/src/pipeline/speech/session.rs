//! A stream of speech: text in as it is written, frames out as they are said.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tokio::sync::futures::OwnedNotified;

use super::feed::{Feed, FeedState, SpeechPermit};
use super::framing::Framing;
use super::pacing::{Pace, wake_at};
use crate::error::{Error, Result};
use crate::pipeline::executors::device::{DeviceExecutor, StreamOutput, StreamRequest};
use crate::pipeline::executors::speech::voice_model::{ModelVoice, VoiceModel};
use crate::pipeline::executors::speech::{Progress, SpeechRequest};
use crate::scheduler::{Priority, Results, Scheduler};
use crate::speech::{SPEECH_RATE, SpeakOptions, SpeechFrame};

/// Text of a stream of speech. Dropped before [`SpeechInput::finish`], it ends the stream at once.
pub struct SpeechInput {
    feed: Arc<Feed>,
    finished: bool,
}

/// Frames of a stream of speech, a [`Stream`] of them. Dropped, it ends the stream at once.
pub struct SpeechFrames {
    feed: Arc<Feed>,
    results: Results<StreamOutput>,
    framing: Framing,
    ready: VecDeque<SpeechFrame>,
    /// Phrases that have been heard to their end.
    ended_phrases: usize,
    /// Samples of the frames that the caller has.
    given: u64,
    pace: Option<Pace>,
    /// The device's queue has no room.
    full: Option<Pin<Box<OwnedNotified>>>,
    /// The framing is complete.
    all_framed: bool,
    /// Nothing follows.
    ended: bool,
}

/// Opens a stream on the worker, of at most `most` beside those that `open` counts.
///
/// # Errors
/// [`Error::InvalidOption`] for options; [`Error::Busy`] when there is no room; [`Error::Checkpoint`] when the voice makes no sound.
pub(crate) fn open(
    scheduler: &Scheduler<DeviceExecutor>,
    model: Arc<VoiceModel>,
    voice: ModelVoice,
    options: &SpeakOptions,
    (most, open): (usize, &Arc<AtomicUsize>),
) -> Result<(SpeechInput, SpeechFrames)> {
    options.check()?;
    if options.speed != 1.0 && !model.has_speeds() {
        return Err(Error::InvalidOption(
            "this voice has one speed: leave the speed at 1, or choose another voice".into(),
        ));
    }
    let permit = SpeechPermit::take(most, open)?;
    let measures = model.measures(&voice)?;
    let progress = Arc::<Progress>::default();
    let request = StreamRequest::Speech(Box::new(SpeechRequest {
        model: model.clone(),
        voice,
        speed: options.speed,
        measures,
        paced: options.paced,
        account: options.account.clone(),
        progress: progress.clone(),
    }));
    // A listener waits for paced speech; other speech is as urgent as a recording.
    let priority = if options.paced { Priority::Speech } else { Priority::Offline };
    let (stream, results) = scheduler.open(request, priority)?;
    let framing = Framing::new(model.sample_rate())?;
    let feed = Arc::new(Feed::new(model, stream, permit, progress));
    let frames = SpeechFrames {
        feed: feed.clone(),
        results,
        framing,
        ready: VecDeque::new(),
        ended_phrases: 0,
        given: 0,
        pace: options.paced.then(Pace::default),
        full: None,
        all_framed: false,
        ended: false,
    };
    Ok((SpeechInput { feed, finished: false }, frames))
}

impl SpeechInput {
    /// Pushes text, in pieces of any size; whole clauses are said as soon as there are any. It does not wait: text that is not said yet
    /// takes memory, so that a caller with much of it waits by [`SpeechInput::caught_up`].
    ///
    /// # Errors
    /// None at present: faults of the text are none, and those of the device come with the frames.
    pub fn push(&mut self, text: &str) -> Result<()> {
        self.feed.push(text);
        Ok(())
    }

    /// Completes when little text waits to be said, or the stream has ended. The frames have to be read at the same time.
    pub async fn caught_up(&self) {
        self.feed.caught_up().await;
    }

    /// [`SpeechInput::caught_up`] for a thread that may block.
    pub fn blocking_caught_up(&self) {
        cubecl::future::block_on(self.caught_up());
    }

    /// Ends the text: the rest of it is said, then the frames end.
    pub fn finish(mut self) {
        self.finished = true;
        self.feed.finish();
    }
}

impl Drop for SpeechInput {
    fn drop(&mut self) {
        if !self.finished {
            self.feed.close();
        }
    }
}

impl SpeechFrames {
    /// The next frame; none when all is said, or the input was dropped before its end.
    ///
    /// # Errors
    /// [`Checkpoint`](crate::Error::Checkpoint), [`Device`](crate::Error::Device) and the like end the stream.
    pub async fn next(&mut self) -> Option<Result<SpeechFrame>> {
        poll_fn(|context| self.poll_frame(context)).await
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<SpeechFrame>>> {
        match self.poll_frame_or_error(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Some(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(end) => {
                self.ended = true;
                self.feed.close();
                Poll::Ready(end.transpose())
            }
        }
    }

    fn poll_frame_or_error(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<SpeechFrame>>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        // Phrases go to the device before the caller is given what is ready: it computes meanwhile.
        let mut over = self.all_framed || self.advance(context.waker(), context)?;
        loop {
            if let Some(frame) = self.ready.front() {
                let length = Duration::from_secs_f64(frame.samples.len() as f64 / f64::from(SPEECH_RATE));
                if let Some(due) = self.pace.as_ref().and_then(|pace| pace.due(length, Instant::now())) {
                    wake_at(due, context.waker().clone())?;
                    return Poll::Pending;
                }
                if let Some(pace) = &mut self.pace {
                    pace.given(length, Instant::now());
                }
                self.given += frame.samples.len() as u64;
                if self.pace.is_some() {
                    self.feed.delivered(self.framing.model_samples(self.given));
                }
                return Poll::Ready(Ok(self.ready.pop_front()));
            }
            if self.all_framed {
                return Poll::Ready(Ok(None));
            }
            if over {
                self.framing.finish(&mut self.ready)?;
                self.all_framed = true;
                continue;
            }
            match self.results.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(output)) => {
                    let output = output.and_then(StreamOutput::speech)?;
                    self.ended_phrases += usize::from(output.ends_phrase);
                    self.framing.push(output, &mut self.ready)?;
                    over = self.advance(context.waker(), context)?;
                }
                // The input was dropped before its end.
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Gives the device more phrases; true when all is said.
    fn advance(&mut self, waker: &Waker, context: &mut Context<'_>) -> Result<bool> {
        loop {
            match self.feed.advance(self.ended_phrases, waker)? {
                FeedState::Over => return Ok(true),
                FeedState::Saying => return Ok(false),
                FeedState::Full(room) => {
                    let mut room = Box::pin(room);
                    if room.as_mut().poll(context).is_pending() {
                        self.full = Some(room);
                        return Ok(false);
                    }
                }
            }
        }
    }
}

impl Drop for SpeechFrames {
    fn drop(&mut self) {
        self.feed.close();
    }
}

impl Stream for SpeechFrames {
    type Item = Result<SpeechFrame>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_frame(context)
    }
}

impl std::fmt::Debug for SpeechInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeechInput").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SpeechFrames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeechFrames").finish_non_exhaustive()
    }
}
