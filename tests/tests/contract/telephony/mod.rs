//! Telephone calls: media streams of providers onto the agent, or onto a transcription.

mod calls;
mod faults;
mod phone;
mod serializers;

use std::sync::OnceLock;

use auricle_tests::chat_replies::COMPLETIONS;
use auricle_tests::{Account, Receiver, Reply, Service, Setup, eventually};
use serde_json::{Value, json};

use phone::Phone;

/// On the starters, without a language model.
fn starter() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// On the starters, with a language model that gives these answers, and an account.
fn answering(replies: impl IntoIterator<Item = Reply>) -> (Receiver, Service, Account) {
    let receiver = Receiver::new();
    receiver.answers(COMPLETIONS, replies);
    let service = Setup::local()
        .starter()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .start();
    let account = service.account();
    (receiver, service, account)
}

/// The frames of an agent that a key stops.
pub fn frames(account: &Account, provider: &'static str) -> Vec<Value> {
    let session = json!({ "greeting": "Good morning. This is the mill by the lake, and I am the miller." });
    let (mut phone, _) = Phone::call(account, provider, &json!({ "session": session }));
    phone.until("a mark", |phone| phone.played > 0);
    phone.press("1");
    phone.until("the greeting is stopped", |phone| phone.clears > 0);
    phone.hang_up();
    phone.close_code();
    phone.frames.into_iter().map(|(_, frame)| frame).collect()
}

/// The transcript of a call that is over.
#[track_caller]
fn transcript(account: &Account, id: &str) -> Value {
    eventually("the transcript of the call", || {
        let answer = account.get(&format!("/v2/transcripts/{id}"));
        (answer.status == 200).then(|| answer.json())
    })
}

/// The speakers and texts of the utterances.
fn said(transcript: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    transcript["utterances"].as_array().unwrap().iter().map(|one| (text(&one["speaker"]), text(&one["text"]))).collect()
}
