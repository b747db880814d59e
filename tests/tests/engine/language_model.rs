//! Language models: scores equal to KenLM's, and shallow fusion in the search of every class of checkpoint.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::unstable::decoding::{Beam, Search, Token};
use auricle_engine::unstable::models::fastconformer::FastConformer;
use auricle_engine::unstable::text::lm::LanguageModel;
use auricle_engine::{DeviceChoice, EngineOptions, FusionWeights, LanguageModelChoice, TranscribeOptions, Transcript};
use auricle_tests::{Oracle, arpa, auricle, fixtures, models_with, speech};
use burn::tensor::{Device, Tensor};

/// The classes of checkpoint, and whether they stream.
const CLASSES: [(&str, bool); 5] =
    [("ctc", false), ("rnnt", false), ("tdt", false), ("streaming", true), ("prompt", true)];

fn lm(name: &str) -> PathBuf {
    fixtures().join("lm").join(name)
}

#[test]
fn both_file_forms_score_as_kenlm_does() {
    let oracle: serde_json::Value = serde_json::from_slice(&std::fs::read(lm("kenlm.json")).unwrap()).unwrap();
    for form in ["small.arpa", "small.ngram"] {
        let model = LanguageModel::open(&lm(form)).unwrap();
        assert_eq!(model.ngram().counts(), [76, 60, 40, 20], "{form}");
        for (text, scores) in oracle.as_object().unwrap() {
            let ours: Vec<f32> = model.scores(text).iter().map(|score| score / std::f32::consts::LN_10).collect();
            let theirs: Vec<f64> = scores.as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect();
            assert_eq!(ours.len(), theirs.len(), "{form}: {text}");
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!((f64::from(*ours) - theirs).abs() <= 1e-4, "{form}: {text}: {ours} {theirs}");
            }
        }
    }
}

#[test]
fn case_does_not_count() {
    let model = LanguageModel::open(&lm("small.arpa")).unwrap();
    assert_eq!(model.scores("Ask NOT what"), model.scores("ask not what"));
}

struct Case {
    model: FastConformer,
    features: Tensor<3>,
    lengths: Vec<usize>,
    streaming: bool,
}

impl Case {
    fn open(name: &str, streaming: bool) -> Self {
        let dir = fixtures().join("fastconformer").join(name);
        let (device, oracle) = (Device::flex(), Oracle::open(&dir));
        let model = FastConformer::load(&dir, &device).unwrap();
        let (features, lengths) = (oracle.tensor("features", &device), oracle.integers("feature_lengths"));
        Self { model, features, lengths, streaming }
    }

    /// The tokens of every utterance; a stream gets them in steps of `frames` encoder frames.
    fn tokens(&self, search: Search, frames: usize) -> Vec<Vec<Token>> {
        if !self.streaming {
            return self.model.recognise(self.features.clone(), &self.lengths, search).unwrap();
        }
        let lead = self.model.encoder().lead();
        let [rows, total, mels] = self.features.dims();
        let zeros = |count: usize| Tensor::<3>::zeros([rows, count, mels], &Device::flex());
        let padding = (lead + total).next_multiple_of(lead + 1) - lead - total;
        let features = Tensor::cat(vec![zeros(lead), self.features.clone(), zeros(padding)], 1);
        let mut stream = self.model.stream(rows, 3, 0).unwrap();
        let mut tokens = vec![Vec::new(); rows];
        let mut at = 0;
        while at < features.dims()[1] {
            let size = (frames * (lead + 1)).min(features.dims()[1] - at);
            let real = |length: &usize| lead.saturating_sub(at)..(lead + length).saturating_sub(at).min(size);
            let valid: Vec<_> = self.lengths.iter().map(real).collect();
            let chunk = features.clone().narrow(1, at, size);
            let new = self.model.step(&mut stream, chunk, &valid, search).unwrap();
            tokens.iter_mut().zip(new).for_each(|(tokens, new)| tokens.extend(new));
            at += size;
        }
        tokens.iter_mut().zip(self.model.finish(stream, search)).for_each(|(tokens, last)| tokens.extend(last));
        tokens
    }
}

#[test]
fn a_beam_of_one_without_a_language_model_is_greedy_search() {
    for (name, streaming) in CLASSES {
        let case = Case::open(name, streaming);
        let greedy = case.tokens(Search::Greedy(None), 4);
        assert!(greedy.iter().any(|tokens| !tokens.is_empty()), "{name}");
        let beam = case.tokens(Search::Beam(Beam { width: 1, fusion: None }), 4);
        // Confidence comes from scores that were normalised first: equal but for rounding.
        let scores = |rows: &[Vec<Token>]| -> Vec<Vec<(u32, usize, usize, i32)>> {
            let token = |t: &Token| (t.id, t.frame, t.span, (t.confidence * 1e3).round() as i32);
            rows.iter().map(|row| row.iter().map(token).collect()).collect()
        };
        assert_eq!(scores(&beam), scores(&greedy), "{name}");
    }
}

#[test]
fn a_beam_continues_across_chunks_and_rows() {
    for (name, streaming) in CLASSES.into_iter().filter(|(_, streaming)| *streaming) {
        let case = Case::open(name, streaming);
        let search = Search::Beam(Beam { width: 6, fusion: None });
        let ids = |frames| -> Vec<Vec<(u32, usize)>> {
            let rows = case.tokens(search, frames);
            rows.iter().map(|row| row.iter().map(|token| (token.id, token.frame)).collect()).collect()
        };
        let whole = ids(case.features.dims()[1]);
        assert!(whole.iter().all(|row| row.windows(2).all(|pair| pair[0].1 <= pair[1].1)), "{name}: times go back");
        assert_eq!(ids(4), whole, "{name}");
    }
}

fn engine(models: &Path) -> Engine {
    Engine::open(EngineOptions::default().models(models).device(DeviceChoice::Cpu)).unwrap()
}

fn transcribe(engine: &Engine, options: &TranscribeOptions) -> Transcript {
    let transcript = engine.transcribe(AudioStream::open(speech()).unwrap(), options).unwrap();
    let end = (transcript.audio_duration_sec * 1000.0).round() as u64;
    assert!(transcript.words.windows(2).all(|pair| pair[0].start <= pair[1].start), "{name:?}", name = options.model);
    for word in &transcript.words {
        assert!(word.start <= word.end && word.end <= end && (0.0..=1.0).contains(&word.confidence), "{word:?}");
    }
    transcript
}

#[test]
fn a_users_language_model_decides_between_similar_words() {
    // With random weights all words score alike acoustically, so the language model decides.
    let dir = tempfile::tempdir().unwrap();
    for (name, _) in CLASSES {
        let models = models_with(name);
        let engine = engine(models.path());
        let heard = |words: &[&str]| {
            let file = dir.path().join(format!("{name}-{}.arpa", words.join("-")));
            std::fs::write(&file, arpa(words)).unwrap();
            // Without a word bonus the search writes punctuation alone, which the language model does not score.
            let fusion = FusionWeights { lm: 1.0, word: 30.0, ..FusionWeights::default() };
            let language_model = LanguageModelChoice::File(file);
            transcribe(&engine, &TranscribeOptions::default().language_model(language_model).fusion(fusion))
        };
        let share = |transcript: &Transcript, wanted: &str| {
            let found = transcript.words.iter().filter(|word| word.text.to_lowercase().contains(wanted)).count();
            found as f64 / transcript.words.len().max(1) as f64
        };
        let (the, and) = (heard(&["the"]), heard(&["and"]));
        assert!(share(&the, "the") > share(&and, "the"), "{name}: {} / {}", the.text, and.text);
        assert!(share(&and, "and") > share(&the, "and"), "{name}: {} / {}", the.text, and.text);
    }
}

#[test]
fn without_a_language_model_a_search_stays_greedy() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let greedy = transcribe(&engine, &TranscribeOptions::default());
    let off = TranscribeOptions::default().language_model(LanguageModelChoice::Off).beam(16);
    assert_eq!(transcribe(&engine, &off), greedy);
}

#[test]
fn keyterms_are_written_more_often_beside_a_language_model_without_them() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), arpa(&["zebra"])).unwrap();
    let terms = ["there", "time", "and", "the"];
    let count = |keyterms: &[&str]| {
        let options = TranscribeOptions::default()
            .keyterms(keyterms.iter().copied())
            .language_model(LanguageModelChoice::File(file.path().into()))
            .fusion(FusionWeights { lm: 0.5, word: 5.0, ..FusionWeights::default() });
        let text = transcribe(&engine, &options).text.to_lowercase();
        terms.iter().map(|term| text.matches(term).count()).sum::<usize>()
    };
    let (plain, leaning) = (count(&[]), count(&terms));
    assert!(leaning > plain, "{plain} without, {leaning} with");
}

#[test]
fn silence_gives_no_text_with_a_language_model() {
    let engine = engine(&auricle_tests::models());
    let pcm = vec![0; 2 * 20 * SAMPLE_RATE as usize];
    let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1).unwrap();
    let streaming = TranscribeOptions::default().checkpoint(auricle_tests::models().join("starter/asr-en"));
    let options = streaming.language_model(LanguageModelChoice::File(lm("small.arpa")));
    assert_eq!(engine.transcribe(audio, &options).unwrap().text, "");
}

#[test]
fn the_program_takes_a_file_or_off_and_says_what_is_wrong_with_a_file() {
    let models = models_with("streaming");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("words.arpa");
    let run = |lm: &str| {
        let (models, speech) = (models.path().to_string_lossy().into_owned(), speech().to_string_lossy().into_owned());
        auricle(["transcribe", "--device", "cpu", "--models", &models, "--quiet", "--lm", lm, &speech])
    };
    std::fs::write(&file, arpa(&["the", "and"])).unwrap();
    let (with, off) = (run(&file.to_string_lossy()), run("off"));
    assert_eq!((with.status, off.status), (Some(0), Some(0)), "{}{}", with.stderr, off.stderr);
    assert_ne!(with.stdout, off.stdout);

    std::fs::write(&file, arpa(&["the", "and"]).replace("-0.5\tand", "much\tand")).unwrap();
    let broken = run(&file.to_string_lossy());
    assert_eq!(broken.status, Some(1));
    assert_eq!(
        broken.stderr,
        format!("auricle: language model {}: line 7: \"much\" is no number\n", file.display()),
        "one line that names the file and the line"
    );
    let missing = run("nowhere.arpa");
    assert_eq!((missing.status, missing.stderr.lines().count()), (Some(1), 1));
    assert!(missing.stderr.contains("nowhere.arpa"), "{}", missing.stderr);
}
