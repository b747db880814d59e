//! Where the sound of a file begins and ends: late sound of a video, several tracks, changes within a file, lengths that nothing states.

use super::*;

/// Runs ffmpeg in a folder that has `signal.wav`, of three seconds.
fn ffmpeg(folder: &Path, arguments: &str) {
    let source = folder.join("signal.wav");
    if !source.exists() {
        fs::write(&source, wav16(48_000, 1, &signal(48_000, SECONDS))).unwrap();
    }
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-nostdin"]).args(arguments.split_whitespace()).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "ffmpeg {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

const VIDEO: &str = "-f lavfi -i testsrc=s=64x48:r=10:d=6";

/// The samples of a file, and the warnings.
fn heard(path: &Path, options: &OpenOptions) -> (Vec<f32>, Vec<String>) {
    let mut stream = AudioStream::open_with(path, options).unwrap();
    let samples = stream.read_to_end().unwrap();
    (samples, stream.warnings())
}

fn loudness(samples: &[f32]) -> f32 {
    (samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len().max(1) as f32).sqrt()
}

#[test]
fn sound_that_begins_late_in_a_video_keeps_the_times_of_the_video() {
    with_ffmpeg(|folder| {
        let codecs = [
            ("late.mkv", "-c:v mpeg4 -c:a aac"),
            ("late.mp4", "-c:v mpeg4 -c:a aac"),
            // ffmpeg decodes these.
            ("film.mkv", "-c:v mpeg4 -c:a ac3"),
            ("late.flv", "-c:v flv -ar 44100 -c:a mp3"),
            ("late.wmv", "-c:v wmv2 -c:a wmav2"),
            ("late.ts", "-c:v mpeg2video -r 25 -c:a mp2"),
            ("film.ts", "-c:v mpeg4 -c:a ac3"),
            ("late.m2ts", "-c:v mpeg2video -r 25 -c:a ac3"),
            ("late.mpg", "-c:v mpeg1video -r 25 -c:a mp2"),
            ("late.vob", "-c:v mpeg2video -r 25 -c:a ac3"),
        ];
        for (file, codecs) in codecs {
            ffmpeg(folder, &format!("{VIDEO} -itsoffset 2 -i signal.wav {codecs} {file}"));
            let (samples, warnings) = heard(&folder.join(file), &named(file).ffmpeg(Ffmpeg::Find));
            assert!((seconds(&samples) - 5.0).abs() < 0.2, "{file}: {} s", seconds(&samples));
            assert!(loudness(&samples[..30_000]) < 1e-3 && loudness(&samples[34_000..70_000]) > 0.1, "{file}");
            assert_eq!(warnings, [] as [String; 0], "{file}");
        }
        // A clock that is wrong adds no hour of silence.
        for (file, codec) in [("hour.mkv", "aac"), ("hour.mp4", "aac"), ("film.mkv", "ac3"), ("hour.ts", "aac")] {
            ffmpeg(folder, &format!("{VIDEO} -itsoffset 3600 -i signal.wav -c:v mpeg4 -c:a {codec} {file}"));
            let (samples, _) = heard(&folder.join(file), &named(file).ffmpeg(Ffmpeg::Find));
            assert!((seconds(&samples) - 3.0).abs() < 0.2, "{file}: {} s", seconds(&samples));
        }
        // Without a video the first sample is time 0.
        ffmpeg(folder, "-itsoffset 2 -i signal.wav -c:a aac late.m4a");
        let (samples, _) = heard(&folder.join("late.m4a"), &OpenOptions::default());
        assert!((seconds(&samples) - 3.0).abs() < 0.1, "{} s", seconds(&samples));
    });
}

#[test]
fn the_default_track_is_taken_or_the_one_that_is_asked_for() {
    with_ffmpeg(|folder| {
        let quiet = "-i signal.wav -f lavfi -i anullsrc=r=48000:d=2 -map 1:a -map 0:a -c:a libopus";
        for default in [0, 1] {
            let flags = format!("-disposition:a:{default} default -disposition:a:{} 0", 1 - default);
            ffmpeg(folder, &format!("{quiet} {flags} tracks.mkv"));
            let path = folder.join("tracks.mkv");
            let (samples, warnings) = heard(&path, &named("tracks.mkv"));
            assert_eq!(loudness(&samples) > 0.1, default == 1, "the signal is the second track");
            assert!(warnings.len() == 1 && warnings[0].contains(&format!("number {}", default + 1)), "{warnings:?}");
            for track in [0, 1] {
                for decoder in [Ffmpeg::Never, Ffmpeg::Find] {
                    let options = named("tracks.mkv").ffmpeg(decoder).track(track);
                    let (samples, warnings) = heard(&path, &options);
                    assert_eq!((loudness(&samples) > 0.1, warnings.len()), (track == 1, 0), "{warnings:?}");
                }
            }
            let error = AudioStream::open_with(&path, &named("tracks.mkv").track(2)).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("no audio track 3"), "{error}");
        }
    });
}

#[test]
fn a_whole_file_is_not_called_cut_off() {
    with_ffmpeg(|folder| {
        ffmpeg(folder, &format!("{VIDEO} -i signal.wav -c:v mpeg4 -c:a aac long-video.mkv"));
        ffmpeg(folder, &format!("{VIDEO} -i signal.wav -c:v mpeg4 -c:a aac long-video.mp4"));
        // An edit list leaves out the end.
        ffmpeg(folder, "-i long-video.mp4 -ss 0.5 -t 2 -c copy part.mp4");
        for file in ["long-video.mkv", "long-video.mp4", "part.mp4"] {
            let (samples, warnings) = heard(&folder.join(file), &named(file));
            assert!(seconds(&samples) > 1.0 && warnings.is_empty(), "{file}: {warnings:?}");
        }
    });
    for size in [0x7fff_ffff_u32, 0x7fff_f000, 0xffff_ffff, 0x8000_0000] {
        let mut file = wav16(16_000, 1, &signal(16_000, 2));
        file[4..8].copy_from_slice(&size.saturating_add(36).to_le_bytes());
        file[40..44].copy_from_slice(&size.to_le_bytes());
        let mut stream = open(&file, "piped.wav").unwrap();
        assert_eq!(stream.duration_s(), None, "{size:x}");
        assert_eq!((seconds(&stream.read_to_end().unwrap()), stream.warnings().len()), (2.0, 0), "{size:x}");
    }
    let mut file = wav16(16_000, 1, &signal(16_000, 2));
    file[4..8].copy_from_slice(&100_036_u32.to_le_bytes());
    file[40..44].copy_from_slice(&100_000_u32.to_le_bytes());
    let mut stream = open(&file, "short.wav").unwrap();
    stream.read_to_end().unwrap();
    assert!(stream.warnings()[0].contains("cut off"), "a size that may be true: {:?}", stream.warnings());
}

#[test]
fn tags_at_the_end_of_a_flac_file_cost_no_frame() {
    with_ffmpeg(|folder| {
        ffmpeg(folder, "-i signal.wav a.flac");
        let plain = fs::read(folder.join("a.flac")).unwrap();
        let id3 = [b"TAG".to_vec(), vec![b'x'; 125]].concat();
        let ape = [&b"APETAGEX\xd0\x07\0\0\x29\0\0\0\x01\0\0\0\0\0\0\0"[..], &[0; 8]].concat();
        let ape = [vec![b'v'; 9], ape].concat();
        let want = decode(&plain, "a.flac");
        for tags in [id3.clone(), ape.clone(), [ape, id3].concat()] {
            let file = [plain.clone(), tags].concat();
            let mut stream = open(&file, "a.flac").unwrap();
            assert_eq!(stream.read_to_end().unwrap().len(), want.len());
            assert_eq!(stream.warnings(), [] as [String; 0]);
        }
    });
}

#[test]
fn aac_that_changes_its_channels_or_rate_is_decoded_throughout() {
    with_ffmpeg(|folder| {
        for options in ["-ac 2 -ar 48000", "-ac 1 -ar 24000", "-ac 2 -ar 16000"] {
            ffmpeg(folder, "-i signal.wav -ac 1 -ar 48000 -c:a aac first.aac");
            ffmpeg(folder, &format!("-i signal.wav {options} -c:a aac second.aac"));
            let file = ["first.aac", "second.aac"].map(|file| fs::read(folder.join(file)).unwrap()).concat();
            let mut stream = open(&file, "both.aac").unwrap();
            let samples = stream.read_to_end().unwrap();
            assert!((seconds(&samples) - 6.1).abs() < 0.2, "{options}: {} s", seconds(&samples));
            assert_eq!(stream.warnings(), [] as [String; 0], "{options}");
            let want = signal(SAMPLE_RATE, SECONDS);
            let second = &samples[samples.len() - 3 * 16_000 - 1_000..];
            assert!(likeness(second, &want).0 > 0.9, "{options}: {:?}", likeness(second, &want));
        }
    });
}

/// The checksum of an Ogg page, RFC 3533.
fn ogg_checksum(page: &[u8]) -> u32 {
    page.iter().fold(0, |sum: u32, byte| {
        (0..8)
            .fold(sum ^ u32::from(*byte) << 24, |sum, _| if sum >> 31 == 1 { sum << 1 ^ 0x04c1_1db7 } else { sum << 1 })
    })
}

/// An Ogg file whose positions are divided.
fn with_positions_divided(file: &[u8], by: u64) -> Vec<u8> {
    let mut file = file.to_vec();
    let mut start = 0;
    while start < file.len() {
        let segments = usize::from(file[start + 26]);
        let body: usize = file[start + 27..start + 27 + segments].iter().map(|length| usize::from(*length)).sum();
        let page = &mut file[start..start + 27 + segments + body];
        let position = u64::from_le_bytes(page[6..14].try_into().unwrap());
        page[6..14].copy_from_slice(&(position / by).to_le_bytes());
        page[22..26].fill(0);
        let checksum = ogg_checksum(page);
        page[22..26].copy_from_slice(&checksum.to_le_bytes());
        start += page.len();
    }
    file
}

#[test]
fn opus_whose_positions_count_other_samples_is_whole() {
    with_ffmpeg(|folder| {
        ffmpeg(folder, "-i signal.wav -c:a libopus a.opus");
        let plain = fs::read(folder.join("a.opus")).unwrap();
        let want = decode(&plain, "a.opus");
        assert!((seconds(&want) - 3.0).abs() < 0.01, "the end is trimmed: {} s", seconds(&want));
        assert_eq!(decode(&with_positions_divided(&plain, 1), "a.opus"), want);
        let joined = decode(&[&plain[..], &plain].concat(), "joined.opus");
        assert!((seconds(&joined) - 6.0).abs() < 0.05, "two streams in a row: {} s", seconds(&joined));
        let odd = decode(&with_positions_divided(&plain, 3), "odd.opus");
        assert!((seconds(&odd) - 3.0).abs() < 0.1, "{} s", seconds(&odd));
        assert!(likeness(&odd, &want).0 > 0.99);
    });
}

#[test]
#[cfg(unix)]
fn a_pipe_is_read_to_its_end() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let file = wav16(16_000, 1, &signal(16_000, 2));
    let writer = std::thread::spawn({
        let path = path.clone();
        move || fs::write(path, file)
    });
    let mut stream = AudioStream::open(&path).unwrap();
    assert_eq!(seconds(&stream.read_to_end().unwrap()), 2.0);
    writer.join().unwrap().unwrap();
    assert!(AudioStream::open("/dev/zero").is_err(), "a device has no end");
}
