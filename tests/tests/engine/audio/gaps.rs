//! Missing audio within a file: later audio keeps its position in time.

use super::*;

/// The pages of an Ogg file.
fn pages(ogg: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> = (0..ogg.len()).filter(|at| ogg[*at..].starts_with(b"OggS\0")).collect();
    let ends = starts.iter().skip(1).copied().chain([ogg.len()]);
    starts.iter().zip(ends).map(|(start, end)| &ogg[*start..end]).collect()
}

/// Decodes a file and returns its samples and warnings.
fn heard(bytes: Vec<u8>, name: &str) -> (Vec<f32>, Vec<String>) {
    let options = named(name).ffmpeg(Ffmpeg::Find);
    let mut stream = AudioStream::from_source(Cursor::new(bytes), &options).unwrap();
    let samples = stream.read_to_end().unwrap();
    (samples, stream.warnings())
}

#[test]
fn a_lost_page_becomes_silence() {
    with_ffmpeg(|folder| {
        for (file, options) in [
            ("a.opus", "-c:a libopus -page_duration 200000"),
            ("a.ogg", "-c:a libvorbis -page_duration 200000"),
            ("a.oga", "-c:a flac -page_duration 200000"),
        ] {
            let Some(path) = make(folder, file, "", options) else { continue };
            let whole = fs::read(path).unwrap();
            let (all, none) = heard(whole.clone(), file);
            assert_eq!(none, [""; 0], "{file}");
            let pages = pages(&whole);
            assert!(pages.len() > 10, "{file}: {} pages", pages.len());
            // One or two pages in the middle are missing, or one has a wrong checksum.
            let lost = pages.len() / 2;
            let mut damaged = pages.concat();
            let at: usize = pages[..lost].iter().map(|page| page.len()).sum::<usize>() + pages[lost].len() / 2;
            damaged[at] ^= 0x55;
            for (bytes, how) in [
                ([&pages[..lost], &pages[lost + 1..]].concat().concat(), "one"),
                ([&pages[..lost], &pages[lost + 2..]].concat().concat(), "two"),
                (damaged, "damaged"),
            ] {
                let (got, warnings) = heard(bytes, file);
                assert!((seconds(&got) - seconds(&all)).abs() < 0.05, "{file}, {how}: {:.3} s", seconds(&got));
                assert_eq!(warnings.len(), 1, "{file}, {how}: {warnings:?}");
                assert!(warnings[0].contains("missing"), "{file}, {how}: {warnings:?}");
                // The comparison starts one second before the end.
                let last = all.len().min(got.len()) - 28_000..;
                let (alike, late) = likeness(&got[last.clone()], &all[last]);
                assert!(alike > 0.9 && late.abs() < 80, "{file}, {how}: {alike:.2} alike, {late} samples late");
            }
        }
    });
}

/// A paused recorder or lost packets: the timestamps go on, the audio does not.
#[test]
fn gaps_in_timestamps_become_silence() {
    with_ffmpeg(|folder| {
        for (file, options) in [
            ("gap.mkv", "-c:a libopus"),
            ("gap.webm", "-c:a libvorbis"),
            ("gap.mp4", "-c:a aac"),
            ("flac.mkv", "-c:a flac"),
            ("gap.ts", "-c:a aac"),
        ] {
            let options = format!("-af aselect='lt(t,1)+gt(t,2)' -fps_mode passthrough {options}");
            let Some(path) = make(folder, file, "", &options) else { continue };
            let (got, warnings) = heard(fs::read(path).unwrap(), file);
            assert!((seconds(&got) - 3.0).abs() < 0.15, "{file}: {:.3} s, {warnings:?}", seconds(&got));
            let quiet = got[17_600..30_400].iter().all(|sample| sample.abs() < 0.05);
            assert!(quiet, "{file}: not silent between 1.1 and 1.9 s");
            let native = !file.ends_with(".ts");
            assert_eq!(warnings.iter().any(|warning| warning.contains("missing")), native, "{file}: {warnings:?}");
            assert!(!warnings.iter().any(|warning| warning.contains("cut off")), "{file}: {warnings:?}");
        }
    });
}

/// An edit list cuts off the end of a recording, as telephones write it: the audio is still in the file.
#[test]
fn audio_that_an_edit_list_cuts_off_is_not_decoded() {
    with_ffmpeg(|folder| {
        for (file, options) in [("a.m4a", "-c:a aac"), ("alac.m4a", "-c:a alac"), ("mp3.mp4", "-c:a libmp3lame")] {
            let Some(path) = make(folder, file, "", options) else { continue };
            let mut bytes = fs::read(&path).unwrap();
            let (all, _) = heard(bytes.clone(), file);
            let list = bytes.windows(4).position(|kind| kind == b"elst").unwrap();
            assert_eq!(bytes[list + 4..list + 12], [0, 0, 0, 0, 0, 0, 0, 1], "{file}: one edit, of 32-bit times");
            // In ms, as ffmpeg writes them.
            bytes[list + 12..list + 16].copy_from_slice(&1_500_u32.to_be_bytes());
            let (got, warnings) = heard(bytes.clone(), file);
            assert_eq!(warnings, [""; 0], "{file}");
            assert!((seconds(&got) - 1.5).abs() < 0.002, "{file}: {:.3} s of {:.3}", seconds(&got), seconds(&all));
            assert_eq!(got[..23_000], all[..23_000], "{file}");
            fs::write(&path, bytes).unwrap();
            // ffmpeg leaves out whole packets.
            let command = ["-v", "error", "-i", path.to_str().unwrap(), "-f", "f32le", "-ar", "16000", "-"];
            let theirs = Command::new("ffmpeg").args(command).output().unwrap().stdout.len() as f64 / 64_000.0;
            assert!((theirs - 1.5).abs() < 0.1, "{file}: {theirs:.3} s");
        }
    });
}
