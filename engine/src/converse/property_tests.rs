//! Properties that hold whatever comes in whatever order.

#![allow(clippy::panic, reason = "helpers of tests, which may")]

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A random number generator with a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// The driver's side: what runs, and what was seen.
#[derive(Default)]
struct Seen {
    thoughts: BTreeSet<u64>,
    speeches: BTreeMap<u64, bool>,
    settles: usize,
    /// The last question to the turn detector.
    question: u64,
    calls: Vec<String>,
    open: Option<u64>,
    closed: BTreeSet<u64>,
    /// Replies that were given up or are over, started or not.
    gone: BTreeSet<u64>,
    ended: bool,
}

impl Seen {
    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            assert!(!self.ended, "nothing follows the end: {action:?}");
            match action {
                Action::Think { thought, .. } => assert!(self.thoughts.insert(thought)),
                Action::StopThinking { thought } => drop(self.thoughts.remove(&thought)),
                Action::Say { speech, .. } => drop(self.speeches.entry(speech).or_insert(false)),
                Action::FinishSpeech { speech } => drop(self.speeches.insert(speech, true)),
                Action::StopSpeech { speech } => drop(self.speeches.remove(&speech)),
                Action::Settle => self.settles += 1,
                Action::Judge { question, .. } => {
                    assert!(question > self.question, "a question is asked once");
                    self.question = question;
                }
                Action::Call(call) => {
                    assert!(!self.calls.contains(&call.id), "a call is announced once");
                    self.calls.push(call.id);
                }
                Action::ReplyStarted { reply } => {
                    assert_eq!(self.open.replace(reply), None, "one reply at a time");
                    assert!(!self.closed.contains(&reply) && !self.gone.contains(&reply));
                }
                Action::Audio { reply, .. } | Action::AgentText { reply, .. } => assert_eq!(self.open, Some(reply)),
                Action::ReplyDone { reply, .. } => {
                    assert_eq!(self.open.take(), Some(reply));
                    assert!(self.closed.insert(reply), "a reply ends once");
                }
                Action::ReplyClosed { reply, .. } => {
                    assert_ne!(self.open, Some(reply), "its audio is over");
                    assert!(self.gone.insert(reply), "a reply closes once");
                }
                Action::Ended => self.ended = true,
                _ => {}
            }
        }
    }
}

fn frame() -> VoiceFrame {
    VoiceFrame { samples: vec![0.0; 1_920], words: vec![VoiceWord { text: "word".into(), start_ms: 0, end_ms: 80 }] }
}

/// An event by chance: of what runs, or of nothing.
fn event(random: &mut Random, seen: &mut Seen, next_call: &mut u32) -> Event {
    let nth = |random: &mut Random, ids: Vec<u64>| match ids.len() {
        0 => 999_999,
        count => ids[random.below(count as u64) as usize],
    };
    let thoughts: Vec<u64> = seen.thoughts.iter().copied().collect();
    let speeches: Vec<u64> = seen.speeches.keys().copied().collect();
    let failure = || Failure { code: "x", message: "x".into(), apology: "Sorry about that.".into() };
    match random.below(40) {
        0..12 => Event::Heard { speech: true, ms: 32 * (1 + random.below(8) as u32) },
        12..22 => Event::Heard { speech: false, ms: 32 * (1 + random.below(12) as u32) },
        22 => Event::Partial(["", "yeah", "stop", "i want to", "word word"][random.below(5) as usize].into()),
        23 => Event::Final(["Yes.", "What is it?", "Word.", "I want to"][random.below(4) as usize].into()),
        24..28 => {
            if seen.settles > 0 {
                seen.settles -= 1;
            }
            Event::Settled
        }
        28 | 29 => Event::Text { thought: nth(random, thoughts), text: "Word word. ".into() },
        30 | 31 => {
            let thought = nth(random, thoughts);
            seen.thoughts.remove(&thought);
            let call = |_| {
                *next_call += 1;
                ToolCall { id: format!("call_{next_call}"), name: "tool".into(), arguments: "{}".into() }
            };
            let calls = (0..random.below(3)).map(call).collect();
            Event::Thought { thought, calls }
        }
        32 => {
            let thought = nth(random, thoughts);
            seen.thoughts.remove(&thought);
            Event::LlmFailed { thought, failure: failure() }
        }
        33 | 34 => Event::Frame { speech: nth(random, speeches), frame: frame() },
        35 => {
            let speech = nth(random, speeches);
            seen.speeches.remove(&speech);
            Event::Said { speech }
        }
        36 if random.below(3) == 0 => {
            let speech = nth(random, speeches);
            seen.speeches.remove(&speech);
            Event::VoiceFailed { speech, failure: failure() }
        }
        37 => Event::ToolResult {
            call_id: format!("call_{}", random.below(u64::from(*next_call) + 2)),
            result: ["1", "no json"][random.below(2) as usize].into(),
        },
        36 => {
            let question = seen.question.saturating_sub(random.below(2));
            Event::Judged { question, probability: random.below(10) as f32 / 9.0 }
        }
        38 if random.below(20) == 0 => Event::Greet("Hello there.".into()),
        38 => match random.below(12) {
            0 => Event::Respond,
            1 => Event::Cancel,
            2 => Event::EndTurn,
            3 => Event::ClearTurn,
            4 => Event::Dtmf("5".into()),
            _ => Event::Tick,
        },
        _ => Event::Tick,
    }
}

/// Lets a driver that does its part go on until the conversation rests: everything that runs ends well.
fn settle(conversation: &mut Conversation, seen: &mut Seen, now: &mut u64) {
    for _ in 0..4_000 {
        *now += 32;
        let next = if seen.settles > 0 {
            seen.settles -= 1;
            Event::Settled
        } else if let Some(thought) = seen.thoughts.pop_first() {
            Event::Thought { thought, calls: Vec::new() }
        } else if let Some((speech, true)) = seen.speeches.iter().next().map(|(id, finished)| (*id, *finished)) {
            seen.speeches.remove(&speech);
            seen.take(conversation.handle(*now, Event::Frame { speech, frame: frame() }));
            Event::Said { speech }
        } else {
            Event::Heard { speech: false, ms: 32 }
        };
        seen.take(conversation.handle(*now, next));
        if conversation.state() == State::Listening && seen.thoughts.is_empty() && seen.settles == 0 {
            return;
        }
    }
    panic!("it does not come to rest: {conversation:#?}");
}

#[test]
fn no_order_of_events_deadlocks_breaks_a_reply_or_loses_a_call() {
    for seed in 1..=400_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let language = [Some("en".to_owned()), None][random.below(2) as usize].clone();
        let interruptible = random.below(4) > 0;
        let turn_detector = random.below(2) > 0;
        let mut conversation = Conversation::new(Rules { language, interruptible, turn_detector, ..Rules::default() });
        let (mut seen, mut now, mut calls) = (Seen::default(), 1, 0);
        for _ in 0..400 {
            now += random.below(300);
            let event = event(&mut random, &mut seen, &mut calls);
            seen.take(conversation.handle(now, event));
            assert!(conversation.deadline(now).is_none_or(|at| at >= now), "a deadline that has passed");
        }
        settle(&mut conversation, &mut seen, &mut now);
        // Every announced call has one end, after it, and the language model sees no call without one.
        let history = conversation.history();
        for id in &seen.calls {
            let ends = history.iter().filter(|message| message.call_id.as_ref() == Some(id)).count();
            assert_eq!(ends, 1, "seed {seed}: {id}");
            let asked = history.iter().position(|message| message.calls.iter().any(|call| call.id == *id));
            let ended = history.iter().position(|message| message.call_id.as_ref() == Some(id));
            assert!(asked.is_some() && asked < ended, "seed {seed}: {id}");
        }
        let calls = || history.iter().flat_map(|message| &message.calls);
        assert_eq!(calls().filter(|call| call.name != "dtmf").count(), seen.calls.len(), "seed {seed}");
        // Keys come as a call and its result, one after the other.
        let keys = |message: &&Message| message.call_id.as_ref().is_some_and(|id| id.starts_with("dtmf_"));
        for (at, message) in history.iter().enumerate().filter(|(_, message)| keys(message)) {
            assert_eq!(Some(&history[at - 1].calls[0].id), message.call_id.as_ref(), "seed {seed}");
        }
        // The next turn is answered.
        let before = seen.thoughts.len();
        for _ in 0..20 {
            now += 32;
            seen.take(conversation.handle(now, Event::Heard { speech: true, ms: 32 }));
        }
        seen.take(conversation.handle(now, Event::Final("What is the weather in Paris?".into())));
        let mut asked = false;
        for _ in 0..80 {
            now += 32;
            seen.take(conversation.handle(now, Event::Heard { speech: false, ms: 32 }));
            if seen.settles > 0 {
                seen.settles -= 1;
                seen.take(conversation.handle(now, Event::Settled));
            }
            asked |= seen.thoughts.len() > before;
        }
        assert!(asked, "seed {seed}: {conversation:#?}");
        let end = conversation.handle(now, Event::End);
        seen.take(end);
        seen.take(conversation.handle(now + 1_500, Event::Tick));
        assert!(seen.ended && seen.open.is_none(), "seed {seed}");
    }
}
