//! An engine of several devices, and devices that are lost: real adapters, ended as the reset of a driver ends them. Each test runs in a
//! process of its own, because the others of this program share the adapter.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::{Engine, Events};
use auricle_engine::unstable::device::{lose, lose_untold};
use auricle_engine::{
    Caption, DeviceChoice, EngineOptions, Error, LanguageModelChoice, ListenOptions, LiveEvent, LiveInput, SecondPass,
    TranscribeOptions, Transcript, devices,
};
use auricle_tests::{eventually, fixtures, models, models_with, skip, speech};

const ALONE: &str = "AURICLE_TEST_ALONE";
/// A folder whose `driver.json` is all that the Vulkan loader finds.
const DRIVER_FOLDER: &str = "AURICLE_TEST_DRIVER_FOLDER";
const GPU: DeviceChoice = DeviceChoice::Vulkan(0);

/// Runs `test` in a process of its own that finds the software rasteriser alone.
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let Some(driver) = software_driver() else {
        return skip("no software Vulkan driver found (Debian: apt-get install libvulkan1 mesa-vulkan-drivers)");
    };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("driver.json");
    std::fs::copy(driver, &here).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("devices::{name}"), "--nocapture"]).env(ALONE, "1");
    // Loaders before 1.3.207 know the second name.
    command.env("VK_DRIVER_FILES", &here).env("VK_ICD_FILENAMES", &here).env(DRIVER_FOLDER, folder.path());
    let ended = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("1 passed"), "{name}: {out}\n{err}");
}

fn software_driver() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/share/vulkan/icd.d").ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let is_software =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd"));
    found.filter(is_software).find(|_| devices().len() > 1)
}

fn open(models: &Path, devices: &[DeviceChoice]) -> Engine {
    Engine::open(EngineOptions::default().models(models).devices(devices.to_vec())).unwrap()
}

fn words(transcript: &Transcript) -> Vec<&str> {
    transcript.words.iter().map(|word| word.text.as_str()).collect()
}

/// The words of a live session.
fn heard(events: Events) -> Vec<String> {
    let finals = events.filter_map(|event| match event.unwrap() {
        LiveEvent::Final(caption) => Some(caption.words.into_iter().map(|word| word.text)),
        _ => None,
    });
    finals.flatten().collect()
}

fn spoken() -> Vec<f32> {
    let mut samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    samples.resize(samples.len() + 2 * SAMPLE_RATE as usize, 0.0);
    samples
}

/// PCM of speech, long enough for steps after the first.
fn long_speech() -> Vec<u8> {
    spoken().repeat(12).iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect()
}

#[test]
fn sessions_and_recordings_are_shared_by_two_devices() {
    alone("sessions_and_recordings_are_shared_by_two_devices", || {
        let (engine, single) = (open(&models(), &[DeviceChoice::Cpu, GPU]), open(&models(), &[DeviceChoice::Cpu]));
        assert_eq!(engine.devices().iter().map(|device| device.id.as_str()).collect::<Vec<_>>(), ["cpu", "vulkan:0"]);
        let options = ListenOptions::default()
            .second_pass(SecondPass::Off)
            .model("svc-realtime")
            .language_model(LanguageModelChoice::Off);
        let (samples, mut sessions) = (spoken(), Vec::new());
        for _ in 0..4 {
            sessions.push(engine.listen(&options).unwrap());
        }
        assert_eq!(engine.open_streams().unwrap(), [2, 2]);
        let texts: Vec<Vec<String>> = std::thread::scope(|scope| {
            let listen = |(mut input, events): (LiveInput, Events)| {
                let samples = &samples;
                scope.spawn(move || {
                    samples.chunks(SAMPLE_RATE as usize / 10).for_each(|piece| input.push(piece).unwrap());
                    input.finish().unwrap();
                    heard(events)
                })
            };
            let threads: Vec<_> = sessions.into_iter().map(listen).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(texts[0].len() > 10 && texts.iter().all(|text| *text == texts[0]), "{texts:?}");

        // Whisper would take minutes on a software GPU.
        let options = TranscribeOptions::default().checkpoint(models().join("starter/asr-en"));
        let wanted = single.transcribe_file(speech(), &options).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let transcript = engine.transcribe_file(speech(), &options).unwrap();
                    assert_eq!(words(&transcript), words(&wanted));
                });
            }
        });
        let paths: Vec<PathBuf> = engine.loaded_models().into_iter().map(|(path, _)| path).collect();
        let copies = paths.iter().filter(|path| path.ends_with("asr-en")).count();
        assert_eq!(copies, 2, "{paths:?}");
    });
}

#[test]
fn streams_of_a_lost_device_end_and_the_next_run_on_it_opened_anew() {
    alone("streams_of_a_lost_device_end_and_the_next_run_on_it_opened_anew", || {
        let models = models_with("streaming");
        let engine = open(models.path(), &[GPU]);
        let options = TranscribeOptions::default();
        let wanted = engine.transcribe_file(speech(), &options).unwrap();
        assert!(!wanted.words.is_empty());

        let live = ListenOptions::default().second_pass(SecondPass::Off).model("svc-best");
        let (mut idle, mut idle_events) = engine.listen(&live).unwrap();
        idle.push(&[0.0; 160]).unwrap();
        let mut is_lost = false;
        let long = AudioStream::from_pcm_s16le(Cursor::new(long_speech()), SAMPLE_RATE, 1).unwrap();
        let broken = engine.transcribe_with(long, &options, |_| {
            is_lost = is_lost || lose("vulkan:0");
            ControlFlow::Continue(())
        });
        assert!(is_lost);
        assert!(matches!(&broken, Err(Error::Device { .. })), "{broken:?}");

        let again = engine.transcribe_file(speech(), &options).unwrap();
        assert_eq!(words(&again), words(&wanted));
        // It took no step since, and learns of the loss all the same.
        let last = idle_events.find_map(Result::err);
        assert!(matches!(&last, Some(Error::Device { reason, .. }) if reason.contains("lost")), "{last:?}");
        eventually("the recording's stream is closed", || (engine.open_streams().unwrap() == [0]).then_some(()));
        let copies = engine.loaded_models().len();
        let (mut input, events) = engine.listen(&live).unwrap();
        input.push(&spoken()).unwrap();
        input.finish().unwrap();
        assert!(!heard(events).is_empty());
        assert!(lose("vulkan:0") && engine.transcribe_file(speech(), &options).is_err());
        assert_eq!(words(&engine.transcribe_file(speech(), &options).unwrap()), words(&wanted), "a second loss");
        assert_eq!(engine.loaded_models().len(), copies, "the models of lost devices are forgotten");
    });
}

#[test]
fn a_step_that_crashes_because_its_device_is_lost_tells_of_the_loss() {
    alone("a_step_that_crashes_because_its_device_is_lost_tells_of_the_loss", || {
        let models = models_with("streaming");
        let engine = open(models.path(), &[GPU]);
        let options = TranscribeOptions::default();
        let wanted = engine.transcribe_file(speech(), &options).unwrap();
        // The call that comes between the loss and the news of it is another one each time.
        for _ in 0..4 {
            let long = AudioStream::from_pcm_s16le(Cursor::new(long_speech()), SAMPLE_RATE, 1).unwrap();
            let mut is_lost = false;
            let broken = engine.transcribe_with(long, &options, |_| {
                is_lost = is_lost || lose_untold("vulkan:0");
                ControlFlow::Continue(())
            });
            assert!(is_lost && matches!(&broken, Err(Error::Device { .. })), "{broken:?}");
            assert_eq!(words(&engine.transcribe_file(speech(), &options).unwrap()), words(&wanted));
        }
    });
}

#[test]
fn a_device_lost_between_the_passes_leaves_the_first_passs_text() {
    alone("a_device_lost_between_the_passes_leaves_the_first_passs_text", || {
        let models = models_with("streaming");
        let engine = open(models.path(), &[GPU]);
        let reader = SecondPass::Path(fixtures().join("whisper/taught"));
        let live = ListenOptions::default().second_pass(reader).model("svc-best").formatted_within_ms(60_000);
        let (mut input, mut events) = engine.listen(&live).unwrap();
        input.push(&spoken()).unwrap();
        let raw =
            events.find_map(|event| if let LiveEvent::Final(caption) = event.unwrap() { Some(caption) } else { None });
        assert!(lose("vulkan:0"));
        let words = |caption: Caption| caption.words.into_iter().map(|word| word.text).collect::<Vec<_>>();
        match events.next() {
            Some(Ok(LiveEvent::Formatted(caption))) => assert_eq!(words(caption).len(), words(raw.unwrap()).len()),
            other => panic!("{other:?}"),
        }
        let last = events.find_map(Result::err);
        assert!(matches!(&last, Some(Error::Device { .. })), "{last:?}");
        let (mut input, events) = engine.listen(&live).unwrap();
        input.push(&spoken()).unwrap();
        input.finish().unwrap();
        assert!(!heard(events).is_empty());
    });
}

#[test]
fn while_a_device_is_gone_the_others_work() {
    alone("while_a_device_is_gone_the_others_work", || {
        let models = models_with("streaming");
        let (both, gpu) = (open(models.path(), &[DeviceChoice::Cpu, GPU]), open(models.path(), &[GPU]));
        let options = TranscribeOptions::default();
        let transcribe = |engine: &Engine| engine.transcribe_file(speech(), &options);
        let wanted = transcribe(&both).unwrap();
        transcribe(&both).unwrap();
        transcribe(&gpu).unwrap();
        let driver = PathBuf::from(std::env::var_os(DRIVER_FOLDER).unwrap()).join("driver.json");
        let away = driver.with_extension("away");
        std::fs::rename(&driver, &away).unwrap();
        assert!(lose("vulkan:0"));
        // The first that it is chosen for finds out.
        assert!((0..20).any(|_| transcribe(&both).is_err()));
        for _ in 0..4 {
            assert_eq!(words(&transcribe(&both).unwrap()), words(&wanted));
        }
        assert!(transcribe(&gpu).is_err());
        let refused = transcribe(&gpu);
        assert!(
            matches!(&refused, Err(Error::Device { device, reason }) if device == "vulkan:0" && reason.contains("cannot be opened")),
            "{refused:?}"
        );
        std::fs::rename(&away, &driver).unwrap();
        let began = Instant::now();
        while transcribe(&gpu).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the device is there again");
            std::thread::sleep(Duration::from_millis(200));
        }
        assert_eq!(both.open_streams().unwrap().len(), 2);
    });
}
