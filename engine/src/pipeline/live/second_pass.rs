//! The second pass of a session: its turns, read again by an offline model. A turn's text is ready when the turn ends, or soon after it,
//! or the first pass's stands; meanwhile the words on which two readings agree are shown. Without a first pass it is all there is.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::agreement::Agreement;
use super::alarm::wake_at;
use super::reading::{OfflineModel, Reading, WindowText};
use super::turns::{Caption, LiveEvent, LiveOutput};
use crate::error::Result;
use crate::language::ENGLISH;
use crate::options::ListenOptions;
use crate::pipeline::executors::device::DeviceExecutor;
use crate::pipeline::executors::live::TurnWindow;
use crate::pipeline::executors::second_pass::Urgency;
use crate::scheduler::StreamOpener;
use crate::text::itn;
use crate::text::tokens::{Spoken, joined};
use crate::vad::window::Window;

/// Time after which a reading of the turn so far gives its place to the next one.
const STALE: Duration = Duration::from_secs(4);

/// What the first pass does beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPass {
    /// It writes partials and finals. The formatted text waits for the second pass so long after the final.
    Writes {
        /// The wait.
        within: Duration,
        /// Token of the only language that it knows, where the session may have others: turns in these are the second pass's alone, and so
        /// is the first one until its language is known.
        only: Option<u32>,
        /// True if partials get the words on which readings agree.
        refreshed: bool,
    },
    /// There is none.
    None,
}

/// The second pass of a session.
pub struct SecondPass {
    model: OfflineModel,
    opener: StreamOpener<DeviceExecutor>,
    first: FirstPass,
    /// The language of the session, if it has one.
    language: Option<String>,
    format_numbers: bool,
    /// Token of the language that was likely spoken last.
    known: Option<u32>,
    /// The complete parts of a long turn, in order.
    parts: Vec<Part>,
    /// The turn up to a pause, by the pause's first sample.
    early: Option<(usize, Part)>,
    so_far: Option<(Instant, Part)>,
    /// The parts of the turn that has ended.
    ended: Option<Vec<Part>>,
    closing: Option<Closing>,
    agreement: Agreement,
    /// The first pass's last partial of the turn.
    partial: Option<Caption>,
    /// Text of the last partial.
    shown: String,
}

/// A turn that has ended and has no formatted text yet.
struct Closing {
    parts: Vec<Part>,
    first: Option<FirstText>,
    /// What follows the turn's events.
    then: Vec<LiveOutput>,
}

/// The first pass's text of a turn that has ended.
struct FirstText {
    /// The final, where it waits for the turn's language.
    raw: Option<Caption>,
    formatted: Caption,
    /// The time from which on it stands.
    due: Option<Instant>,
}

/// A window of the turn.
enum Part {
    Running(Box<Reading>),
    Done(WindowText),
    Missed,
}

impl Part {
    /// Follows the reading; true when its text is new.
    ///
    /// # Errors
    /// As [`Reading::poll`].
    fn poll(&mut self, context: &mut Context<'_>) -> Result<bool> {
        let Self::Running(reading) = self else { return Ok(false) };
        let Poll::Ready(read) = reading.poll(context) else { return Ok(false) };
        let read = read.inspect_err(|_| *self = Self::Missed)?;
        *self = read.map_or(Self::Missed, Self::Done);
        Ok(matches!(self, Self::Done(_)))
    }

    /// The words of a window that is read, with times from the start of the session.
    fn spoken(&self) -> Option<Spoken> {
        let Self::Done(text) = self else { return None };
        let mut spoken = Spoken::default();
        text.clone().join_to(&mut spoken);
        Some(spoken)
    }
}

impl SecondPass {
    /// Follows no turn yet.
    pub fn new(
        model: OfflineModel,
        opener: StreamOpener<DeviceExecutor>,
        first: FirstPass,
        options: &ListenOptions,
    ) -> Self {
        Self {
            model,
            opener,
            first,
            language: options.language.clone(),
            format_numbers: options.format_numbers,
            known: None,
            parts: Vec::new(),
            early: None,
            so_far: None,
            ended: None,
            closing: None,
            agreement: Agreement::default(),
            partial: None,
            shown: String::new(),
        }
    }

    /// True while a turn that has ended has no formatted text: what comes from the device has to wait.
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Follows what happens in the turn.
    ///
    /// # Errors
    /// Without a first pass, why a window of the turn cannot be read.
    pub fn follow(&mut self, event: TurnWindow) -> Result<()> {
        let now = Instant::now();
        match event {
            TurnWindow::SoFar(_) if !self.refreshes() => {}
            TurnWindow::SoFar(window) => {
                let is_busy = |(since, part): &(Instant, Part)| {
                    matches!(part, Part::Running(_)) && now.duration_since(*since) < STALE
                };
                if !self.so_far.as_ref().is_some_and(is_busy) {
                    self.so_far = None;
                    let urgency = match self.formatted_within() {
                        Some(_) => Urgency::Idle,
                        None => Urgency::By { due: now + STALE, turn_end: now },
                    };
                    self.so_far = Some((now, self.read(window, urgency)?));
                }
            }
            TurnWindow::Paused { window, pause, ends_in_ms } => {
                self.so_far = None;
                let turn_end = now + Duration::from_millis(ends_in_ms);
                self.early = Some((pause, self.read(window, self.by(turn_end))?));
            }
            TurnWindow::Resumed => self.early = None,
            TurnWindow::Part(window) => {
                (self.early, self.so_far) = (None, None);
                let part = self.read(window, Urgency::Needed)?;
                self.parts.push(part);
            }
            TurnWindow::Ended { window, pause } => {
                self.so_far = None;
                let early = self.early.take().filter(|(known, _)| Some(*known) == pause).map(|(_, part)| part);
                let last = match (early, window) {
                    (Some(part), _) => Some(part),
                    (None, Some(window)) => Some(self.read(window, self.by(now))?),
                    (None, None) => None,
                };
                self.parts.extend(last);
                self.ended = Some(std::mem::take(&mut self.parts));
            }
        }
        Ok(())
    }

    /// The longest wait for the formatted text, where the first pass's text can stand in its place.
    fn formatted_within(&self) -> Option<Duration> {
        match self.first {
            FirstPass::Writes { within, only, .. } if only.is_none() || only == self.known => Some(within),
            _ => None,
        }
    }

    /// True if partials get the words on which readings agree.
    fn refreshes(&self) -> bool {
        !matches!(self.first, FirstPass::Writes { refreshed: false, .. })
    }

    /// True if the turn is likely in a language that the first pass lacks.
    fn is_foreign(&self) -> bool {
        let FirstPass::Writes { only: Some(only), .. } = self.first else { return false };
        self.known.is_some_and(|known| known != only)
    }

    /// The urgency of a window that ends with the turn.
    fn by(&self, turn_end: Instant) -> Urgency {
        match self.formatted_within() {
            Some(within) => Urgency::By { due: turn_end + within, turn_end },
            None => Urgency::Needed,
        }
    }

    fn read(&self, window: Window, urgency: Urgency) -> Result<Part> {
        match (self.model.read(&self.opener, window, urgency, self.known), self.first) {
            (Ok(reading), _) => Ok(Part::Running(Box::new(reading))),
            (Err(error), FirstPass::None) => Err(error),
            (Err(_), FirstPass::Writes { .. }) => Ok(Part::Missed),
        }
    }

    /// Takes the events of a step of the first pass, if there is one, and what follows them; `ended` with the end of a turn. Returns
    /// those that are out at once.
    pub fn take(&mut self, events: Vec<LiveEvent>, ended: bool, then: Vec<LiveOutput>) -> Vec<LiveOutput> {
        let mut out = Vec::new();
        let (mut raw, mut formatted) = (None, None);
        if ended {
            self.agreement.clear();
        }
        let within = self.formatted_within();
        for event in events {
            match event {
                LiveEvent::Formatted(caption) => formatted = Some(caption),
                LiveEvent::Final(caption) if within.is_none() => raw = Some(caption),
                LiveEvent::Partial(_) if self.is_foreign() => {}
                LiveEvent::Partial(caption) => {
                    self.partial = Some(caption.clone());
                    out.extend(self.merged(caption));
                }
                other => out.push(LiveOutput::Event(other)),
            }
        }
        if !ended {
            out.extend(then);
            return out;
        }
        self.partial = None;
        let parts = self.ended.take().unwrap_or_default();
        if formatted.is_none() && within.is_some() {
            // The first pass found no words, so there is no final to restate.
            out.extend(self.take_back());
            out.extend(then);
            return out;
        }
        let due = within.map(|within| Instant::now() + within);
        let first = formatted.map(|formatted| FirstText { raw, formatted, due });
        self.closing = Some(Closing { parts, first, then });
        out
    }

    /// What is out now, of the turn that has ended or goes on.
    ///
    /// # Errors
    /// Without a first pass, why a window of the turn could not be read.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<LiveOutput>>> {
        if let Some(closing) = self.closing.take() {
            return self.close(closing, context);
        }
        let (refreshes, mut more) = (self.refreshes(), false);
        let readings = self.so_far.iter_mut().map(|(_, part)| part).chain(self.early.iter_mut().map(|(_, part)| part));
        for part in readings {
            // A reading that fails here fails again at the end of the turn, if the device does.
            if part.poll(context).unwrap_or_default()
                && let Some(spoken) = part.spoken().filter(|_| refreshes)
            {
                more |= self.agreement.take(spoken.words);
            }
        }
        for part in &mut self.parts {
            if part.poll(context).unwrap_or_default()
                && let Some(spoken) = part.spoken().filter(|_| refreshes)
            {
                more |= self.agreement.settle(spoken.words);
            }
        }
        let all = self.so_far.iter().map(|(_, part)| part).chain(self.early.iter().map(|(_, part)| part));
        let language = |part: &Part| if let Part::Done(text) = part { text.language } else { None };
        let found = all.rev().find_map(language);
        self.known = found.or(self.known);
        if self.is_foreign() && self.partial.take().is_some() {
            more = true;
        }
        if !more {
            return Poll::Pending;
        }
        let caption = self.partial.clone().unwrap_or_default();
        match self.merged(caption) {
            Some(partial) => Poll::Ready(Ok(vec![partial])),
            None => Poll::Pending,
        }
    }

    /// The partial with the words on which readings agree, and the first pass's behind them; none if its text is shown already.
    fn merged(&mut self, mut caption: Caption) -> Option<LiveOutput> {
        let (stable, end) = (self.agreement.words(), self.agreement.end_ms());
        if !stable.is_empty() {
            let rest = caption.words.drain(..).filter(|word| word.start.midpoint(word.end) >= end);
            caption.words = stable.iter().cloned().chain(rest.collect::<Vec<_>>()).collect();
            caption.text = joined(&caption.words);
            if caption.text == self.shown {
                return None;
            }
        }
        self.shown.clone_from(&caption.text);
        Some(LiveOutput::Event(LiveEvent::Partial(caption)))
    }

    /// The events of a turn that has ended, once its text is there or its time is over.
    fn close(&mut self, mut closing: Closing, context: &mut Context<'_>) -> Poll<Result<Vec<LiveOutput>>> {
        let mut missed = false;
        for part in &mut closing.parts {
            match part.poll(context) {
                Err(error) if self.first == FirstPass::None => return Poll::Ready(Err(error)),
                _ => missed |= matches!(part, Part::Missed),
            }
        }
        let running = closing.parts.iter().any(|part| matches!(part, Part::Running(_)));
        let due = closing.first.as_ref().and_then(|first| first.due);
        if running && !missed && due.is_none_or(|due| due > Instant::now()) {
            if let Some(due) = due {
                wake_at(due, context.waker());
            }
            self.closing = Some(closing);
            return Poll::Pending;
        }
        let text = (!running && !missed).then(|| self.text(closing.parts));
        let mut out = Vec::new();
        match (closing.first, text) {
            // A final that is out stays the turn's only one.
            (Some(first), text) if first.raw.is_none() || text.is_none() || !self.is_foreign() => {
                let result = if text.is_some() { "done" } else { "missed" };
                metrics::counter!("auricle_second_passes_total", "result" => result).increment(1);
                out.extend(first.raw.map(|raw| LiveOutput::Event(LiveEvent::Final(raw))));
                // Where the offline model wrote nothing, the first pass's words stand.
                let formatted = text.map(|(_, formatted)| formatted).filter(|caption| !caption.words.is_empty());
                out.push(LiveOutput::Event(LiveEvent::Formatted(formatted.unwrap_or(first.formatted))));
            }
            (_, Some((raw, formatted))) if !raw.words.is_empty() => {
                out.extend([LiveEvent::Final(raw), LiveEvent::Formatted(formatted)].map(LiveOutput::Event));
            }
            _ => out.extend(self.take_back()),
        }
        self.shown.clear();
        out.extend(closing.then);
        Poll::Ready(Ok(out))
    }

    /// The partial that takes back a text which gets no final.
    fn take_back(&mut self) -> Option<LiveOutput> {
        let is_shown = !std::mem::take(&mut self.shown).is_empty();
        is_shown.then(|| LiveOutput::Event(LiveEvent::Partial(Caption::default())))
    }

    /// The text of a turn, as the model wrote it and formatted.
    fn text(&mut self, parts: Vec<Part>) -> (Caption, Caption) {
        let mut spoken = Spoken::default();
        for part in parts {
            if let Part::Done(text) = part {
                self.known = text.language.or(self.known);
                text.join_to(&mut spoken);
            }
        }
        let raw = Caption { text: joined(&spoken.words), words: spoken.words.clone() };
        let language = self.language.as_deref().or(spoken.language.as_deref());
        let language = language.or_else(|| self.model.is_english().then_some(ENGLISH));
        let (words, text) = itn::format(spoken.words, language.filter(|_| self.format_numbers));
        (raw, Caption { text, words })
    }
}
