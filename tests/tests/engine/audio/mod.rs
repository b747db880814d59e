//! The contract of `auricle_engine::audio`: any input becomes 16 kHz mono, or one clear line says why not.

mod damage;
mod formats;
mod gaps;
mod timing;

use std::f64::consts::TAU;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use auricle_engine::Error;
use auricle_engine::audio::{AudioStream, Ffmpeg, OpenOptions, SAMPLE_RATE};
use tempfile::TempDir;

const SECONDS: usize = 3;

/// A tone and a rising chirp that swells four times a second: `[seconds * rate]`. The chirp shows any shift in time.
fn signal(rate: u32, seconds: usize) -> Vec<f32> {
    let sample = |n: usize| {
        let t = n as f64 / f64::from(rate);
        let chirp = (TAU * (300.0 * t + 400.0 * t * t)).sin() * (0.6 + 0.4 * (TAU * 4.0 * t).sin());
        (0.25 * (TAU * 440.0 * t).sin() + 0.25 * chirp) as f32
    };
    (0..seconds * rate as usize).map(sample).collect()
}

/// A WAV file; `tag` 1 is integer PCM, 3 float.
fn wav(tag: u16, bits: u16, rate: u32, channels: u16, data: &[u8]) -> Vec<u8> {
    let frame = channels * bits / 8;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0");
    file.extend(tag.to_le_bytes());
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(frame)).to_le_bytes());
    file.extend(frame.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

/// 16-bit WAV with the same samples in every channel.
fn wav16(rate: u32, channels: u16, samples: &[f32]) -> Vec<u8> {
    let frame = |s: &f32| ((s * 32_767.0).round() as i16).to_le_bytes().repeat(usize::from(channels));
    wav(1, 16, rate, channels, &samples.iter().flat_map(frame).collect::<Vec<u8>>())
}

fn named(name: &str) -> OpenOptions {
    OpenOptions::default().name(name).ffmpeg(Ffmpeg::Never)
}

fn open(bytes: &[u8], name: &str) -> Result<AudioStream, Error> {
    AudioStream::from_source(Cursor::new(bytes.to_vec()), &named(name))
}

fn decode(bytes: &[u8], name: &str) -> Vec<f32> {
    open(bytes, name).unwrap().read_to_end().unwrap()
}

/// The error, which must be one line that names the file.
fn refusal(result: Result<AudioStream, Error>, name: &str) -> Error {
    let error = match result {
        Ok(stream) => panic!("{name} was read as {}", stream.format()),
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(name), "{text:?}");
    error
}

fn seconds(samples: &[f32]) -> f64 {
    samples.len() as f64 / f64::from(SAMPLE_RATE)
}

/// The highest normalised cross-correlation of `got` and `want`, 0..=1, and the delay of `got` at it, samples.
fn likeness(got: &[f32], want: &[f32]) -> (f64, i64) {
    let piece = &want[12_000..20_000];
    let at = |lag: i64| {
        let start = (12_000 + lag) as usize;
        let Some(other) = got.get(start..start + piece.len()) else { return 0.0 };
        let (mut both, mut one, mut two) = (0.0, 1e-12, 1e-12);
        for (a, b) in other.iter().zip(piece) {
            both += a * b;
            one += a * a;
            two += b * b;
        }
        f64::from(both / (one * two).sqrt())
    };
    (-1_600..=1_600).map(|lag| (at(lag), lag)).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// xorshift: the same bytes in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 32) as u8
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end.max(1)
    }
}

/// Runs the test with a folder if there is an ffmpeg to make media with.
fn with_ffmpeg(test: impl FnOnce(&Path)) {
    let found = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        auricle_tests::skip("ffmpeg not found (Debian: apt-get install ffmpeg)");
        return;
    }
    test(TempDir::new().unwrap().path());
}

/// Makes a file of the signal, with moving pictures if `video` names their codec; `None` if this ffmpeg lacks the codec.
fn make(folder: &Path, file: &str, video: &str, options: &str) -> Option<PathBuf> {
    let source = folder.join("signal.wav");
    if !source.exists() {
        fs::write(&source, wav16(44_100, 1, &signal(44_100, SECONDS))).unwrap();
    }
    let target = folder.join(file);
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-nostdin"]);
    if !video.is_empty() {
        command.args(["-f", "lavfi", "-i", "testsrc=s=160x120:r=25:d=3"]);
    }
    command.arg("-i").arg(&source);
    if !video.is_empty() {
        command.args(["-c:v", video]);
    }
    let output = command.args(options.split_whitespace()).arg(&target).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Unknown encoder") {
        println!("skipped {file}: this ffmpeg has no encoder for it");
        return None;
    }
    assert!(output.status.success(), "ffmpeg could not make {file}: {said}");
    Some(target)
}

#[test]
fn any_rate_comes_out_at_16_khz_and_in_time() {
    let want = signal(SAMPLE_RATE, 2);
    for rate in [5_512, 8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 44_101, 48_000, 96_000, 192_000, 384_000] {
        let samples = decode(&wav16(rate, 1, &signal(rate, 2)), "x.wav");
        assert_eq!(samples.len(), 32_000, "{rate} Hz");
        let (likeness, lag) = likeness(&samples, &want);
        assert!(likeness > 0.999 && lag == 0, "{rate} Hz: {likeness:.4}, {lag} samples late");
    }
}

#[test]
fn an_impossible_rate_is_refused() {
    for rate in [0, 1, 4_000_000_000] {
        let bytes = wav(1, 16, 16_000, 1, &[0; 4_000]);
        let mut bytes = bytes;
        bytes[24..28].copy_from_slice(&u32::to_le_bytes(rate));
        refusal(open(&bytes, "odd.wav"), "odd.wav");
    }
}

#[test]
fn channels_are_averaged() {
    let check = |channels: u16, ffmpeg: Ffmpeg| {
        let bytes = Cursor::new(wav16(16_000, channels, &signal(16_000, 1)));
        let options = OpenOptions::default().name("mics.wav").ffmpeg(ffmpeg);
        let samples = AudioStream::from_source(bytes, &options).unwrap().read_to_end().unwrap();
        let worst = samples.iter().zip(signal(16_000, 1)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(samples.len() == 16_000 && worst < 1e-3, "{channels} channels: {worst}");
    };
    check(2, Ffmpeg::Never);
    check(6, Ffmpeg::Never);
    check(18, Ffmpeg::Never);
    with_ffmpeg(|_| check(64, Ffmpeg::Find));
    let stereo: Vec<u8> = [16_384_i16, 0].iter().flat_map(|s| s.to_le_bytes()).collect::<Vec<_>>().repeat(16_000);
    let samples = decode(&wav(1, 16, 16_000, 2, &stereo), "stereo.wav");
    assert!(samples.iter().all(|s| (s - 0.25).abs() < 1e-4));
    let error = refusal(open(&wav16(16_000, 65, &[0.5]), "many.wav"), "many.wav");
    assert!(matches!(error, Error::FfmpegMissing(_)), "{error}");
}

#[test]
fn one_sample_is_one_sample() {
    assert_eq!(decode(&wav16(16_000, 1, &[0.5]), "one.wav").len(), 1);
    assert_eq!(decode(&wav16(8_000, 1, &[0.5]), "one.wav").len(), 2);
    assert_eq!(decode(&wav16(384_000, 1, &[0.5]), "one.wav").len(), 0);
    let error = refusal(open(&wav16(16_000, 1, &[]), "none.wav"), "none.wav");
    assert!(matches!(error, Error::UnsupportedMedia(_)), "{error}");
}

#[test]
fn nan_floats_become_silence_and_loud_ones_are_kept() {
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5, -1.5, 1e30, 0.5];
    let data: Vec<u8> = values.iter().flat_map(|s| s.to_le_bytes()).collect();
    assert_eq!(decode(&wav(3, 32, 16_000, 1, &data), "float.wav"), [0.0, 0.0, 0.0, 1.5, -1.5, 16.0, 0.5]);
}

#[test]
fn blocks_are_even_and_add_up() {
    let bytes = wav16(48_000, 2, &signal(48_000, 2));
    let blocks: Vec<Vec<f32>> = open(&bytes, "x.wav").unwrap().with_block(3_000).map(Result::unwrap).collect();
    let (last, full) = blocks.split_last().unwrap();
    assert!(full.iter().all(|block| block.len() == 3_000) && !last.is_empty() && last.len() <= 3_000);
    assert_eq!(blocks.concat(), decode(&bytes, "x.wav"));
}

#[test]
fn raw_pcm_is_mixed_and_resampled() {
    let want = signal(SAMPLE_RATE, 2);
    let bytes = wav16(8_000, 2, &signal(8_000, 2));
    let pcm = Cursor::new(bytes[44..].to_vec());
    let samples = AudioStream::from_pcm_s16le(pcm, 8_000, 2).unwrap().read_to_end().unwrap();
    assert_eq!(samples.len(), 32_000);
    let (likeness, lag) = likeness(&samples, &want);
    assert!(likeness > 0.999 && lag == 0, "{likeness:.4}, {lag} samples late");
    assert!(AudioStream::from_pcm_s16le(Cursor::new([]), 0, 1).is_err());
    assert!(AudioStream::from_pcm_s16le(Cursor::new([]), 16_000, 0).is_err());
}
