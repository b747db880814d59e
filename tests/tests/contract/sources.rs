//! Sources of audio: `audio_url`, media of every kind, and invalid media.

use std::net::TcpListener;
use std::process::Command;
use std::sync::OnceLock;

use auricle_tests::{Account, Receiver, Reply, Service, Setup, silence, skip, speech, unique, wav};
use serde_json::{Value, json};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().with("fetch_max_bytes", 1_000_000).with("fetch_timeout_seconds", 2).start())
}

fn receiver() -> &'static Receiver {
    static RECEIVER: OnceLock<Receiver> = OnceLock::new();
    RECEIVER.get_or_init(Receiver::new)
}

/// Asserts that a transcript fails with a reason and is not billed.
#[track_caller]
fn assert_fails(account: &Account, body: &Value) -> String {
    let before = account.credits();
    let id = account.create(body);
    let done = account.finished(&id);
    assert_eq!(done["status"], "error", "{done}");
    let reason = done["error"].as_str().unwrap_or_else(|| panic!("no reason: {done}"));
    assert!(!reason.is_empty());
    for field in ["text", "words", "confidence"] {
        assert_eq!(done[field], Value::Null, "{field} of a failed transcript");
    }
    assert_eq!(account.bills(&id), [] as [Value; 0], "a failed transcript is not billed");
    assert_eq!(account.credits(), before);
    reason.to_owned()
}

#[track_caller]
fn assert_bad_upload(filename: &str, bytes: Vec<u8>) {
    let account = service().account();
    assert_fails(&account, &json!({"upload_id": account.upload(filename, bytes)}));
}

#[test]
fn an_empty_file_is_an_error() {
    assert_bad_upload("empty.wav", Vec::new());
}

#[test]
fn text_named_mp3_is_an_error() {
    assert_bad_upload("diary.mp3", b"Dear diary, today I was named like a recording.\n".repeat(40));
}

#[test]
fn a_zip_named_mp3_is_an_error() {
    // An archive with one stored file of four bytes.
    let mut zip = b"PK\x03\x04\x0a\0\0\0\0\0\0\0\0\0".to_vec();
    zip.extend_from_slice(b"\xd3\x4d\x5a\x20\x04\0\0\0\x04\0\0\0\x01\0\0\0aabcd");
    zip.extend_from_slice(b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\x23\0\0\0\0\0");
    assert_bad_upload("archive.mp3", zip);
}

#[test]
fn a_file_cut_within_its_header_is_an_error() {
    assert_bad_upload("cut.flac", std::fs::read(speech()).unwrap()[..30].to_vec());
}

#[test]
fn a_header_over_noise_is_an_error() {
    let mut file = std::fs::read(speech()).unwrap()[..8].to_vec();
    file.extend((0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    assert_bad_upload("lies.flac", file);
}

#[test]
fn a_header_without_a_rate_is_an_error() {
    assert_bad_upload("norate.wav", wav(0, 16, &[0; 3200]));
}

#[test]
fn a_truncated_recording_is_transcribed_and_billed_to_its_end() {
    let account = service().account();
    let file = std::fs::read(speech()).unwrap();
    let done = account.transcribe("half.flac", file[..file.len() / 2].to_vec());
    let seconds = done["audio_duration_sec"].as_f64().unwrap();
    assert!((1.0..10.0).contains(&seconds), "{seconds}");
    assert_eq!(account.bills(done["id"].as_str().unwrap())[0]["quantity"].as_f64(), Some(seconds));
}

#[test]
fn a_header_that_claims_an_hour_is_billed_for_what_is_there() {
    let account = service().account();
    let mut file = silence(2.0);
    let hour = 8000 * 3600_u32;
    file[4..8].copy_from_slice(&(36 + hour).to_le_bytes());
    file[40..44].copy_from_slice(&hour.to_le_bytes());
    let done = account.transcribe("claims.wav", file);
    assert_eq!(done["audio_duration_sec"], 2.0);
    assert_eq!(account.bills(done["id"].as_str().unwrap())[0]["quantity"], 2.0);
}

/// The output of `ffmpeg` with these arguments. None where it is missing.
fn ffmpeg(name: &str, args: &[&str]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let speech = speech();
    let args = args.iter().map(|arg| if *arg == "SPEECH" { speech.as_os_str() } else { arg.as_ref() });
    let Ok(output) = Command::new("ffmpeg").args(["-v", "error"]).args(args).arg(&path).output() else {
        skip("no ffmpeg found (Debian: apt-get install ffmpeg)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read(path).unwrap())
}

#[test]
fn the_audio_of_a_video_is_transcribed() {
    let args = ["-f", "lavfi", "-i", "color=s=64x64:d=11", "-i", "SPEECH", "-shortest", "-c:v", "mpeg4", "-c:a", "aac"];
    let Some(video) = ffmpeg("talk.mp4", &args) else { return };
    let account = service().account();
    let done = account.transcribe("talk.mp4", video);
    let seconds = done["audio_duration_sec"].as_f64().unwrap();
    assert!((10.8..11.2).contains(&seconds), "{seconds}");
}

#[test]
fn a_video_without_sound_is_an_error() {
    let Some(video) = ffmpeg("mute.mp4", &["-f", "lavfi", "-i", "color=s=64x64:d=1", "-c:v", "mpeg4"]) else { return };
    assert_bad_upload("mute.mp4", video);
}

#[test]
fn a_url_is_fetched_once_with_a_get() {
    let account = service().account();
    let path = format!("/{}.flac", unique("speech"));
    let url = receiver().answers(&path, [Reply::audio(silence(3.0))]);
    let done = account.finished(&account.create(&json!({"audio_url": format!("{url}?token=a%20b")})));
    assert_eq!((&done["status"], &done["audio_duration_sec"]), (&json!("completed"), &json!(3.0)));
    let requests = receiver().deliveries(&path);
    assert_eq!(requests.iter().map(|request| request.method.as_str()).collect::<Vec<_>>(), ["GET"]);
    assert!(!requests[0].headers.contains_key("authorization"), "the account's key stays here");
}

#[test]
fn five_redirects_are_followed_and_six_are_not() {
    let account = service().account();
    let chain = |hops: usize| {
        let name = unique("chain");
        receiver().answers(&format!("/{name}/0"), [Reply::audio(silence(1.0))]);
        for hop in 1..=hops {
            receiver().answers(&format!("/{name}/{hop}"), [Reply::Redirect(format!("/{name}/{}", hop - 1))]);
        }
        receiver().url(&format!("/{name}/{hops}"))
    };
    let done = account.finished(&account.create(&json!({"audio_url": chain(5)})));
    assert_eq!(done["status"], "completed", "{done}");
    assert_fails(&account, &json!({"audio_url": chain(6)}));
}

#[test]
fn a_redirect_to_a_private_address_is_refused() {
    let account = service().account();
    // Only 127.0.0.1 is allowed by name.
    let inside = Receiver::on("127.0.0.2");
    inside.answers("/secret.wav", [Reply::audio(silence(1.0))]);
    let targets = [
        inside.url("/secret.wav"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    for target in targets {
        let url = receiver().answers(&format!("/{}", unique("door")), [Reply::Redirect(target)]);
        assert_fails(&account, &json!({"audio_url": url}));
    }
    assert_eq!(inside.deliveries("/secret.wav").len(), 0);
}

#[test]
fn a_url_that_cannot_be_fetched_is_an_error() {
    let account = service().account();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let answers = |reply| receiver().answers(&format!("/{}.wav", unique("bad")), [reply]);
    let urls = [
        answers(Reply::Status(404)),
        answers(Reply::Status(500)),
        answers(Reply::Disconnect),
        answers(Reply::Body(200, "text/html", "<html>Not here</html>".into())),
        format!("http://{closed}/a.wav"),
        "http://nowhere.invalid/a.wav".to_owned(),
    ];
    for url in urls {
        assert_fails(&account, &json!({"audio_url": url}));
    }
}

#[test]
fn a_fetch_has_a_limit_in_time_and_in_bytes() {
    let account = service().account();
    let silent = receiver().answers("/silent.wav", [Reply::Silence]);
    assert_fails(&account, &json!({"audio_url": silent}));
    let large = receiver().answers("/large.wav", [Reply::audio(silence(130.0))]);
    assert_fails(&account, &json!({"audio_url": large}));
}

#[test]
fn an_audio_url_is_a_public_http_url() {
    let account = service().account();
    let bad = [
        "not a url",
        "",
        "/relative/path.wav",
        "ftp://example.org/a.wav",
        "file:///etc/passwd",
        "data:audio/wav;base64,UklGRg==",
        "http://localhost/a.wav",
        "http://LOCALHOST./a.wav",
        "http://printer/a.wav",
        "http://files.internal/a.wav",
        "http://nas.local/a.wav",
        "http://10.0.0.1/a.wav",
        "http://192.168.1.1/a.wav",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/a.wav",
        "http://[::ffff:10.0.0.1]/a.wav",
    ];
    for url in bad {
        account.post("/v2/transcripts", &json!({"audio_url": url})).error(400, "invalid_request");
    }
}
