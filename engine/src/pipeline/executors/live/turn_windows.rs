//! Windows of the audio of live turns for their second pass, handed out as the turns go on.

use crate::models::silero::CHUNK;
use crate::vad::chunker::WindowLengths;
use crate::vad::turn_audio::TurnAudio;
use crate::vad::window::Window;

/// Samples in a millisecond.
const MS: usize = 16;
/// Sound ahead of a turn's first speech, samples: 300 ms.
const PRE_ROLL: usize = 300 * MS;
/// Audio that is kept between turns, samples: the pre-roll, and the delay of the detector.
const KEPT: usize = PRE_ROLL + 700 * MS;
/// Silence in which a turn may have ended, ms: its text is read at once, to be ready at the end.
const PAUSE_MS: usize = 160;
/// The same where turns are ended from outside: that may come at any moment.
const CUT_PAUSE_MS: usize = 64;
/// Speech between two windows of the turn so far, samples: one second.
const SO_FAR: usize = 1_000 * MS;

/// An event of a turn that its second pass follows.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnWindow {
    /// The turn since its last part.
    SoFar(Window),
    /// The turn since its last part, in a pause.
    Paused {
        /// The window, with a little of the pause.
        window: Window,
        /// The pause's first sample in the session.
        pause: usize,
        /// Further silence after which the turn ends, ms.
        ends_in_ms: u64,
    },
    /// Speech goes on after a pause.
    Resumed,
    /// A part of a long turn, whose rest follows.
    Part(Window),
    /// The turn has ended.
    Ended {
        /// Its last part; none if there is no more than the part before has.
        window: Option<Window>,
        /// First sample of the pause that it ended in.
        pause: Option<usize>,
    },
}

/// Follows the turns of a stream.
pub struct TurnWindows {
    audio: TurnAudio,
    /// First sample of the silence that goes on in the turn.
    pause: Option<usize>,
    /// The pause that was handed out.
    seen_pause: Option<usize>,
    /// End of the last window of the turn so far.
    seen: usize,
    /// Samples that are followed.
    followed: usize,
    in_turn: bool,
    /// True if turns are ended from outside, in any silence.
    is_cut: bool,
    ready: Vec<TurnWindow>,
}

impl TurnWindows {
    /// A stream without samples.
    pub fn new(lengths: WindowLengths) -> Self {
        Self {
            audio: TurnAudio::new(lengths),
            pause: None,
            seen_pause: None,
            seen: 0,
            followed: 0,
            in_turn: false,
            is_cut: false,
            ready: Vec::new(),
        }
    }

    /// Takes samples at 16 kHz.
    pub fn push(&mut self, samples: &[f32]) {
        self.audio.push(samples);
    }

    /// Follows the next chunk.
    pub fn follow(&mut self, probability: f32) {
        self.audio.follow(probability);
        self.followed += CHUNK;
        if !self.in_turn {
            self.audio.forget_before(self.followed.saturating_sub(KEPT));
        }
        while self.in_turn
            && let Some(part) = self.audio.next_part()
        {
            self.ready.push(TurnWindow::Part(part));
        }
    }

    /// Notes the silence since speech, ms; none while speech goes on.
    pub fn note_silence(&mut self, quiet_ms: Option<usize>) {
        self.pause = quiet_ms.map(|ms| self.followed.saturating_sub(ms * MS));
    }

    /// Notes that a turn is ended from outside: the next ones may be too.
    pub fn note_cut(&mut self) {
        self.is_cut = true;
    }

    fn pause_ms(&self) -> usize {
        if self.is_cut { CUT_PAUSE_MS } else { PAUSE_MS }
    }

    /// Begins a turn whose speech begins at this sample.
    pub fn begin(&mut self, speech: usize) {
        self.begin_at(speech.saturating_sub(PRE_ROLL));
    }

    /// Begins a turn at this sample, where the one before ended.
    pub fn begin_at(&mut self, sample: usize) {
        self.audio.forget_before(sample);
        (self.in_turn, self.seen_pause, self.seen) = (true, None, sample);
    }

    /// Hands out the turn so far, if it is time to: when everything that has come is followed. The turn ends after this
    /// silence, ms.
    pub fn look(&mut self, ending_silence_ms: u32) {
        if !self.in_turn {
            return;
        }
        let Some(pause) = self.pause else {
            if self.seen_pause.take().is_some() {
                self.ready.push(TurnWindow::Resumed);
            }
            if self.followed >= self.seen + SO_FAR {
                self.seen = self.followed;
                self.ready.extend(self.audio.rest(self.followed).map(TurnWindow::SoFar));
            }
            return;
        };
        let quiet_ms = self.followed.saturating_sub(pause) / MS;
        if quiet_ms >= self.pause_ms()
            && self.seen_pause != Some(pause)
            && let Some(window) = self.audio.rest(pause + self.pause_ms() * MS)
        {
            self.seen_pause = Some(pause);
            let ends_in_ms = u64::from(ending_silence_ms).saturating_sub(quiet_ms as u64);
            let ends_in_ms = if self.is_cut { 0 } else { ends_in_ms };
            self.ready.push(TurnWindow::Paused { window, pause, ends_in_ms });
        }
    }

    /// Ends the turn at this sample.
    pub fn end(&mut self, sample: usize) {
        let pause = self.pause.filter(|pause| *pause <= sample);
        let window = self.audio.rest(pause.map_or(sample, |pause| sample.min(pause + self.pause_ms() * MS)));
        self.ready.push(TurnWindow::Ended { window, pause });
        (self.in_turn, self.pause) = (false, None);
    }

    /// Takes what is handed out.
    pub fn take(&mut self) -> Vec<TurnWindow> {
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stream(TurnWindows, usize);

    impl Stream {
        /// Follows so many chunks of speech or silence, 32 ms each; returns what comes out.
        fn hear(&mut self, speech: bool, chunks: usize) -> Vec<TurnWindow> {
            for _ in 0..chunks {
                self.0.push(&[0.5; CHUNK]);
                self.0.follow(if speech { 0.9 } else { 0.1 });
                self.1 = if speech { 0 } else { self.1 + 32 };
                self.0.note_silence((self.1 > 0).then_some(self.1));
                self.0.look(700);
            }
            self.0.take()
        }
    }

    fn kinds(windows: &[TurnWindow]) -> Vec<&'static str> {
        let kind = |window: &TurnWindow| match window {
            TurnWindow::SoFar(_) => "so far",
            TurnWindow::Paused { .. } => "paused",
            TurnWindow::Resumed => "resumed",
            TurnWindow::Part(_) => "part",
            TurnWindow::Ended { .. } => "ended",
        };
        windows.iter().map(kind).collect()
    }

    #[test]
    fn a_pause_is_handed_out_once_and_its_end_too() {
        let mut stream = Stream(TurnWindows::new(WindowLengths::THIRTY_SECONDS), 0);
        assert_eq!(stream.hear(false, 100), []);
        stream.0.begin(90 * CHUNK);
        assert_eq!(kinds(&stream.hear(true, 63)), ["so far", "so far"]);
        assert_eq!(stream.hear(false, 4), [], "a breath");
        let paused = stream.hear(false, 10);
        let [TurnWindow::Paused { window, pause, ends_in_ms }] = paused.as_slice() else { panic!("{paused:?}") };
        assert_eq!((*pause, *ends_in_ms), (163 * CHUNK, 540));
        assert_eq!(window.start_ms, (90 * CHUNK / MS) as u64 - 300);
        assert_eq!(window.samples.len(), 163 * CHUNK + 160 * MS - (90 * CHUNK - PRE_ROLL));
        let resumed = stream.hear(true, 4);
        assert_eq!(kinds(&resumed)[..1], ["resumed"]);
        let paused = stream.hear(false, 22);
        assert_eq!(kinds(&paused), ["paused"]);
        stream.0.end(203 * CHUNK);
        let ended = stream.0.take();
        let [TurnWindow::Ended { window: Some(window), pause: Some(pause) }] = ended.as_slice() else {
            panic!("{ended:?}")
        };
        assert!(
            matches!(&paused[0], TurnWindow::Paused { window: before, pause: at, .. } if before == window && at == pause)
        );
        assert_eq!(stream.hear(false, 100), [], "nothing between turns");
        stream.0.note_cut();
        stream.0.begin(310 * CHUNK);
        assert_eq!(kinds(&[stream.hear(true, 10), stream.hear(false, 1)].concat()), Vec::<&str>::new());
        let paused = stream.hear(false, 1);
        assert!(matches!(paused[..], [TurnWindow::Paused { ends_in_ms: 0, .. }]), "it may end at once: {paused:?}");
    }

    #[test]
    fn a_turn_that_goes_on_begins_where_the_last_one_ended() {
        let mut stream = Stream(TurnWindows::new(WindowLengths::THIRTY_SECONDS), 0);
        stream.0.begin(0);
        stream.hear(true, 100);
        stream.0.end(90 * CHUNK);
        stream.0.begin_at(90 * CHUNK);
        stream.hear(true, 10);
        stream.0.end(110 * CHUNK);
        let windows = stream.0.take();
        let [.., TurnWindow::Ended { window: Some(last), pause: None }] = windows.as_slice() else {
            panic!("{windows:?}")
        };
        assert_eq!((last.start_ms, last.samples.len()), ((90 * CHUNK / MS) as u64, 20 * CHUNK));
    }

    #[test]
    fn a_long_turn_has_parts_and_a_rest() {
        let mut stream = Stream(TurnWindows::new(WindowLengths::THIRTY_SECONDS), 0);
        stream.0.begin(0);
        let mut windows = stream.hear(true, 625);
        windows.extend(stream.hear(false, 10));
        windows.extend(stream.hear(true, 625));
        stream.0.end(1260 * CHUNK);
        windows.extend(stream.0.take());
        let kinds = kinds(&windows);
        assert_eq!(kinds.iter().filter(|kind| **kind == "part").count(), 1, "{kinds:?}");
        assert!(windows.iter().all(|window| match window {
            TurnWindow::SoFar(window) | TurnWindow::Paused { window, .. } | TurnWindow::Part(window) => {
                window.samples.len() <= 30_000 * MS
            }
            TurnWindow::Ended { window, .. } =>
                window.as_ref().is_some_and(|window| window.samples.len() < 30_000 * MS),
            TurnWindow::Resumed => true,
        }));
    }
}
