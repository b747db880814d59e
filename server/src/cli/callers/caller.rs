//! A simulated caller: a microphone and a loudspeaker in one room, both by the same clock, and a script.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::judge::{Report, ms};
use super::room::{Room, samples};
use super::script::{Act, GREETING, Line, PAUSE_MS};
use crate::cli::Result;
use crate::cli::talk::call::{Call, Heard, Host};
use crate::cli::talk::loudspeaker::Loudspeaker;

/// Length of a tick of the clock, ms.
const TICK_MS: usize = 20;
/// A reply that says nothing for this time, without its end, has a late frame.
const LATE: Duration = Duration::from_millis(20);
/// Quiet before the caller speaks.
const BEFORE_SPEECH: Duration = Duration::from_millis(700);
/// The agent's speech before the caller speaks over it.
const BEFORE_OVERLAP: Duration = Duration::from_millis(2_000);
/// Time in which a word of the caller may still be the cause of what the agent does.
const AFTER_SPEECH: Duration = Duration::from_millis(2_500);
/// Time in which the agent must reply, and in which an interruption must stop it.
const LONGEST_WAIT: Duration = Duration::from_secs(12);
/// The longest wait for the end of a reply, and of the session.
const LONGEST_REPLY: Duration = Duration::from_secs(60);
const LONGEST_END: Duration = Duration::from_secs(5);

/// The caller's speech that is not spoken yet.
#[derive(Debug, Default)]
struct Mouth {
    lines: VecDeque<i16>,
    /// The last moment at which the caller spoke.
    last: Option<Instant>,
}

impl Mouth {
    fn say(&mut self, line: &Line) {
        self.lines.extend(line.samples.iter());
    }

    fn pause(&mut self) {
        self.lines.extend(std::iter::repeat_n(0, samples(PAUSE_MS)));
    }

    fn is_silent(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The reply that the agent is at.
#[derive(Debug)]
struct CurrentReply {
    id: String,
    /// The first sound that was played.
    began: Option<Instant>,
    /// When the loudspeaker had nothing more to play; none while it plays.
    ran_dry: Option<Instant>,
}

/// A call.
struct Caller {
    call: Call,
    room: Room,
    loudspeaker: Loudspeaker,
    mouth: Mouth,
    reply: Option<CurrentReply>,
    /// The end of the last reply, or the beginning of the call.
    quiet_since: Instant,
    /// The end of the caller's turn, as long as no reply to it was heard.
    awaiting: Option<Instant>,
    /// True while the caller pauses within a sentence.
    is_pausing: bool,
    /// The caller's turns that the agent has not reported.
    unreported: usize,
    /// True once the agent has stopped a reply since the caller's last words over it.
    stopped: bool,
    report: Report,
    ended: bool,
}

/// Makes a call, and reports what the agent did.
///
/// # Errors
/// If the service cannot be called.
pub async fn call(host: &Host, acts: Vec<Act>, echo_db: Option<f32>, seed: u64) -> Result<Report> {
    let settings =
        json!({ "greeting": GREETING, "system_prompt": "You are a miller. Answer in one or two sentences." });
    let call = Call::open(host, &settings).await?;
    let mut caller = Caller {
        call,
        room: Room::new(echo_db, seed),
        loudspeaker: Loudspeaker::default(),
        mouth: Mouth::default(),
        reply: None,
        quiet_since: Instant::now(),
        awaiting: None,
        is_pausing: false,
        unreported: 0,
        stopped: false,
        report: Report { calls: 1, ..Report::default() },
        ended: false,
    };
    let mut clock = interval(Duration::from_millis(TICK_MS as u64));
    // A late tick is made up for: the microphone's clock does not stop.
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for act in acts {
        caller.act(act, &mut clock).await;
    }
    caller.call.end();
    caller.until(&mut clock, LONGEST_END, |caller| caller.ended).await;
    Ok(caller.report)
}

impl Caller {
    async fn act(&mut self, act: Act, clock: &mut tokio::time::Interval) {
        match act {
            Act::Listen => {
                self.until(clock, LONGEST_REPLY, |caller| caller.is_quiet()).await;
            }
            Act::Say(line) => {
                self.mouth.say(&line);
                self.turn(clock).await;
            }
            Act::SayWithPause([first, second]) => {
                let before = self.report.replies + usize::from(self.reply.is_some());
                self.mouth.say(&first);
                self.until(clock, LONGEST_REPLY, |caller| caller.mouth.is_silent()).await;
                self.report.pauses += 1;
                self.is_pausing = true;
                self.mouth.pause();
                self.until(clock, LONGEST_REPLY, |caller| caller.mouth.is_silent()).await;
                self.is_pausing = false;
                let after = self.report.replies + usize::from(self.reply.is_some());
                if after > before {
                    self.report.cut_turns += 1;
                    self.report.cut_sentences.push(format!("{} ... {}", first.name, second.name));
                }
                self.mouth.say(&second);
                self.turn(clock).await;
            }
            Act::Backchannel(line) => {
                if !self.until(clock, LONGEST_WAIT, |caller| caller.spoke_for(BEFORE_OVERLAP)).await {
                    return;
                }
                self.report.backchannels += 1;
                self.stopped = false;
                self.mouth.say(&line);
                // A reply that has been said to its end is not stopped.
                let longest = line_length(&line) + AFTER_SPEECH;
                self.until(clock, longest, |caller| caller.stopped || caller.reply.is_none()).await;
                if self.stopped {
                    self.report.backchannel_stops += 1;
                    self.report.stopping_backchannels.push(line.name.to_string());
                }
            }
            Act::Interrupt(line) => {
                if !self.until(clock, LONGEST_WAIT, |caller| caller.spoke_for(BEFORE_OVERLAP)).await {
                    return;
                }
                self.report.interruptions += 1;
                let began = Instant::now();
                self.mouth.say(&line);
                let limit = line_length(&line) + AFTER_SPEECH;
                if self.until(clock, limit, |caller| caller.reply.is_none()).await {
                    self.report.barge_in_ms.push(ms(began.elapsed()));
                } else {
                    self.report.ignored_interruptions += 1;
                    self.report.ignored_lines.push(line.name.to_string());
                }
                self.turn(clock).await;
            }
        }
    }

    /// Finishes what the caller says, and waits for the first sound of a reply.
    async fn turn(&mut self, clock: &mut tokio::time::Interval) {
        self.until(clock, LONGEST_REPLY, |caller| caller.mouth.is_silent()).await;
        self.unreported += 1;
        self.awaiting = Some(self.mouth.last.unwrap_or_else(Instant::now));
        if !self.until(clock, LONGEST_WAIT, |caller| caller.awaiting.is_none()).await {
            self.awaiting = None;
            self.report.unanswered += 1;
        }
    }

    /// Lets time go by until something holds. False if it does not within the time.
    async fn until(
        &mut self,
        clock: &mut tokio::time::Interval,
        longest: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> bool {
        let began = Instant::now();
        while !holds(self) {
            if began.elapsed() > longest || self.ended {
                return false;
            }
            clock.tick().await;
            self.tick();
        }
        true
    }

    /// True if the agent has said all that it has to say.
    fn is_quiet(&self) -> bool {
        self.reply.is_none() && self.quiet_since.elapsed() > BEFORE_SPEECH
    }

    /// True if the current reply was heard for this time, since the caller's last word too.
    fn spoke_for(&self, time: Duration) -> bool {
        let since = self.reply.as_ref().and_then(|reply| reply.began).max(self.mouth.last);
        self.reply.as_ref().is_some_and(|reply| reply.began.is_some())
            && since.is_some_and(|since| since.elapsed() > time)
    }

    /// The next piece of time: both sides' sound, and the agent's messages.
    fn tick(&mut self) {
        while let Some((at, heard)) = self.call.try_next() {
            self.hear(at, heard);
        }
        let now = Instant::now();
        let count = samples(TICK_MS);
        let sounds = !self.loudspeaker.is_silent();
        let played = self.loudspeaker.play(count);
        if let Some(reply) = &mut self.reply {
            if sounds && reply.began.is_none() {
                reply.began = Some(now);
                self.report.replies += 1;
                if let Some(ended) = self.awaiting.take() {
                    self.report.voice_to_voice_ms.push(ms(now - ended));
                }
            }
            reply.ran_dry = match (self.loudspeaker.is_silent(), reply.ran_dry) {
                (true, None) if reply.began.is_some() => Some(now),
                (true, since) => since,
                (false, _) => None,
            };
        }
        let mut spoken: Vec<i16> = self.mouth.lines.drain(..count.min(self.mouth.lines.len())).collect();
        if !spoken.is_empty() && !self.is_pausing {
            self.mouth.last = Some(now);
        }
        spoken.resize(count, 0);
        let heard = self.room.hear(&spoken, &played);
        self.call.speak(&heard);
    }

    fn hear(&mut self, at: Instant, heard: Heard) {
        match heard {
            Heard::User(_) => match self.unreported.checked_sub(1) {
                Some(left) => self.unreported = left,
                // A turn may come in parts, but not in silence.
                None if self.spoke_lately(at) || !self.mouth.is_silent() => {}
                None => self.report.phantom_turns += 1,
            },
            Heard::ReplyStarted { reply } => {
                self.reply = Some(CurrentReply { id: reply, began: None, ran_dry: None });
            }
            Heard::Audio { reply, samples } => match &mut self.reply {
                Some(current) if current.id == reply => {
                    self.report.late_frames +=
                        usize::from(current.ran_dry.take().is_some_and(|since| at.duration_since(since) > LATE));
                    self.loudspeaker.push(&samples);
                }
                _ => self.report.leaked_frames += 1,
            },
            Heard::ReplyDone { reply, interrupted } => {
                let Some(_) = self.reply.take_if(|current| current.id == reply) else { return };
                self.quiet_since = at;
                if interrupted {
                    self.stopped = true;
                    self.loudspeaker.stop();
                    if !self.spoke_lately(at) && self.mouth.is_silent() {
                        self.report.self_interruptions += 1;
                    }
                }
            }
            Heard::Error { code, .. } if !self.report.errors.contains(&code) => self.report.errors.push(code),
            Heard::Ended | Heard::Closed { .. } => self.ended = true,
            _ => {}
        }
    }

    fn spoke_lately(&self, at: Instant) -> bool {
        self.mouth.last.is_some_and(|last| at.duration_since(last) < AFTER_SPEECH)
    }
}

fn line_length(line: &Line) -> Duration {
    Duration::from_secs_f64(line.samples.len() as f64 / f64::from(crate::cli::talk::call::RATE))
}
