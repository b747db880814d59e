//! Truncated, mutated and protected files, and files that are not media.

use super::*;

/// Truncates after every kilobyte: the rest is decoded with a warning, or refused in one line.
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
                let options = OpenOptions::default().name(file).ffmpeg(Ffmpeg::Find);
                match AudioStream::from_source(Cursor::new(whole[..whole.len() * cut / 12].to_vec()), &options) {
                    Ok(mut stream) => assert!(seconds(&stream.read_to_end().unwrap()) < 3.1, "{file}"),
                    Err(error) => drop(refusal(Err(error), file)),
                }
            }
        }
    });
}

#[test]
fn files_that_are_not_media_are_refused_by_their_real_type() {
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
fn a_protected_file_is_refused_as_protected() {
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
fn formats_that_need_ffmpeg_say_so_without_it() {
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

/// A box of an MP4 file.
fn mp4_box(name: &[u8], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes(), name, content].concat()
}

/// The boxes of a part of an MP4 file, each with its name.
fn mp4_boxes(mut bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut boxes = Vec::new();
    while let Some(head) = bytes.get(..8) {
        let (whole, rest) = bytes.split_at(u32::from_be_bytes(head[..4].try_into().unwrap()) as usize);
        boxes.push((&whole[4..8], whole));
        bytes = rest;
    }
    boxes
}

/// An MP4 file whose track is there `count` times, over the same samples. The first copy has five of them.
fn with_tracks(file: &[u8], count: u32) -> Vec<u8> {
    let track = |track: &[u8], number: u32| {
        let mut track = track.to_vec();
        let at = |name: &[u8], track: &[u8]| track.windows(4).position(|part| part == name).unwrap() + 4;
        let id = at(b"tkhd", &track) + 12;
        let sizes = at(b"stsz", &track) + 8;
        let times = at(b"stts", &track) + 4;
        assert_eq!(track[times..times + 4], [0, 0, 0, 2], "times of all samples but the last, and of that one");
        track[id..id + 4].copy_from_slice(&number.to_be_bytes());
        if number == 1 {
            track[sizes..sizes + 4].copy_from_slice(&5u32.to_be_bytes());
            track[times + 4..times + 8].copy_from_slice(&4u32.to_be_bytes());
        }
        track
    };
    let mut out = Vec::new();
    for (name, whole) in mp4_boxes(file) {
        if name != b"moov" {
            out.extend_from_slice(whole);
            continue;
        }
        let mut inner = Vec::new();
        for (name, part) in mp4_boxes(&whole[8..]) {
            match name {
                b"trak" => (1..=count).for_each(|number| inner.extend(track(part, number))),
                _ => inner.extend_from_slice(part),
            }
        }
        out.extend(mp4_box(b"moov", &inner));
    }
    out
}

#[test]
fn tracks_beyond_number_cost_no_time_beyond_that_of_the_audio() {
    with_ffmpeg(|folder| {
        let Some(path) = make(folder, "long.m4a", "", "-af apad=whole_dur=900 -ar 8000 -ac 1 -c:a aac -b:a 8k") else {
            return;
        };
        let file = fs::read(path).unwrap();
        let open = |count| AudioStream::from_source(Cursor::new(with_tracks(&file, count)), &named("tracks.mp4"));
        let mut few = open(3).unwrap();
        assert!(seconds(&few.read_to_end().unwrap()) < 2.0);
        assert_eq!(few.warnings().iter().filter(|warning| warning.contains("too many packets")).count(), 0);
        let mut many = open(120).unwrap();
        assert!(seconds(&many.read_to_end().unwrap()) < 2.0);
        assert!(many.warnings().iter().any(|warning| warning.contains("too many packets")), "{:?}", many.warnings());
        assert!(refusal(open(1_000), "tracks.mp4").to_string().contains("1000 tracks"));
    });
}
