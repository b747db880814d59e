//! The engine as another program embeds it: calls that are awaited.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auricle_engine::audio::AudioStream;
use auricle_engine::{
    DeviceChoice, Engine, EngineOptions, Error, LanguageModelChoice, ListenOptions, LiveEvent, TranscribeOptions,
};
use auricle_tests::{models, speech};
use futures_util::StreamExt as _;

fn open(recordings: usize) -> Engine {
    let options = EngineOptions::default().models(models()).device(DeviceChoice::Cpu).recordings(recordings);
    Engine::open(options).unwrap()
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| open(8))
}

fn greedy() -> TranscribeOptions {
    TranscribeOptions::default().language_model(LanguageModelChoice::Off)
}

#[tokio::test]
async fn awaited_and_blocking_calls_give_the_same_transcript() {
    let steps = Arc::new(AtomicUsize::new(0));
    let count = steps.clone();
    let awaited = engine().transcribe_file(speech(), &greedy()).on_progress(move |progress| {
        assert!(progress.audio_s <= progress.total_s.unwrap() + 0.1);
        count.fetch_add(1, Ordering::Relaxed);
    });
    let awaited = awaited.await.unwrap();
    assert!(steps.load(Ordering::Relaxed) > 0);
    assert_eq!(awaited.model, "svc-best", "the catalog's default");
    assert!(awaited.words.len() > 10);
    let blocking = engine().blocking().transcribe_file(speech(), &greedy()).unwrap();
    assert_eq!(awaited, blocking);
    let stream = AudioStream::open(speech()).unwrap();
    assert_eq!(engine().transcribe(stream, &greedy()).await.unwrap(), blocking);
}

#[tokio::test]
async fn many_recordings_are_awaited_at_once() {
    let alone = engine().transcribe_file(speech(), &greedy()).await.unwrap();
    let all = futures_util::future::join_all((0..6).map(|_| engine().transcribe_file(speech(), &greedy()))).await;
    for transcript in all {
        assert_eq!(transcript.unwrap(), alone);
    }
}

#[tokio::test]
async fn errors_of_files_and_options_come_from_the_future() {
    let missing = engine().transcribe_file("nowhere.wav", &greedy()).await;
    assert!(matches!(missing, Err(Error::Read { .. })), "{missing:?}");
    let unknown = engine().transcribe_file(speech(), &greedy().model("svc-none")).await;
    assert!(matches!(unknown, Err(Error::UnknownModel(_))), "{unknown:?}");
    let unknown = engine().listen(&ListenOptions::default().model("svc-none")).await.err().unwrap();
    assert!(matches!(unknown, Error::UnknownModel(_)), "{unknown}");
}

/// A panic in the caller's own callback is an error of that transcription, and of nothing else.
#[tokio::test]
async fn a_panic_while_transcribing_is_an_error() {
    let broken = engine().transcribe_file(speech(), &greedy()).on_progress(|_| panic!("as the test asked"));
    assert!(matches!(broken.await, Err(Error::Internal { .. })));
    assert!(engine().transcribe_file(speech(), &greedy()).await.is_ok());
}

/// A transcription that is dropped gives its place to another long before its audio would be through.
#[tokio::test]
async fn a_dropped_transcription_ends() {
    let engine = open(1);
    // Ten hours: far more than the test waits for.
    let endless =
        || AudioStream::from_pcm_s16le(std::io::Read::take(std::io::repeat(7), 2 * 16_000 * 36_000), 16_000, 1);
    let (begun_sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let first = engine.transcribe(endless().unwrap(), &greedy()).on_progress(move |_| {
        let _ = begun_sender.send(());
    });
    let first = tokio::spawn(first);
    begun.recv().await.unwrap();
    let busy = engine.transcribe_file(speech(), &greedy()).await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    first.abort();
    let freed = async {
        while let Err(error) = engine.transcribe_file(speech(), &greedy()).await {
            assert!(matches!(error, Error::Busy(_)), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), freed).await.is_ok(), "its place is still taken");
}

#[tokio::test]
async fn events_of_a_session_are_a_stream() {
    let (mut input, events) = engine().listen(&ListenOptions::default()).await.unwrap();
    let samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    let send = async move {
        for piece in samples.chunks(1_600) {
            input.send(piece).await.unwrap();
            assert!(input.waiting_ms() <= auricle_engine::MAX_AHEAD_MS);
        }
        input.finish().unwrap();
    };
    let read = events.map(Result::unwrap).collect::<Vec<_>>();
    let ((), events) = tokio::join!(send, read);
    let words: usize = events
        .iter()
        .map(|event| match event {
            LiveEvent::Formatted(caption) => caption.words.len(),
            _ => 0,
        })
        .sum();
    assert!(words >= 10, "{events:?}");
}

/// A sender that waits on a session gets the error at once when the session ends.
#[tokio::test]
async fn waiting_for_a_session_without_a_reader_ends_with_it() {
    let (mut input, events) = engine().listen(&ListenOptions::default()).await.unwrap();
    let samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    input.push(&samples.repeat(20)).unwrap();
    drop(events);
    input.finish().unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(60), input.caught_up(0)).await.is_ok());
}

#[tokio::test]
async fn warming_up_runs_every_loaded_model() {
    let engine = open(2);
    engine.load(&greedy()).await.unwrap();
    engine.load_live(&ListenOptions::default()).await.unwrap();
    engine.warm_up().await.unwrap();
}
