//! `auricle talk`: a conversation with a voice agent in the terminal.
//!
//! - [`call`]: a client of the voice agent.
//! - [`host`]: the service that the call goes to.
//! - [`loudspeaker`]: audio of replies in, samples out as they are played.
//! - `pipe`: microphone and loudspeaker as standard input and output.
//! - `screen`: both sides' words, and how long a reply took.

pub mod call;
pub mod host;
pub mod loudspeaker;
mod pipe;
mod screen;

use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::call::{Call, Heard, RATE};
use self::host::HostArgs;
use self::loudspeaker::Loudspeaker;
use self::screen::Screen;
use super::progress::Bar;
use super::sound_card::{Player, Recorder};
use super::{EngineArgs, Failure, Result, loading, runtime};

/// Length of a piece of sound, ms.
const TICK_MS: u64 = 20;
/// Samples of a piece of sound.
const TICK: usize = (RATE as u64 * TICK_MS / 1_000) as usize;
/// Pieces of sound that wait for the loudspeaker at most.
const PIECES_AHEAD: usize = 10;
/// Advice where there are no sound devices.
const NO_DEVICES: &str = "use --pipe with a recorder and a player (auricle talk --help has examples)";
/// Quiet after the microphone's end that ends the call.
const QUIET: Duration = Duration::from_secs(3);
/// The longest wait for the end of a call.
const LONGEST_END: Duration = Duration::from_secs(5);

#[derive(Args)]
#[command(after_long_help = "\
The agent hears with the live model, thinks with the language model and speaks with the default voice. The words of both sides go to
standard error, with the time from your last sound to the first sound of the reply. Use headphones, or a microphone that cancels echo.
The call ends on Ctrl-C. With --pipe it ends with standard input, once the agent has answered, and with the pipe of standard output;
sound is raw: mono, 24,000 samples a second, 16 bits, little-endian. Without --pipe the program uses the default microphone and
loudspeaker, on Linux by PulseAudio or PipeWire.

Examples:
  auricle models pull chat                       fetches the default language model, once
  auricle talk --prompt 'You are a travel agent.'
  auricle talk --model Qwen3-1.7B-Q8_0.gguf      another language model, by its file
  arecord -q -t raw -f S16_LE -r 24000 -c 1 | auricle talk --pipe | aplay -q -t raw -f S16_LE -r 24000 -c 1
  rec -q -t raw -e signed -b 16 -r 24000 -c 1 - | auricle talk --pipe | play -q -t raw -e signed -b 16 -r 24000 -c 1 -
  AURICLE_LANGUAGE_UPSTREAM=http://127.0.0.1:11434/v1 auricle talk --pipe < question.raw > answer.raw
  auricle talk --pipe --url https://speech.example.com --key KEY    an agent of a running service")]
pub struct TalkArgs {
    /// The microphone is standard input, the loudspeaker standard output
    #[arg(long)]
    pipe: bool,
    /// Instructions for the agent
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The agent's first words; empty for none
    #[arg(long, value_name = "TEXT", default_value = "Hello. How can I help you?")]
    greeting: String,
    /// A voice of `auricle voices` [default: the first]
    #[arg(long, value_name = "VOICE")]
    voice: Option<String>,
    /// Language model: an id, a GGUF file, or a folder [default: the catalog's]
    ///
    /// `auricle models list` has the ids.
    #[arg(long, value_name = "ID|PATH", conflicts_with = "url")]
    model: Option<String>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

impl TalkArgs {
    /// The `session` of `session.update`.
    fn session(&self) -> Value {
        let mut session = Map::new();
        session.insert("greeting".into(), self.greeting.clone().into());
        if let Some(prompt) = &self.prompt {
            session.insert("system_prompt".into(), prompt.clone().into());
        }
        if let Some(voice) = &self.voice {
            session.insert("output".into(), json!({ "voice": voice }));
        }
        session.into()
    }
}

pub fn run(args: &TalkArgs) -> Result<()> {
    let (microphone, heard) = mpsc::channel(PIECES_AHEAD);
    let (played, loudspeaker) = mpsc::channel(PIECES_AHEAD);
    let sound = if args.pipe { None } else { Some(devices().map_err(|failure| failure.advise(NO_DEVICES))?) };
    let bar = Bar::new(false);
    let service = {
        let models = args.engine.models.path()?;
        let what = loading::language_model(&models, args.model.as_deref());
        let _loading = (!args.host.is_running()).then(|| bar.loading(&format!("an agent with {what}")));
        args.host.service(&args.engine, args.model.as_deref(), bar.clone())?
    };
    let (recording, playing) = match sound {
        None => {
            pipe::read(microphone);
            (None, pipe::write(loudspeaker))
        }
        Some((recorder, player)) => (Some(recorder.record(TICK, microphone)), play(player, loudspeaker)),
    };
    runtime()?.block_on(async {
        let call = Call::open(&service.host, &args.session()).await?;
        bar.clear();
        Conversation::new(call, heard, played).run().await
    })?;
    drop(service);
    for thread in recording.into_iter().chain([playing]) {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(())
}

/// Opens the microphone and the loudspeaker.
fn devices() -> Result<(Recorder, Player)> {
    Ok((Recorder::open(RATE)?, Player::open(RATE)?))
}

/// Plays pieces of sound as they come.
fn play(mut player: Player, mut from: mpsc::Receiver<Vec<i16>>) -> JoinHandle<Result<()>> {
    thread::spawn(move || {
        while let Some(samples) = from.blocking_recv() {
            let samples: Vec<f32> = samples.iter().map(|sample| f32::from(*sample) / 32_768.0).collect();
            player.play(&samples)?;
        }
        Ok(())
    })
}

/// A call between the agent, a microphone and a loudspeaker.
struct Conversation {
    call: Call,
    /// Pieces of the microphone's sound; closed at its end.
    microphone: mpsc::Receiver<Vec<i16>>,
    /// Pieces of sound for the loudspeaker.
    played: mpsc::Sender<Vec<i16>>,
    loudspeaker: Loudspeaker,
    screen: Screen,
    /// The reply that the agent is at.
    reply: Option<String>,
    /// The last sign of either side.
    last: Instant,
    /// True when the microphone has ended.
    is_deaf: bool,
}

impl Conversation {
    fn new(call: Call, microphone: mpsc::Receiver<Vec<i16>>, played: mpsc::Sender<Vec<i16>>) -> Self {
        Self {
            call,
            microphone,
            played,
            loudspeaker: Loudspeaker::default(),
            screen: Screen::new(),
            reply: None,
            last: Instant::now(),
            is_deaf: false,
        }
    }

    /// Talks until one side ends the call.
    async fn run(mut self) -> Result<()> {
        let mut clock = interval(Duration::from_millis(TICK_MS));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut ending: Option<Instant> = None;
        loop {
            tokio::select! {
                message = self.call.next() => match message {
                    Some((_, Heard::Ended)) | None => return Ok(()),
                    Some((_, Heard::Closed { code: 1000 | 1005, .. })) => return Ok(()),
                    Some((_, Heard::Closed { code, reason })) => {
                        return Err(Failure::Service(format!("the service closed the call: {code} {reason}")));
                    }
                    Some((at, heard)) => self.hear(at, heard),
                },
                _ = clock.tick() => self.tick().await,
            }
            if ending.is_none() && (self.played.is_closed() || self.is_deaf && self.is_quiet()) {
                self.call.end();
                ending = Some(Instant::now());
            }
            if ending.is_some_and(|since| since.elapsed() > LONGEST_END) {
                return Ok(());
            }
        }
    }

    /// True if neither side has said anything for a while.
    fn is_quiet(&self) -> bool {
        self.reply.is_none() && self.loudspeaker.is_silent() && self.last.elapsed() > QUIET
    }

    async fn tick(&mut self) {
        match self.microphone.try_recv() {
            Ok(samples) => {
                self.screen.spoken(&samples);
                self.call.speak(&samples);
                self.last = Instant::now();
            }
            // Without sound the agent hears silence.
            Err(mpsc::error::TryRecvError::Empty) => {}
            Err(mpsc::error::TryRecvError::Disconnected) => self.is_deaf = true,
        }
        let sounds = !self.loudspeaker.is_silent();
        let piece = self.loudspeaker.play(TICK);
        if sounds {
            self.screen.sounds();
            self.last = Instant::now();
            // A loudspeaker that takes nothing holds the call up, and loses nothing.
            let _ = self.played.send(piece).await;
        } else {
            // Its clock may be slower than this one: silence may be left out.
            let _ = self.played.try_send(piece);
        }
    }

    fn hear(&mut self, at: Instant, heard: Heard) {
        self.last = at;
        match heard {
            Heard::Audio { reply, samples } if self.reply.as_ref() == Some(&reply) => self.loudspeaker.push(&samples),
            Heard::ReplyStarted { reply } => self.reply = Some(reply),
            Heard::ReplyDone { reply, interrupted } => {
                self.reply.take_if(|current| *current == reply);
                if interrupted {
                    self.loudspeaker.stop();
                }
            }
            Heard::SpeechStarted => self.screen.speech_started(),
            Heard::SpeechStopped => self.screen.speech_stopped(),
            Heard::UserPartial(text) => self.screen.partial(&text),
            Heard::User(text) => self.screen.user(&text),
            Heard::Agent(text) => self.screen.agent(&text),
            Heard::Error { message, .. } => self.screen.error(&message),
            Heard::Audio { .. } | Heard::Updated | Heard::Ended | Heard::Closed { .. } => {}
        }
    }
}
