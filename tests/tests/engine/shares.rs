//! Recordings of different families beside each other.

use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, TranscribeOptions};
use auricle_tests::{fixtures, speech};

/// Speech over and over, for ever.
struct Endless(Cursor<Vec<u8>>);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(into)? {
            0 => {
                self.0.set_position(0);
                self.0.read(into)
            }
            count => Ok(count),
        }
    }
}

/// Six recordings without end keep a Whisper checkpoint's decoder full; a minute for the starter comes through all the same.
#[test]
fn a_recording_for_the_starter_ends_beside_whisper_recordings() {
    let models = tempfile::tempdir().unwrap();
    let model = |id: &str, folder: &std::path::Path| {
        format!(
            "[[model]]\nid = \"{id}\"\nkind = \"prerecorded\"\npublished = \"somebody/something\"\nfolder = \"none\"\n\
             languages = [\"en\"]\nstarter = {folder:?}\nstarter_languages = [\"en\"]\n"
        )
    };
    let starter = fixtures().join("../../models/starter/asr-en").canonicalize().unwrap();
    let catalog = model("svc-best", &starter) + &model("svc-fast", &fixtures().join("whisper/multi"));
    std::fs::write(models.path().join("catalog.toml"), catalog).unwrap();
    let options = EngineOptions::default().models(models.path()).device(DeviceChoice::Cpu);
    let engine = Engine::open(options).unwrap();
    let samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    let pcm: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    let (begun, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let given_up = AtomicBool::new(false);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let reader = Endless(Cursor::new(pcm.clone()));
                let audio = AudioStream::from_pcm_s16le(reader, SAMPLE_RATE, 1).unwrap();
                let options = TranscribeOptions::default().model("svc-fast");
                let mut first = true;
                let ended = engine.transcribe_with(audio, &options, |_| {
                    begun.fetch_add(usize::from(std::mem::take(&mut first)), Ordering::SeqCst);
                    if started.elapsed() > Duration::from_secs(100) {
                        given_up.store(true, Ordering::SeqCst);
                    }
                    match done.load(Ordering::SeqCst) || given_up.load(Ordering::SeqCst) {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                assert!(ended.is_err(), "a recording without end ended");
            });
        }
        while begun.load(Ordering::SeqCst) < 6 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm.repeat(5)), SAMPLE_RATE, 1).unwrap();
        let heard = engine.transcribe_with(audio, &TranscribeOptions::default(), |_| ControlFlow::Continue(()));
        done.store(true, Ordering::SeqCst);
        assert!(heard.unwrap().words.len() > 15);
        assert!(!given_up.load(Ordering::SeqCst), "the others had to be stopped first");
    });
}
