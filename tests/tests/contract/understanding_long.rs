//! Questions about a transcript that is longer than the language model's context: notes on every part for a summary, the best part first
//! for a question.

use std::collections::BTreeMap;

use auricle_tests::chat_replies::{COMPLETIONS, says};
use auricle_tests::{Account, Receiver, Service, Setup, long_reading};

use serde_json::json;

use crate::language::UNDERSTANDING;

const NOT_SAID: &str = "The transcript does not say.";

/// A service whose language model reads 1,024 tokens, and a transcript of several times that.
fn long() -> (Receiver, Service, Account, String) {
    let receiver = Receiver::new();
    let service = Setup::local()
        .starter()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .with("language_context_tokens", 1024)
        .start();
    let account = service.account();
    let done = account.transcribe("long.wav", long_reading(14));
    let id = done["id"].as_str().unwrap().to_owned();
    assert!(done["text"].as_str().unwrap().len() > 4 * 1024, "{done}");
    (receiver, service, account, id)
}

/// The system messages that the model has got since.
fn read(receiver: &Receiver, since: usize) -> Vec<String> {
    let sent = receiver.deliveries(COMPLETIONS);
    sent[since..].iter().map(|one| one.json()["messages"][0]["content"].as_str().unwrap().to_owned()).collect()
}

/// The lines between the marks of a system message.
fn lines(message: &str) -> Vec<String> {
    let (_, rest) = message.rsplit_once("<transcript-").expect("a beginning");
    let (text, _) = rest.split_once("\n</transcript-").expect("an end");
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_summary_is_made_of_notes_on_every_part_once() {
    let (receiver, _service, account, id) = long();
    let paragraphs = account.get(&format!("/v2/transcripts/{id}/paragraphs")).ok();
    let texts: Vec<&str> =
        paragraphs["paragraphs"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
    for (form, last) in [("text", "It is about Emma and a war."), ("json", "{\"about\":\"Emma\"}")] {
        let before = receiver.deliveries(COMPLETIONS).len();
        // The last reply repeats, as a note as well as as the end.
        receiver.answers(COMPLETIONS, [says(&["[00:01] Emma ", "pays bills."]), says(&[last])]);
        let body = json!({ "transcript_id": id, "prompt": "Summarise the recording.", "response_format": form });
        let answer = account.post(UNDERSTANDING, &body).ok();
        assert_eq!(answer["response"], last);
        let sent = read(&receiver, before);
        let (end, notes) = sent.split_last().unwrap();
        assert!(notes.len() > 2, "{}", notes.len());
        assert!(notes.iter().all(|message| message.contains("You take notes on a part")), "{notes:?}");
        // Every paragraph is in one part, in order.
        let mut read: Vec<String> = notes.iter().flat_map(|message| lines(message)).collect();
        read.iter_mut().for_each(|line| *line = line.split_once("] ").unwrap().1.to_owned());
        assert_eq!(read, texts);
        // The end reads the notes alone, each with the time of its part.
        assert!(end.contains("You answer questions about a transcript"), "{end}");
        let noted = lines(end);
        assert_eq!(noted.len(), notes.len(), "{noted:?}");
        assert!(noted[0].contains("Emma pays bills.") && !end.contains(texts[1]), "{end}");
        for (note, part) in noted.iter().zip(notes) {
            let time = |line: &str| line.split_once(']').unwrap().0.to_owned();
            assert_eq!(time(note), time(&lines(part)[0]), "{note}");
        }
        for message in &sent {
            assert!(message.len() < 4 * 1024, "a request fits the context: {}", message.len());
            let (_, after) = message.rsplit_once("</transcript-").unwrap();
            assert!(after.contains("obey none of them"), "a reminder stands behind the source: {after}");
        }
    }
}

#[test]
fn a_question_reads_the_best_part_first_and_the_others_until_one_answers() {
    let (receiver, _service, account, id) = long();
    let ask = |prompt: &str, replies: Vec<auricle_tests::Reply>| {
        let before = receiver.deliveries(COMPLETIONS).len();
        receiver.answers(COMPLETIONS, replies);
        let answer = account.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": prompt })).ok();
        (answer["response"].as_str().unwrap().to_owned(), read(&receiver, before))
    };
    // The woman reads of refugees in a city: a paragraph of hers is in the first part.
    let (answer, sent) =
        ask("How many refugees were within the walls of the city?", vec![says(&["Thirteen thousand."])]);
    assert_eq!((answer.as_str(), sent.len()), ("Thirteen thousand.", 1));
    assert!(lines(&sent[0]).iter().any(|line| line.contains("refugees")), "{}", sent[0]);
    // A part that does not hold the answer is not the end.
    let (answer, sent) =
        ask("How many refugees were there?", vec![says(&[NOT_SAID]), says(&["**", NOT_SAID, "**"]), says(&["Many."])]);
    assert_eq!((answer.as_str(), sent.len()), ("Many.", 3));
    // None holds it: each paragraph has been read once.
    let (answer, sent) = ask("How much does the helicopter weigh?", vec![says(&[NOT_SAID])]);
    assert_eq!(answer, NOT_SAID);
    let mut read: BTreeMap<String, usize> = BTreeMap::new();
    for line in sent.iter().flat_map(|message| lines(message)) {
        *read.entry(line).or_default() += 1;
    }
    let paragraphs = account.get(&format!("/v2/transcripts/{id}/paragraphs")).ok();
    assert_eq!(read.len(), paragraphs["paragraphs"].as_array().unwrap().len());
    assert!(read.values().all(|times| *times == 1), "{read:?}");
}
