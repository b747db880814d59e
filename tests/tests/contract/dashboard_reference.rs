//! The reference of the API on the dashboard, and what can be tried there.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use auricle_tests::{Answer, Service, Setup, Visitor, ended, silence, skip, speech};
use reqwest::Method;
use serde_json::{Value, json};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

fn document() -> Value {
    service().account().get("/openapi.json").ok()
}

/// Sends what the script of a page would send.
fn try_it(visitor: &mut Visitor, method: Method, path: &str, body: Option<&Value>) -> Answer {
    let request = visitor.request(method, path).header("x-form-token", visitor.token.clone());
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        None => request,
    };
    visitor.send(request)
}

#[test]
fn every_request_of_the_api_has_a_page() {
    let mut visitor = Visitor::signed_up(service());
    let index = visitor.get("/reference").text().to_owned();
    let document = document();
    let mut pages = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let address = format!("/reference/{}", operation["operationId"].as_str().unwrap());
            assert!(index.contains(&format!("href=\"{address}\"")), "{address}");
            let page = visitor.get(&address);
            assert_eq!(page.status, 200, "{address}");
            for shown in [path.as_str(), &method.to_uppercase(), operation["summary"].as_str().unwrap()] {
                assert!(page.text().contains(&shown.replace('\'', "&#39;")), "{address}: {shown}");
            }
            let fields = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
            for field in
                fields.and_then(|name| document.pointer(&name[1..])?["properties"].as_object()).into_iter().flatten()
            {
                assert!(page.text().contains(&format!(">{}</code>", field.0)), "{address}: {}", field.0);
            }
            for status in operation["responses"].as_object().unwrap().keys() {
                assert!(page.text().contains(&format!("\">{status}</span>")), "{address}: {status}");
            }
            pages += 1;
        }
    }
    assert!(pages > 30, "{pages}");
    assert_eq!(visitor.get("/reference/nothing").status, 404);
    assert_eq!(visitor.get("/reference/%3Cscript%3Ealert(1)%3C%2Fscript%3E").status, 404);
    assert_eq!(Visitor::new(service()).get("/reference").status, 303, "people sign in first");
}

/// The commands that the pages show, with the names of their operations; those that delete are last.
fn commands(service: &Service) -> Vec<(String, String)> {
    let mut visitor = Visitor::signed_up(service);
    let document = service.account().get("/openapi.json").ok();
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|item| item.as_object().unwrap().values());
    let mut commands = Vec::new();
    for operation in operations {
        let id = operation["operationId"].as_str().unwrap();
        let page = visitor.get(&format!("/reference/{id}")).text().to_owned();
        let Some((_, code)) = page.split_once("<pre class=\"code\" id=\"code\"") else { continue };
        let code = code.split_once('>').unwrap().1.split_once("</pre>").unwrap().0;
        let code = code
            .replace("&#34;", "\"")
            .replace("&#39;", "'")
            .replace("&#60;", "<")
            .replace("&#62;", ">")
            .replace("&#38;", "&");
        for command in code.split("\n\n") {
            commands.push((id.to_owned(), command.to_owned()));
        }
    }
    commands.sort_by_key(|(id, _)| id.starts_with("delete"));
    commands
}

/// Nothing has to be filled in but the variables and the file that a command names.
#[test]
fn every_command_works_as_shown() {
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("no curl found (Debian: apt-get install curl)");
    }
    let service = Setup::local().starter().with("voice_cloning", true).start();
    let account = service.account();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("offer.sdp"), crate::realtime_openai_calls::opus()).unwrap();
    let sound = std::fs::read(speech()).unwrap();
    std::fs::write(folder.path().join("speech.wav"), &sound).unwrap();
    let done = account.transcribe("speech.wav", sound.clone());
    let upload = account.upload("speech.wav", sound);
    let commands = commands(&service);
    let has_form =
        commands.iter().any(|(id, command)| id == "post_v2_transcripts" && command.contains("-F file=@speech.wav"));
    assert!(has_form && commands.len() > 30, "{commands:?}");
    for (id, command) in &commands {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &format!("{command} -o answer -w '%{{http_code}}'")]);
        shell.current_dir(folder.path()).stdin(Stdio::null());
        shell.env("AURICLE_KEY", &account.key).env("TRANSCRIPT_ID", done["id"].as_str().unwrap());
        shell.env("UPLOAD_ID", &upload).env("SPEAKER_ID", "speaker_none");
        shell.env("VOICE_ID", "voice_none").env("CALL_ID", "call_none");
        let run = ended(shell.output().unwrap());
        let answer = std::fs::read(folder.path().join("answer")).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        // Here is no person of that id, no language model and no redacted recording, and the sound need not suit a profile.
        let is_taken = ["200", "201", "204", "404", "503"].contains(&run.stdout.as_str());
        assert!(
            is_taken || answer.contains("unsuitable_audio"),
            "{id}: {command}: {} {} {answer}",
            run.stdout,
            run.stderr
        );
    }
}

/// The examples of the document are what the API takes: it refuses none for its shape.
#[test]
fn every_example_is_accepted() {
    let mut visitor = Visitor::signed_up(service());
    let document = document();
    let mut examples = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
            let Some(schema) = schema else { continue };
            let schema = document.pointer(&schema[1..]).unwrap();
            let example = schema.get("x-example").unwrap_or(&schema["examples"][0]);
            assert!(example.is_object(), "{path} has an example");
            let answer =
                try_it(&mut visitor, method.to_uppercase().parse().unwrap(), &format!("/try{path}"), Some(example));
            // Here is neither a transcript of that name nor a language model nor a voice.
            assert!([200, 404, 503].contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
            examples += 1;
        }
    }
    assert!(examples >= 8, "{examples}");
}

#[test]
fn a_request_is_tried_as_the_visitor_alone() {
    let (mut owner, mut other) = (Visitor::signed_up(service()), Visitor::signed_up(service()));
    owner.get("/reference/get_v2_models");
    let models = try_it(&mut owner, Method::GET, "/try/v2/models", None);
    assert_eq!(models.ok(), service().account().get("/v2/models").ok());
    let sign = json!({"filename": "a.wav", "content_type": "audio/wav"});
    let signed = try_it(&mut owner, Method::POST, "/try/v2/uploads/sign", Some(&sign)).ok();
    let put = auricle_tests::http().put(signed["url"].as_str().unwrap()).header("content-type", "audio/wav");
    assert_eq!(Answer::of(put.body(silence(0.5))).status, 200);
    let upload = signed["upload_id"].as_str().unwrap();
    try_it(&mut owner, Method::POST, &format!("/try/v2/uploads/{upload}/complete"), None).ok();
    let made = try_it(&mut owner, Method::POST, "/try/v2/transcripts", Some(&json!({"upload_id": upload}))).ok();
    let path = format!("/try/v2/transcripts/{}", made["id"].as_str().unwrap());
    assert_eq!(try_it(&mut owner, Method::GET, &path, None).status, 200);
    // Another account's, without the token, with another's, from another site, and signed out.
    assert_eq!(try_it(&mut other, Method::GET, &path, None).status, 404);
    assert_eq!(try_it(&mut other, Method::DELETE, &path, None).status, 404);
    for token in ["", "x", &other.token.clone()] {
        let request = owner.request(Method::DELETE, &path).header("x-form-token", token);
        assert_eq!(Answer::of(request).status, 403, "{token}");
    }
    let request = owner.request(Method::DELETE, &path).header("x-form-token", owner.token.clone());
    assert_eq!(Answer::of(request.header("origin", "https://evil.example")).status, 403);
    let mut nobody = Visitor::new(service());
    nobody.get("/login");
    assert_eq!(try_it(&mut nobody, Method::GET, &path, None).status, 401);
    // A key is for the API's own address.
    let key = owner.key("k");
    let request = nobody.request(Method::GET, "/try/v2/models").header("authorization", format!("Bearer {key}"));
    assert_eq!(Answer::of(request).status, 401);
    // What is the owner's alone is so here, too.
    let mut member = owner.member(service());
    assert_eq!(try_it(&mut member, Method::POST, "/try/v2/billing/checkout", None).status, 403);
    assert_eq!(try_it(&mut member, Method::GET, &path, None).status, 200);
    assert_eq!(try_it(&mut owner, Method::DELETE, &path, None).status, 204);
    // The paths in OpenAI's shape keep its shape of errors.
    let refused = try_it(&mut owner, Method::POST, "/try/v1/chat/completions", Some(&json!({"messages": 1})));
    assert!(refused.status >= 400 && refused.json()["error"]["type"].is_string(), "{}", refused.text());
}
