//! Every format: its decoder, its timing, its completeness.

use super::*;

/// The decoder of a format, and its allowed delay in ms: 0 where the file states the delay, else one frame.
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
    let options = OpenOptions::default().ffmpeg(ffmpeg);
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
        let never = OpenOptions::default().ffmpeg(Ffmpeg::Never);
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
        // 20 ms frames of arbitrary content, since no encoder is available.
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
fn a_file_name_is_neither_an_option_nor_a_url() {
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
