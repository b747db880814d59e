//! A transcript's page over HTTP: names of speakers, which people give there, and the waveform of the recording.

use std::io::Read as _;
use std::process::{Command, Stdio};

use auricle_tests::{Account, Answer, Service, Setup, Visitor, long_reading, pcm, readers, skip, two_readers, wav};
use reqwest::Method;
use serde_json::json;

use crate::edits::{patch, two_speakers};
use crate::postgres;

/// A completed transcript of two speakers.
fn transcript(account: &Account) -> String {
    let upload = account.upload("two.wav", two_readers());
    let id = account.create(&json!({"upload_id": upload, "speaker_labels": true}));
    assert_eq!(account.finished(&id)["status"], "completed");
    id
}

/// The paragraphs of a DOCX file, as python-docx reads them: the style, and text and weight of each run. None where the machine lacks it.
fn paragraphs(docx: &[u8]) -> Option<Vec<(String, String)>> {
    let folder = std::env::var_os("AURICLE_PYTHON_TOOLS").map(std::path::PathBuf::from);
    let python = folder.map_or_else(|| "python3".into(), |folder| folder.join("python"));
    let has = Command::new(&python).args(["-c", "import docx"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        skip("the Python package python-docx (pip install python-docx, AURICLE_PYTHON_TOOLS=ENVIRONMENT/bin)");
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), docx).unwrap();
    let program = "import docx, json, sys\n\
                   d = docx.Document(sys.argv[1])\n\
                   print(json.dumps([[p.style.name, p.text] for p in d.paragraphs]))";
    let run = Command::new(python).args(["-c", program]).arg(file.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(serde_json::from_slice(&run.stdout).unwrap())
}

#[test]
fn a_transcript_is_a_document() {
    let service = Setup::new().starter().start();
    let mut visitor = Visitor::signed_up(&service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    let options =
        json!({"speaker_labels": true, "summarization": true, "auto_chapters": true, "title": "A & <B>\u{ffff}.wav"});
    let mut create = json!({"upload_id": account.upload("two.wav", two_readers())});
    create.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let id = account.create(&create);
    assert_eq!(account.finished(&id)["status"], "completed");
    let name = "Ada & \"co\" </w:t>\u{fffe}";
    let path = format!("/data/transcripts/{id}/speakers");
    visitor.ask(&path, &json!({"speaker": "A", "name": name})).ok();
    let file = visitor.get(&format!("/transcripts/{id}/download/docx"));
    assert_eq!(
        file.header("content-type"),
        Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document")
    );
    assert!(file.header("content-disposition").unwrap().contains(".docx"));
    if let Some(folder) = std::env::var_os("AURICLE_PICTURES") {
        std::fs::write(std::path::Path::new(&folder).join("transcript.docx"), &file.body).unwrap();
    }
    let Some(found) = paragraphs(&file.body) else { return };
    assert_eq!(found[0], ("Title".to_owned(), "A & <B> .wav".to_owned()));
    assert!(found[1].1.contains(" · English · svc-best · 20"), "{found:?}");
    let headings: Vec<&str> =
        found.iter().filter(|(style, _)| style == "Heading 1").map(|(_, text)| text.as_str()).collect();
    assert_eq!(headings, ["Summary", "Chapters", "Transcript"]);
    let said: String = found.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
    assert!(said.contains("Ada & \"co\" </w:t> : ") && said.contains("B: "), "{said}");
    // The words are those of the API.
    let paragraphs = account.get(&format!("/v2/transcripts/{id}/paragraphs")).ok();
    for paragraph in paragraphs["paragraphs"].as_array().unwrap() {
        assert!(said.contains(paragraph["text"].as_str().unwrap()), "{said}");
    }
}

/// Documents of a long transcript are compressed for those who accept it, and say the same.
#[test]
fn long_documents_are_compressed_for_those_who_accept_it() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let id = account.transcribe("long.wav", long_reading(3))["id"].as_str().unwrap().to_owned();
    for document in ["paragraphs", "sentences", "srt?chars_per_caption=8"] {
        let path = format!("/v2/transcripts/{id}/{document}");
        let plain = account.get(&path);
        assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")));
        for (accepted, compressed) in [("br, gzip", true), ("gzip;q=0", false), ("identity", false)] {
            let answer = Answer::of(account.request(Method::GET, &path).header("accept-encoding", accepted));
            assert_eq!(answer.header("content-encoding").is_some(), compressed, "{document} {accepted}");
            assert_eq!(answer.header("content-type"), plain.header("content-type"));
            if compressed {
                assert!(answer.body.len() < plain.body.len() / 2, "{document}");
                let mut text = Vec::new();
                flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut text).unwrap();
                assert_eq!(text, plain.body);
            } else {
                assert_eq!(answer.body, plain.body);
            }
        }
    }
    let short = account.transcribe("short.wav", two_readers())["id"].as_str().unwrap().to_owned();
    let request = account.request(Method::GET, &format!("/v2/transcripts/{short}/srt"));
    assert_eq!(Answer::of(request.header("accept-encoding", "gzip")).header("content-encoding"), None);
}

fn names_are_kept(service: &Service) {
    let mut visitor = Visitor::signed_up(service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    let id = transcript(&account);
    let path = format!("/data/transcripts/{id}/speakers");
    let before = account.transcript(&id);
    let download = |visitor: &mut Visitor, format: &str| {
        let file = visitor.get(&format!("/transcripts/{id}/download/{format}"));
        assert_eq!(file.status, 200, "{format}");
        file.text().to_owned()
    };
    assert!(download(&mut visitor, "txt").starts_with("A: "));
    let kept = visitor.ask(&path, &json!({"speaker": "A", "name": "  Ada\n Lovelace "})).ok();
    assert_eq!(kept, json!({"speaker": "A", "name": "Ada Lovelace"}));
    let attack = "<i>B & \"co\"</i><script>alert(1)</script>-->";
    visitor.ask(&path, &json!({"speaker": "B", "name": attack})).ok();

    // The page and what it downloads have the names, and none of them is markup.
    let page = visitor.get(&format!("/transcripts/{id}"));
    assert!(page.text().contains("&#34;A&#34;:&#34;Ada Lovelace&#34;"), "{}", page.text());
    assert!(!page.text().contains("<script>alert") && !page.text().contains("<i>B"), "{}", page.text());
    let text = download(&mut visitor, "txt");
    assert!(text.starts_with("Ada Lovelace: ") && text.contains(&format!("\n{attack}: ")), "{text}");
    assert!(download(&mut visitor, "srt").contains("\nAda Lovelace: "));
    let vtt = download(&mut visitor, "vtt");
    assert!(vtt.contains("<v Ada Lovelace>"), "{vtt}");
    assert!(vtt.contains("<v &lt;i&gt;B &amp; \"co\"&lt;/i&gt;&lt;script&gt;alert(1)&lt;/script&gt;--&gt;>"), "{vtt}");
    assert!(download(&mut visitor, "json").contains("\"speaker\":\"A\""));

    // The API has the labels.
    assert_eq!(account.transcript(&id), before);
    assert!(account.get(&format!("/v2/transcripts/{id}/srt")).text().contains("\nB: "));

    // An empty name gives the label back.
    visitor.ask(&path, &json!({"speaker": "A", "name": " "})).ok();
    assert!(download(&mut visitor, "vtt").contains("<v A>"));

    for (body, status, code) in [
        (json!({"speaker": "A", "name": "x".repeat(101)}), 422, "validation_error"),
        (json!({"speaker": "Z", "name": "x"}), 422, "validation_error"),
        (json!({"speaker": "A", "name": 5}), 422, "validation_error"),
        (json!({"speaker": "A", "name": "a\0b"}), 422, "validation_error"),
        (json!({"speaker": "A", "name": "Ada\u{7}"}), 422, "validation_error"),
        (json!({"speaker": "A", "name": "\u{202e}adA"}), 422, "validation_error"),
        (json!({"speaker": "A", "name": "A\u{200d}da"}), 422, "validation_error"),
        (json!({"speaker": "A"}), 400, "invalid_request"),
    ] {
        visitor.ask(&path, &body).error(status, code);
    }
    visitor.ask(&path, &json!({"speaker": "A", "name": "ä".repeat(100)})).ok();
    visitor.token = "0".repeat(64);
    assert_eq!(visitor.ask(&path, &json!({"speaker": "A", "name": "x"})).status, 403);
    let mut other = Visitor::signed_up(service);
    other.ask(&path, &json!({"speaker": "A", "name": "x"})).error(404, "not_found");
    account.delete(&format!("/v2/transcripts/{id}"));
    visitor.get("/keys");
    visitor.ask(&path, &json!({"speaker": "A", "name": "x"})).error(404, "not_found");
}

fn waveforms_are_drawn(service: &Service) {
    let mut visitor = Visitor::signed_up(service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    for options in [json!({}), json!({"multichannel": true})] {
        // Two seconds of silence, two of a loud tone and two of a quiet one.
        let tone = |loud: f32| (0..32_000).map(move |at| loud * (at as f32 * 0.1).sin());
        let [man, _] = readers();
        let sound = tone(0.0).chain(tone(0.8)).chain(tone(0.2)).chain(man);
        let mut body = json!({"upload_id": account.upload("tones.wav", wav(16_000, 16, &pcm(sound)))});
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let id = account.create(&body);
        let done = account.finished(&id);
        let page = visitor.get(&format!("/transcripts/{id}"));
        let path = page.text().split("<path id=\"bars\" d=\"").nth(1).expect("a waveform").split('"').next().unwrap();
        let heights: Vec<f64> =
            path.split('v').skip(1).map(|bar| bar.split('M').next().unwrap().parse().unwrap()).collect();
        assert!((300..=601).contains(&heights.len()), "{options}: {}", heights.len());
        let level_s = done["audio_duration_sec"].as_f64().unwrap() / heights.len() as f64;
        let height = |second: f64| heights[(second / level_s) as usize];
        assert_eq!(height(1.0), 2.0, "silence");
        assert!(height(3.0) > 36.0 && (15.0..25.0).contains(&height(5.0)), "{} {}", height(3.0), height(5.0));
    }
}

#[test]
fn a_recording_has_a_waveform() {
    waveforms_are_drawn(&Setup::local().starter().start());
}

#[test]
fn a_recording_has_a_waveform_on_postgres() {
    let Some(server) = postgres() else { return };
    waveforms_are_drawn(&Setup::local().starter().with("database_url", server.database()).start());
}

#[test]
fn speakers_are_named_on_the_page() {
    names_are_kept(&Setup::local().starter().start());
}

#[test]
fn speakers_are_named_on_the_page_on_postgres() {
    let Some(server) = postgres() else { return };
    names_are_kept(&Setup::local().starter().with("database_url", server.database()).start());
}

/// Downloads leave out what the reader does not want.
#[test]
fn downloads_have_options() {
    let service = Setup::local().starter().start();
    let mut visitor = Visitor::signed_up(&service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    let id = two_speakers(&account)["id"].as_str().unwrap().to_owned();
    let edits = json!([{ "from": 0, "to": 1, "text": "*Zebra*" }]);
    patch(&account, &id, &json!({ "version": 0, "title": "# Two", "edits": edits })).ok();
    let mut download = |rest: &str| {
        let answer = visitor.get(&format!("/transcripts/{id}/download/{rest}"));
        assert_eq!(answer.status, 200, "{rest}: {:?}", answer.body);
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    let markdown = download("md");
    assert!(markdown.starts_with("# \\# Two\n\n0:28 · English · svc-best"), "{markdown}");
    assert!(markdown.contains("## Transcript\n\n`0:00` **A:** \\*Zebra\\* "), "{markdown}");
    let plain = download("md?times=false&speakers=false");
    assert!(plain.contains("## Transcript\n\n\\*Zebra\\* ") && !plain.contains("**"), "{plain}");
    assert!(!download("md?original=true").contains("Zebra"));
    assert!(download("txt?times=true").starts_with("[0:00] A: *Zebra* "));
    assert!(download("txt?times=true&speakers=false").starts_with("[0:00] *Zebra* "));
    assert!(download("txt?speakers=false").starts_with("*Zebra* "));
    assert!(download("txt").starts_with("A: *Zebra* "));
    assert!(download("srt").contains("\nA: ") && !download("srt?speakers=false").contains("\nA: "));
    assert!(!download("vtt?speakers=false").contains("<v "));
    assert!(download("srt?max_line_width=20&max_line_count=1").lines().all(|line| line.len() <= 30));
    let (with, without) = (download("docx"), download("docx?times=false&speakers=false"));
    assert!(without.len() < with.len());
    for wrong in ["md?times=maybe", "srt?max_line_width=0", "txt?speakers=2", "docx?original=x"] {
        assert_eq!(visitor.get(&format!("/transcripts/{id}/download/{wrong}")).status, 422, "{wrong}");
    }
}
