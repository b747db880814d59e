//! Live sessions of the engine with the starter: real speech, one session and many, in pieces of any size.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::{Engine, Events};
use auricle_engine::{
    Caption, DeviceChoice, EngineOptions, Error, FusionWeights, LanguageModelChoice, ListenOptions, LiveEvent,
    LiveInput, SecondPass, TranscribeOptions,
};
use auricle_tests::{arpa, models_with, speech};

const SECOND: usize = SAMPLE_RATE as usize;

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| open(64))
}

fn open(live_streams: usize) -> Engine {
    let options =
        EngineOptions::default().models(auricle_tests::models()).device(DeviceChoice::Cpu).live_streams(live_streams);
    Engine::open(options).unwrap()
}

fn model(model: &str) -> ListenOptions {
    ListenOptions::default().model(model).language("en").second_pass(SecondPass::Off)
}

/// Speech, and silence after it.
fn spoken() -> &'static [f32] {
    static SPOKEN: OnceLock<Vec<f32>> = OnceLock::new();
    SPOKEN.get_or_init(|| {
        let mut samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
        samples.resize(samples.len() + 2 * SECOND, 0.0);
        samples
    })
}

fn noise(samples: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..samples).map(|_| next() * 0.5).collect()
}

fn all(events: Events) -> Vec<LiveEvent> {
    events.map(Result::unwrap).collect()
}

fn heard(options: &ListenOptions, samples: &[f32], piece: usize) -> Vec<LiveEvent> {
    let (mut input, events) = engine().listen(options).unwrap();
    for piece in samples.chunks(piece) {
        input.push(piece).unwrap();
    }
    input.finish().unwrap();
    all(events)
}

fn finals(events: &[LiveEvent]) -> Vec<Caption> {
    let finals = events.iter().filter_map(|event| match event {
        LiveEvent::Final(caption) => Some(caption.clone()),
        _ => None,
    });
    finals.collect()
}

/// Asserts the same words at the same times. Confidences may differ in their last bits, since the order of sums differs.
fn assert_same(a: &[Caption], b: &[Caption], what: &str) {
    let plain = |captions: &[Caption]| -> Vec<(String, u64, u64)> {
        captions.iter().flat_map(|c| &c.words).map(|w| (w.text.clone(), w.start, w.end)).collect()
    };
    assert_eq!(plain(a), plain(b), "{what}");
    assert_eq!(a.len(), b.len(), "{what}: turns");
}

#[test]
fn a_session_among_thirty_one_others_equals_one_alone() {
    let options = model("svc-realtime-pro");
    let alone = finals(&heard(&options, spoken(), SECOND / 10));
    assert!(!alone.is_empty());
    let mut sessions: Vec<_> = (0..32)
        .map(|n| {
            // The other sessions play the same speech later, louder or softer, or noise.
            let mut samples = if n % 5 == 4 { noise(12 * SECOND, n as u64) } else { vec![0.0; n * 1_117] };
            let gain = 1.0 - n as f32 / 50.0;
            samples.extend(spoken().iter().map(|sample| sample * gain));
            let (input, events) = engine().listen(&options).unwrap();
            (samples, input, events)
        })
        .collect();
    for at in 0..spoken().len().div_ceil(SECOND / 10) {
        for (samples, input, _) in &mut sessions {
            let piece = samples.chunks(SECOND / 10).nth(at).unwrap_or_default().to_vec();
            input.push(&piece).unwrap();
        }
    }
    for (n, (_, mut input, events)) in sessions.into_iter().enumerate() {
        input.finish().unwrap();
        let events = all(events);
        if n == 0 {
            assert_same(&alone, &finals(&events), "the first of 32");
        }
    }
}

/// Recordings are transcribed between the steps of live sessions, and change only their latency.
#[test]
fn a_session_beside_recordings_equals_one_alone() {
    let options = model("svc-realtime-pro");
    let alone = finals(&heard(&options, spoken(), SECOND / 10));
    let transcribe = || {
        let greedy = TranscribeOptions::default().language_model(LanguageModelChoice::Off);
        let audio = AudioStream::open(speech()).unwrap();
        engine().transcribe(audio, &greedy).unwrap()
    };
    let by_itself = transcribe();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let files = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) || count == 0 {
                assert_eq!(transcribe(), by_itself);
                count += 1;
            }
            count
        });
        for _ in 0..3 {
            assert_same(&alone, &finals(&heard(&options, spoken(), SECOND / 10)), "beside recordings");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(files.join().unwrap() > 0);
    });
}

#[test]
fn pieces_of_any_size_give_the_same_turns() {
    for name in ["svc-realtime-pro", "svc-realtime"] {
        let options = model(name);
        let whole = finals(&heard(&options, spoken(), spoken().len()));
        for piece in [160, 1_234, SECOND / 10, 3 * SECOND] {
            assert_same(&whole, &finals(&heard(&options, spoken(), piece)), &format!("{name} by {piece}"));
        }
    }
}

/// Waits until at most this much audio is queued.
fn wait_for_at_most(ms: u64, input: &mut LiveInput) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let waited = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), input.caught_up(ms)).await });
    assert!(waited.is_ok(), "{} ms are waiting still", input.waiting_ms());
    assert!(input.waiting_ms() <= ms && !input.is_refused());
}

/// A caller that waits for the device before it pushes more gets all events so far, silence after a turn included.
#[test]
fn a_caller_that_waits_gets_all_events() {
    let (mut input, events) = engine().listen(&model("svc-realtime-pro")).unwrap();
    let collector = std::thread::spawn(move || all(events));
    for _ in 0..3 {
        input.push(spoken()).unwrap();
        input.push(&vec![0.0; 20 * SECOND]).unwrap();
        wait_for_at_most(1_000, &mut input);
    }
    input.finish().unwrap();
    assert!(finals(&collector.join().unwrap()).len() >= 3);
}

/// Audio that did not fit into the queue enters it later without a further push.
#[test]
fn audio_of_a_full_queue_is_not_lost() {
    let (mut input, events) = engine().listen(&model("svc-realtime-pro")).unwrap();
    let collector = std::thread::spawn(move || all(events));
    // A long step, during which more messages arrive than the queue holds.
    input.push(&spoken().repeat(4)).unwrap();
    let before = input.waiting_ms();
    let mut full = false;
    for _ in 0..200_000 {
        input.push(&[0.0]).unwrap();
        full |= input.is_refused();
        if full {
            break;
        }
    }
    assert!(full, "the queue was not full, with {before} ms of audio in front");
    input.push(spoken()).unwrap();
    wait_for_at_most(1_000, &mut input);
    input.finish().unwrap();
    let collector = finals(&collector.join().unwrap());
    assert!(collector.len() >= 5, "{} turns", collector.len());
}

/// NaN samples count as silence, and later speech is transcribed.
#[test]
fn nan_samples_do_not_deafen_a_session() {
    let (mut input, events) = engine().listen(&model("svc-realtime-pro")).unwrap();
    input.push(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY].repeat(SECOND)).unwrap();
    input.push(spoken()).unwrap();
    input.finish().unwrap();
    assert!(!finals(&all(events)).is_empty());
}

/// A session in real time takes one chunk per step, a late one takes many: the words are the same.
#[test]
fn the_pace_does_not_change_the_words() {
    let options = model("svc-realtime-pro");
    let (mut input, events) = engine().listen(&options).unwrap();
    let paced = std::thread::spawn(move || all(events));
    for piece in spoken().chunks(SECOND / 10) {
        input.push(piece).unwrap();
        wait_for_at_most(450, &mut input);
    }
    input.finish().unwrap();
    let paced = paced.join().unwrap();
    assert_same(&finals(&paced), &finals(&heard(&options, spoken(), 5 * SECOND)), "paced");
    let partials = paced.iter().filter(|event| matches!(event, LiveEvent::Partial(_))).count();
    assert!(partials > 10, "{partials} partials");
}

#[test]
fn partials_grow_into_a_final_that_is_formatted_and_never_revised() {
    let events = heard(&model("svc-realtime-pro"), spoken(), SECOND / 10);
    let mut before = 0;
    let mut last_final: Option<Caption> = None;
    let mut partials = 0;
    for event in &events {
        let caption = match event {
            LiveEvent::Partial(caption) => {
                assert!(last_final.is_none(), "a final is restated at once");
                partials += 1;
                caption
            }
            LiveEvent::Final(caption) => {
                last_final = Some(caption.clone());
                caption
            }
            LiveEvent::Formatted(caption) => {
                let raw = last_final.take().expect("a final comes first");
                assert!(caption.text.starts_with(char::is_uppercase) && caption.text.ends_with(['.', '?', '!']));
                assert_eq!(caption.words.first().unwrap().start, raw.words.first().unwrap().start);
                assert_eq!(caption.words.last().unwrap().end, raw.words.last().unwrap().end);
                before = caption.words.last().unwrap().end;
                continue;
            }
        };
        for word in &caption.words {
            assert!(word.start >= before, "{} begins at {} ms, in the turn before", word.text, word.start);
            assert!(word.start <= word.end && word.end <= (spoken().len() / 16) as u64);
            assert!((0.0..=1.0).contains(&word.confidence));
        }
        assert!(caption.words.windows(2).all(|pair| pair[0].end <= pair[1].start.max(pair[0].end)));
    }
    assert!(last_final.is_none() && partials > 0);
    assert!(finals(&events).len() > 1, "the speaker pauses");
}

#[test]
fn a_users_language_model_joins_the_search_of_a_session() {
    let words = ["country", "ask", "for", "you", "what", "do"];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), arpa(&words)).unwrap();
    let others = |language_model: LanguageModelChoice| {
        let fusion = FusionWeights::new(2.0);
        let options = model("svc-realtime").language_model(language_model).fusion(fusion);
        let turns = finals(&heard(&options, spoken(), SECOND / 10));
        let said = turns.iter().flat_map(|turn| &turn.words).map(|word| word.text.to_lowercase());
        let (known, other): (Vec<String>, Vec<String>) =
            said.partition(|word| words.contains(&word.trim_matches(|c: char| !c.is_alphanumeric())));
        assert!(!known.is_empty());
        other
    };
    let without = others(LanguageModelChoice::Off);
    assert!(without.len() > 4, "{without:?}");
    assert_eq!(others(LanguageModelChoice::File(file.path().into())), Vec::<String>::new());
}

/// A beam search may revise partial text; it never revises finished text.
#[test]
fn greedy_partials_only_grow() {
    let options = model("svc-realtime-pro").language_model(LanguageModelChoice::Off);
    let mut shown = String::new();
    for event in heard(&options, spoken(), SECOND / 10) {
        match event {
            LiveEvent::Partial(caption) => {
                assert!(caption.text.starts_with(&shown), "{} after {shown}", caption.text);
                shown = caption.text;
            }
            LiveEvent::Final(caption) => assert!(caption.text.starts_with(&shown), "{} after {shown}", caption.text),
            LiveEvent::Formatted(_) => shown.clear(),
        }
    }
}

#[test]
fn any_rate_gives_words() {
    let at_16k = spoken();
    for rate in [8_000, 11_025, 44_100, 48_000] {
        // Nearest-sample resampling is crude, and good enough for the same words.
        let resampled: Vec<f32> = (0..at_16k.len() * rate / SECOND).map(|n| at_16k[n * SECOND / rate]).collect();
        let options = model("svc-realtime-pro").sample_rate(rate as u32);
        let turns = finals(&heard(&options, &resampled, rate / 10));
        let words: usize = turns.iter().map(|turn| turn.words.len()).sum();
        assert!(words >= 5, "{rate} Hz: {turns:?}");
        assert!(turns.iter().flat_map(|turn| &turn.words).all(|word| word.end <= (at_16k.len() / 16) as u64));
    }
}

#[test]
fn an_hour_of_silence_and_full_scale_noise_gives_finite_numbers() {
    let (mut input, events) = engine().listen(&model("svc-realtime-pro")).unwrap();
    (0..3600).for_each(|_| input.push(&[0.0; SECOND]).unwrap());
    input.finish().unwrap();
    assert_eq!(all(events), [], "an hour of silence");
    let loud: Vec<f32> = noise(30 * SECOND, 7).into_iter().map(|sample| sample.signum()).collect();
    for event in heard(&model("svc-realtime"), &loud, SECOND / 5) {
        let (LiveEvent::Partial(caption) | LiveEvent::Final(caption) | LiveEvent::Formatted(caption)) = event;
        assert!(caption.words.iter().all(|word| word.confidence.is_finite()));
    }
    assert!(!finals(&heard(&model("svc-realtime"), spoken(), SECOND)).is_empty(), "the device still works");
}

#[test]
fn a_session_without_audio_gives_no_text() {
    assert_eq!(heard(&model("svc-realtime"), &[], 1), []);
    assert_eq!(heard(&model("svc-realtime"), &[0.1], 1), []);
}

#[test]
fn an_odd_byte_waits_for_the_next_push() {
    let bytes: Vec<u8> = spoken().iter().flat_map(|sample| ((sample * 32_768.0) as i16).to_le_bytes()).collect();
    let by = |piece: usize| {
        let (mut input, events) = engine().listen(&model("svc-realtime")).unwrap();
        for piece in bytes.chunks(piece) {
            input.push_pcm16(piece).unwrap();
        }
        input.finish().unwrap();
        finals(&all(events))
    };
    assert_same(&by(3_200), &by(3_333), "odd pieces");
}

#[test]
fn a_dropped_session_frees_its_slot() {
    let engine = open(1);
    for _ in 0..3 {
        let (mut input, events) = loop {
            match engine.listen(&ListenOptions::default()) {
                Ok(opened) => break opened,
                // The slot of the last session is not free yet.
                Err(Error::Busy(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        assert!(matches!(engine.listen(&ListenOptions::default()), Err(Error::Busy(_))));
        input.push(&spoken()[..3 * SECOND]).unwrap();
        drop(input);
        all(events);
    }
}

#[test]
fn unsupported_options_are_refused_by_name() {
    let engine = engine();
    let refused = |options: ListenOptions| engine.listen(&options).err().unwrap();
    let with = |change: fn(&mut ListenOptions)| {
        let mut options = ListenOptions::default();
        change(&mut options);
        options
    };
    assert!(matches!(refused(with(|o| o.model = Some("svc-none".into()))), Error::UnknownModel(_)));
    assert!(matches!(refused(with(|o| o.language = Some("tlh".into()))), Error::Language(_)));
    assert!(matches!(refused(with(|o| o.sample_rate = 7_999)), Error::InvalidOption(_)));
    assert!(matches!(refused(with(|o| o.sample_rate = 48_001)), Error::InvalidOption(_)));
    assert!(matches!(refused(with(|o| o.beam = Some(0))), Error::InvalidOption(_)));
    assert!(matches!(refused(with(|o| o.fusion.lm = -1.0)), Error::InvalidOption(_)));
    let nowhere = LanguageModelChoice::File("/nowhere.arpa".into());
    let options = ListenOptions::default().language_model(nowhere);
    assert!(matches!(refused(options), Error::LanguageModel { .. } | Error::Read { .. }));
    assert!(matches!(refused(with(|o| o.look_ahead_ms = Some(20))), Error::InvalidOption(_)));
    let whole = models_with("tdt");
    let options = EngineOptions::default().models(whole.path()).device(DeviceChoice::Cpu);
    let refused = Engine::open(options).unwrap().listen(&model("svc-best")).err().unwrap();
    assert!(matches!(refused, Error::InvalidOption(_)), "{refused}");
}
