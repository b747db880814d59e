//! The contract of `auricle_engine::audio`: whatever comes in, 16 kHz mono comes out, or one clear line why not.

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
    OpenOptions { name: Some(name.into()), ffmpeg: Ffmpeg::Never }
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
        Ok(stream) => panic!("{name} was taken for {}", stream.format()),
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(name), "{text:?}");
    error
}

fn seconds(samples: &[f32]) -> f64 {
    samples.len() as f64 / f64::from(SAMPLE_RATE)
}

/// How alike `got` and `want` are at best, 0..=1, and by how many samples `got` is late then.
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

/// Who decodes a format, and by how many milliseconds it may be late: none where the file states its delay, else a frame.
enum By {
    Symphonia(i64),
    Ffmpeg(i64),
}
use By::{Ffmpeg as F, Symphonia as S};

const AUDIO: &[(&str, &str, By)] = &[
    ("a.mp3", "-b:a 128k", S(1)),
    ("stereo.mp3", "-ac 2 -b:a 160k", S(1)),
    ("vbr.mp3", "-q:a 3", S(1)),
    ("headerless.mp3", "-write_xing 0", S(60)),
    ("half.mp3", "-ar 22050 -b:a 64k", S(1)),
    ("a.mp2", "-c:a mp2 -b:a 128k", S(60)),
    ("a.wav", "", S(0)),
    ("s24.wav", "-c:a pcm_s24le", S(0)),
    ("s32.wav", "-c:a pcm_s32le", S(0)),
    ("f32.wav", "-c:a pcm_f32le", S(0)),
    ("f64.wav", "-c:a pcm_f64le", S(0)),
    ("u8.wav", "-c:a pcm_u8", S(0)),
    ("alaw.wav", "-c:a pcm_alaw", S(0)),
    ("mulaw.wav", "-c:a pcm_mulaw", S(0)),
    ("ms-adpcm.wav", "-c:a adpcm_ms", S(0)),
    ("ima-adpcm.wav", "-c:a adpcm_ima_wav", S(0)),
    ("g722.wav", "-c:a g722 -ar 16000", F(5)),
    ("rf64.wav", "-rf64 always", F(1)),
    ("a.w64", "", F(1)),
    ("a.flac", "", S(0)),
    ("s24.flac", "-sample_fmt s32", S(0)),
    ("a.aac", "", S(60)),
    ("a.m4a", "-b:a 96k", S(1)),
    ("fast.m4a", "-movflags +faststart", S(1)),
    ("a.m4b", "-f ipod", S(1)),
    ("fragmented.mp4", "-movflags frag_keyframe+empty_moov -frag_duration 500000", S(60)),
    ("alac.m4a", "-c:a alac", S(0)),
    ("alac.caf", "-c:a alac", S(0)),
    ("pcm.caf", "-c:a pcm_s16be", S(0)),
    ("a.ogg", "-c:a libvorbis", S(1)),
    ("flac.oga", "-c:a flac", S(0)),
    ("a.opus", "-c:a libopus -b:a 64k", S(1)),
    ("voice.opus", "-c:a libopus -b:a 16k -application voip", S(1)),
    ("opus.mp4", "-c:a libopus", S(1)),
    ("opus.webm", "-c:a libopus", S(2)),
    ("vorbis.webm", "-c:a libvorbis", S(5)),
    ("speex.ogg", "-c:a libspeex -ar 16000 -b:a 28k", F(40)),
    ("a.wma", "-c:a wmav2", F(50)),
    ("v1.wma", "-c:a wmav1", F(50)),
    ("a.aiff", "", S(0)),
    ("a.au", "", F(1)),
    ("mulaw.au", "-c:a pcm_mulaw", F(1)),
    ("a.ac3", "", F(10)),
    ("a.eac3", "", F(10)),
];

const VIDEO: &[(&str, &str, &str, By)] = &[
    ("a.mp4", "mpeg4", "-c:a aac", S(1)),
    ("ac3.mp4", "mpeg4", "-c:a ac3", F(10)),
    ("mp3.mp4", "mpeg4", "-c:a libmp3lame", S(30)),
    ("a.m4v", "mpeg4", "-c:a aac -f mp4", S(1)),
    ("a.3gp", "mpeg4", "-c:a aac", S(1)),
    ("a.mov", "mpeg4", "-c:a aac", S(1)),
    ("pcm.mov", "mpeg4", "-c:a pcm_s16le", S(1)),
    ("a.mkv", "mpeg4", "-c:a aac", S(30)),
    ("vorbis.mkv", "mpeg4", "-c:a libvorbis", S(5)),
    ("opus.mkv", "mpeg4", "-c:a libopus", S(2)),
    ("flac.mkv", "mpeg4", "-c:a flac", S(0)),
    ("mp3.mkv", "mpeg4", "-c:a libmp3lame", S(60)),
    ("ac3.mkv", "mpeg4", "-c:a ac3", F(10)),
    ("vp8.webm", "libvpx", "-c:a libopus", S(2)),
    ("a.avi", "mpeg4", "-c:a libmp3lame", F(60)),
    ("pcm.avi", "mpeg4", "-c:a pcm_s16le", F(1)),
    ("a.mpg", "mpeg1video", "-c:a mp2", F(60)),
    ("a.wmv", "wmv2", "-c:a wmav2", F(60)),
    ("a.flv", "flv", "-c:a libmp3lame", F(60)),
    ("aac.flv", "flv", "-c:a aac", F(60)),
    ("a.ts", "mpeg2video", "-c:a aac", F(60)),
    ("ac3.ts", "mpeg2video", "-c:a ac3", F(60)),
    ("a.m2ts", "mpeg2video", "-c:a ac3 -mpegts_m2ts_mode 1", F(60)),
    ("a.mts", "mpeg2video", "-c:a aac -mpegts_m2ts_mode 1", F(60)),
];

fn check_format(folder: &Path, file: &str, video: &str, options: &str, by: &By) {
    let Some(path) = make(folder, file, video, options) else { return };
    let (ffmpeg, late_ms) = match by {
        S(late_ms) => (Ffmpeg::Never, late_ms),
        F(late_ms) => (Ffmpeg::Find, late_ms),
    };
    let options = OpenOptions { name: None, ffmpeg };
    let mut stream = AudioStream::open_with(&path, &options).unwrap_or_else(|error| panic!("{file}: {error}"));
    let samples = stream.read_to_end().unwrap_or_else(|error| panic!("{file}: {error}"));
    let (seconds, format) = (seconds(&samples), stream.format());
    assert_eq!(stream.warnings(), [""; 0], "{file}");
    assert!((seconds - 3.0).abs() < 0.05, "{file} ({format}): {seconds:.4} s");
    assert!((stream.position_s() - seconds).abs() < 1e-9);
    if let Some(hint) = stream.duration_s() {
        assert!((hint - 3.0).abs() < 0.15, "{file}: stated as {hint:.3} s");
    }
    let (likeness, lag) = likeness(&samples, &signal(SAMPLE_RATE, SECONDS));
    assert!(likeness > 0.95, "{file} ({format}): {likeness:.3} alike");
    assert!(lag.abs() <= late_ms * 16 + 1, "{file} ({format}): {lag} samples late");
    if let F(_) = by {
        let never = OpenOptions { name: None, ffmpeg: Ffmpeg::Never };
        let error = refusal(AudioStream::open_with(&path, &never), file);
        assert!(matches!(error, Error::FfmpegMissing(_)), "{file}: {error}");
    }
}

#[test]
fn every_audio_format_decodes_in_time_and_in_full() {
    with_ffmpeg(|folder| {
        for (file, options, by) in AUDIO {
            check_format(folder, file, "", options, by);
        }
    });
}

#[test]
fn every_video_format_gives_its_audio_in_time_and_in_full() {
    with_ffmpeg(|folder| {
        for (file, video, options, by) in VIDEO {
            check_format(folder, file, video, options, by);
        }
    });
}

#[test]
fn amr_decodes_at_its_length() {
    with_ffmpeg(|folder| {
        // Frames of 20 ms, of arbitrary content: there is no encoder to be had.
        let frames = |magic: &[u8], header: u8, body: usize| {
            let mut noise = Noise(1);
            let frame = |_| std::iter::once(header).chain((0..body).map(|_| noise.byte()).collect::<Vec<_>>());
            magic.iter().copied().chain((0..150).flat_map(frame)).collect::<Vec<u8>>()
        };
        let narrow = folder.join("narrow.amr");
        fs::write(&narrow, frames(b"#!AMR\n", 0x3c, 31)).unwrap();
        let wide = folder.join("wide.amr");
        fs::write(&wide, frames(b"#!AMR-WB\n", 0x14, 32)).unwrap();
        let phone = folder.join("phone.3gp");
        let mux =
            Command::new("ffmpeg").args(["-v", "error", "-i"]).arg(&narrow).args(["-c", "copy"]).arg(&phone).status();
        assert!(mux.unwrap().success());
        for path in [narrow, wide, phone] {
            let samples = AudioStream::open(&path).unwrap().read_to_end().unwrap();
            assert!((seconds(&samples) - 3.0).abs() < 0.05, "{path:?}: {:.4} s", seconds(&samples));
        }
    });
}

#[test]
fn bytes_in_memory_reach_ffmpeg_too() {
    with_ffmpeg(|folder| {
        let (au, avi) = (make(folder, "a.au", "", ""), make(folder, "a.avi", "mpeg4", "-c:a pcm_s16le"));
        for path in [au.unwrap(), avi.unwrap()] {
            let bytes = Cursor::new(fs::read(&path).unwrap());
            let samples = AudioStream::from_source(bytes, &OpenOptions::default()).unwrap().read_to_end().unwrap();
            assert!((seconds(&samples) - 3.0).abs() < 0.05, "{path:?}");
        }
    });
}

#[test]
fn a_name_is_no_option_and_no_address() {
    with_ffmpeg(|folder| {
        for (from, to) in [("a.au", "-i http:x|y %d é.au"), ("a.avi", "-f concat:z,tee|%03d.avi")] {
            let video = if from.ends_with("avi") { "mpeg4" } else { "" };
            let made = make(folder, from, video, "").unwrap();
            let odd = folder.join(to);
            fs::rename(made, &odd).unwrap();
            let samples = AudioStream::open(&odd).unwrap().read_to_end().unwrap();
            assert!((seconds(&samples) - 3.0).abs() < 0.1, "{to}");
        }
    });
}

#[test]
fn an_mp3_that_goes_on_after_its_stated_end_is_decoded_in_full() {
    with_ffmpeg(|folder| {
        let bytes = fs::read(make(folder, "a.mp3", "", "").unwrap()).unwrap();
        let twice = decode(&bytes.repeat(2), "twice.mp3");
        assert!((seconds(&twice) - 6.0).abs() < 0.1, "{:.3}", seconds(&twice));
    });
}

#[test]
fn a_chained_ogg_stream_is_decoded_in_full() {
    with_ffmpeg(|folder| {
        for (file, options) in [("a.ogg", "-c:a libvorbis"), ("a.opus", "-c:a libopus")] {
            let Some(path) = make(folder, file, "", options) else { continue };
            let twice = decode(&fs::read(path).unwrap().repeat(2), file);
            assert!((seconds(&twice) - 6.0).abs() < 0.05, "{file}: {:.3}", seconds(&twice));
        }
    });
}

#[test]
fn video_without_audio_says_so() {
    with_ffmpeg(|folder| {
        for (file, video) in
            [("x.mp4", "mpeg4"), ("x.mkv", "mpeg4"), ("x.avi", "mpeg4"), ("x.ts", "mpeg2video"), ("x.flv", "flv")]
        {
            let path = make(folder, file, video, "-an").unwrap();
            let error = refusal(AudioStream::open(&path), file);
            assert!(matches!(error, Error::NoAudioTrack(_)), "{file}: {error}");
        }
    });
}

/// Cuts after every kilobyte: what is left is decoded with a warning, or refused in one line.
fn check_cuts(whole: &[u8], name: &str, options: &OpenOptions, step: usize) {
    let all = seconds(&AudioStream::from_source(Cursor::new(whole.to_vec()), options).unwrap().read_to_end().unwrap());
    for length in (0..whole.len()).step_by(step) {
        let mut stream = match AudioStream::from_source(Cursor::new(whole[..length].to_vec()), options) {
            Ok(stream) => stream,
            Err(error) => {
                refusal(Err(error), name);
                continue;
            }
        };
        let got = seconds(&stream.read_to_end().unwrap());
        assert!(got > 0.0 && got < all + 0.1, "{name} cut to {length}: {got:.3} s of {all:.3} s");
        if got < all - 0.2 {
            assert!(!stream.warnings().is_empty(), "{name} cut to {length}: {got:.3} s and no warning");
        }
    }
}

#[test]
fn a_wav_file_cut_anywhere_gives_its_start_and_a_warning() {
    check_cuts(&wav16(16_000, 1, &signal(16_000, 3)), "cut.wav", &named("cut.wav"), 1_024);
}

#[test]
fn media_cut_anywhere_give_their_start_and_a_warning_or_a_clear_error() {
    with_ffmpeg(|folder| {
        let files = [
            ("a.mp3", ""),
            ("a.flac", ""),
            ("a.ogg", "-c:a libvorbis"),
            ("a.opus", "-c:a libopus"),
            ("a.m4a", ""),
            ("fast.m4a", "-movflags +faststart"),
            ("fragmented.mp4", "-movflags frag_keyframe+empty_moov -frag_duration 500000"),
            ("a.aiff", ""),
            ("a.caf", "-c:a alac"),
            ("a.mkv", "-c:a flac"),
        ];
        for (file, options) in files {
            let Some(path) = make(folder, file, "", options) else { continue };
            check_cuts(&fs::read(path).unwrap(), file, &named(file), 1_024);
        }
        // ffmpeg's own formats: fewer cuts, as each starts a process.
        for (file, options) in [("a.wma", "-c:a wmav2"), ("a.ac3", ""), ("a.avi", "")] {
            let Some(path) = make(folder, file, "", options) else { continue };
            for cut in 1..12 {
                let whole = fs::read(&path).unwrap();
                let options = OpenOptions { name: Some(file.into()), ffmpeg: Ffmpeg::Find };
                match AudioStream::from_source(Cursor::new(whole[..whole.len() * cut / 12].to_vec()), &options) {
                    Ok(mut stream) => assert!(seconds(&stream.read_to_end().unwrap()) < 3.1, "{file}"),
                    Err(error) => drop(refusal(Err(error), file)),
                }
            }
        }
    });
}

#[test]
fn what_is_no_media_is_refused_by_its_true_name() {
    let says = |bytes: &[u8], name: &str, what: &str| {
        let text = refusal(open(bytes, name), name).to_string();
        assert!(text.contains(what), "{text}");
    };
    says(b"", "nothing.wav", "empty");
    says(b"Minutes of the meeting\n\n1. Welcome\n", "talk.wav", "plain text");
    says(b"<!DOCTYPE html><html><body>404</body></html>", "song.mp3", "HTML page");
    says(b"%PDF-1.4\n%\xe2\xe3", "paper.m4a", "PDF");
    says(&[0; 10_000], "zeros.mp3", "zero bytes");
}

#[test]
fn random_bytes_are_never_taken_for_audio() {
    for seed in 1..=60 {
        let mut noise = Noise(seed);
        let bytes: Vec<u8> = (0..200_000).map(|_| noise.byte()).collect();
        for length in [1, 7, 500, 20_000, 200_000] {
            let error = refusal(open(&bytes[..length], "noise.mp3"), "noise.mp3");
            assert!(matches!(error, Error::UnsupportedMedia(_)), "{error}");
        }
    }
}

#[test]
fn a_path_that_cannot_be_read_says_why() {
    let folder = TempDir::new().unwrap();
    let says = |path: &Path, what: &str| {
        let error = refusal(AudioStream::open(path), &path.display().to_string());
        assert!(matches!(error, Error::Read { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    says(folder.path(), "directory");
    says(&folder.path().join("absent.wav"), "no such file");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let secret = folder.path().join("secret.wav");
        fs::write(&secret, wav16(16_000, 1, &signal(16_000, 1))).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).unwrap();
        if fs::File::open(&secret).is_ok() {
            println!("skipped: root may read everything");
        } else {
            says(&secret, "permission denied");
        }
    }
}

#[test]
fn a_protected_file_is_called_protected() {
    let boxed = |kind: &[u8; 4], content: Vec<u8>| {
        let length = (content.len() as u32 + 8).to_be_bytes();
        [&length[..], kind, &content].concat()
    };
    let handler = boxed(b"hdlr", [&[0; 8][..], b"soun", &[0; 13]].concat());
    let entry = boxed(b"stsd", [&[0, 0, 0, 0, 0, 0, 0, 1][..], &boxed(b"drms", vec![0; 28])].concat());
    let tables = boxed(b"minf", boxed(b"stbl", entry));
    let track = boxed(b"trak", boxed(b"mdia", [handler, tables].concat()));
    let file = [boxed(b"ftyp", b"M4P \0\0\0\0".to_vec()), boxed(b"moov", track)].concat();
    let error = refusal(open(&file, "song.m4p"), "song.m4p");
    assert!(matches!(error, Error::UnsupportedMedia(_)) && error.to_string().contains("DRM"), "{error}");
}

#[test]
fn what_needs_ffmpeg_says_so_without_it() {
    let au = [
        &b".snd"[..],
        &24_u32.to_be_bytes(),
        &8_u32.to_be_bytes(),
        &3_u32.to_be_bytes(),
        &[0, 0, 62, 128, 0, 0, 0, 1],
        &[0; 8],
    ];
    let error = refusal(open(&au.concat(), "old.au"), "old.au");
    assert!(matches!(error, Error::FfmpegMissing(_)) && error.to_string().contains("AURICLE_FFMPEG"), "{error}");
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
fn channels_become_their_mean() {
    let check = |channels: u16, ffmpeg: Ffmpeg| {
        let bytes = Cursor::new(wav16(16_000, channels, &signal(16_000, 1)));
        let options = OpenOptions { name: Some("mics.wav".into()), ffmpeg };
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
fn floats_that_are_no_numbers_are_silence_and_loud_ones_are_kept() {
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

/// Overwrites, flips, copies, cuts out or cuts off, one to eight times.
fn mutate(bytes: &mut Vec<u8>, noise: &mut Noise) {
    for _ in 0..=noise.below(8) {
        // Headers are where the structure is.
        let end = if noise.below(2) == 0 { bytes.len().min(512) } else { bytes.len() };
        let (at, length) = (noise.below(end), 1 + noise.below(16));
        let to = (at + length).min(bytes.len());
        match noise.below(6) {
            0 => bytes[at..to].iter_mut().for_each(|byte| *byte = noise.byte()),
            1 => bytes[at..to].fill(if noise.below(2) == 0 { 0xff } else { 0 }),
            2 => bytes[at] ^= 1 << noise.below(8),
            3 => drop(bytes.drain(at..to)),
            4 => bytes.extend_from_within(at..to),
            _ => bytes.truncate(at.max(bytes.len() / 2)),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Every mutation must decode or be refused, without a panic, a hang or an avalanche of samples.
fn check_mutations(valid: &[u8], name: &str, count: usize) {
    let mut noise = Noise(valid.len() as u64 | 1);
    for _ in 0..count {
        let mut bytes = valid.to_vec();
        mutate(&mut bytes, &mut noise);
        match open(&bytes, name) {
            Ok(stream) => {
                for block in stream.take(20) {
                    let block = block.unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert!(block.iter().all(|sample| sample.is_finite() && sample.abs() <= 16.0));
                }
            }
            Err(error) => drop(refusal(Err(error), name)),
        }
    }
}

#[test]
fn mutated_wav_files_do_no_harm() {
    check_mutations(&wav16(8_000, 2, &signal(8_000, 1)[..2_000]), "mutant.wav", 1_000);
}

#[test]
fn mutated_media_do_no_harm() {
    with_ffmpeg(|folder| {
        let files = [
            ("a.mp3", ""),
            ("a.flac", ""),
            ("a.ogg", "-c:a libvorbis"),
            ("a.opus", "-c:a libopus"),
            ("a.m4a", ""),
            ("alac.m4a", "-c:a alac"),
            ("opus.webm", "-c:a libopus"),
            ("a.mkv", "-c:a aac"),
            ("a.aac", ""),
            ("a.aiff", ""),
            ("a.caf", "-c:a alac"),
            ("adpcm.wav", "-c:a adpcm_ms"),
        ];
        for (file, options) in files {
            let options = format!("-t 0.4 {options}");
            let Some(path) = make(folder, file, "", &options) else { continue };
            check_mutations(&fs::read(path).unwrap(), file, 250);
        }
    });
}
