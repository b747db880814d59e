use serde_json::json;

use super::*;

fn passages(lines: &[(&str, u64, &str)]) -> Vec<Passage> {
    let passage = |&(speaker, start_ms, text): &(&str, u64, &str)| Passage {
        speaker: (!speaker.is_empty()).then(|| speaker.to_owned()),
        start_ms,
        text: text.to_owned(),
    };
    lines.iter().map(passage).collect()
}

fn call() -> Vec<Passage> {
    passages(&[
        ("A", 0, "Good morning, this is Northwind Electric, my name is Priya."),
        ("B", 4_000, "Hello, I am Tom Becker and my power is out."),
        ("A", 9_000, "A crew will be at your house on Thursday evening."),
        ("B", 62_000, "How much is refunded for spoiled food?"),
        ("A", 3_725_000, "We refund up to two hundred dollars."),
        ("A", 3_800_000, "I will send you the form, please sign it."),
        ("B", 3_900_000, "My address is tom@example.org and my number is 555-0142-77."),
    ])
}

#[test]
fn answers_quote_with_speaker_and_time() {
    let call = call();
    assert_eq!(
        answer(&call, Some("en"), "When will the crew come?"),
        "[A 00:09] A crew will be at your house on Thursday evening."
    );
    let refund = answer(&call, Some("en"), "What do they refund?");
    assert_eq!(refund, "[A 1:02:05] We refund up to two hundred dollars.");
    let unlabelled = passages(&[("", 0, "The bridge was built of steel.")]);
    assert_eq!(answer(&unlabelled, None, "What was the bridge built of?"), "[00:00] The bridge was built of steel.");
}

#[test]
fn what_is_not_said_is_not_answered() {
    for prompt in ["Who won the election?", "How tall is the crew?", "?", "the", "🦀", &"x".repeat(8000)] {
        assert_eq!(answer(&call(), Some("en"), prompt), NOT_SAID, "{prompt:.30}");
    }
    assert_eq!(answer(&[], Some("en"), "Summarize this."), NOT_SAID);
}

#[test]
fn several_questions_are_answered_one_by_one() {
    let answers = answer(&call(), Some("en"), "When will the crew come? Who won the election?");
    assert_eq!(
        answers,
        "When will the crew come?\n[A 00:09] A crew will be at your house on Thursday evening.\n\n\
         Who won the election?\nThe transcript does not say."
    );
}

#[test]
fn tasks_are_answered_with_the_sentences_that_have_their_cues() {
    let call = call();
    let actions = answer(&call, Some("en"), "List the action items.");
    assert!(actions.contains("I will send you the form") && !actions.contains("Tom Becker"), "{actions}");
    assert_eq!(answer(&call, Some("en"), "Which questions were asked?"), call[3].quote());
    let summary = answer(&call, Some("en"), "Summarize the call.");
    assert!((2..=5).contains(&summary.lines().count()), "{summary}");
    assert!(summary.lines().all(|line| call.iter().any(|passage| passage.quote() == line)), "{summary}");
}

#[test]
fn a_described_object_is_filled_with_what_is_said_and_null() {
    let prompt = r#"Return JSON: {"speakers": ["string"], "people": [string], "email": string, "crew_date": "when the crew comes",
        "refund_dollars": number, "mood": "happy" | "angry", "resolved": boolean, "insurance_policy": string,
        "action_items": [{"owner_speaker": string, "task": string}]}"#;
    assert_eq!(
        answer_json(&call(), Some("en"), prompt),
        json!({
            "speakers": ["A", "B"],
            "people": ["Northwind Electric", "Priya", "Tom Becker"],
            "email": "tom@example.org",
            "crew_date": "Thursday evening",
            "refund_dollars": 200,
            "mood": null,
            "resolved": null,
            "insurance_policy": null,
            "action_items": [
                { "owner_speaker": "A", "task": "A crew will be at your house on Thursday evening." },
                { "owner_speaker": "A", "task": "I will send you the form, please sign it." },
            ],
        })
    );
}

#[test]
fn json_without_a_described_object_has_answer_and_quotes() {
    let found = answer_json(&call(), Some("en"), "When will the crew come? Answer as JSON.");
    assert_eq!(found["quotes"], json!([{ "speaker": "A", "start": 9000, "text": call()[2].text }]));
    assert_eq!(answer_json(&call(), Some("en"), "Who won the election?"), json!({ "answer": null, "quotes": [] }));
}

#[test]
fn languages_without_a_stemmer_and_scripts_without_spaces_are_searched() {
    let polish = passages(&[("", 0, "Most zbudowano w Krakowie."), ("", 5_000, "Pogoda jest ładna.")]);
    assert_eq!(answer(&polish, Some("pl"), "Pogoda"), polish[1].quote());
    let chinese = passages(&[("", 0, "会议在星期三开始。"), ("", 5_000, "我们讨论预算。")]);
    assert_eq!(answer(&chinese, Some("zh"), "讨论预算"), chinese[1].quote());
}

#[test]
fn ranking_holds_every_passage_once_the_best_first() {
    let order = rank(&call(), Some("en"), "When will the crew come?");
    assert_eq!(order[0], 2);
    let mut sorted = order;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..7).collect::<Vec<_>>());
}

#[test]
fn typographic_and_plain_marks_give_the_same_answers() {
    let lines = [
        ("A", 0, "Good morning, I met Jo O'Neal's team at the harbour."),
        ("B", 4_000, "I'll send the contract's draft on Monday."),
        ("B", 9_000, "The \"blue\" boat won't sail at ten o'clock."),
    ];
    let marked = |text: &str, mark: &str| text.replace('\'', mark).replace('"', "“");
    let prompts = [
        "What's this about?",
        "What won't sail?",
        "Who's at the harbour's meeting?",
        "List the action items.",
        "Return {\"people\": [\"string\"], \"action_items\": [\"string\"], \"time\": \"string\"}",
        "Return {\"actions\": [{\"text\": \"string\", \"person\": \"string\"}]}",
    ];
    let plain = passages(&lines);
    for mark in ["\u{2019}", "\u{2018}", "\u{2bc}", "\u{ff07}"] {
        let texts = lines.map(|(_, _, text)| marked(text, mark));
        let mut others = plain.clone();
        others.iter_mut().zip(texts).for_each(|(passage, text)| passage.text = text);
        for prompt in prompts {
            for asked in [prompt.to_owned(), marked(prompt, mark)] {
                assert_eq!(answer(&others, Some("en"), &asked), marked(&answer(&plain, Some("en"), prompt), mark));
                let expected = answer_json(&plain, Some("en"), prompt);
                let found = answer_json(&others, Some("en"), &asked);
                let text = |value: &serde_json::Value| format!("{value}").replace("\\\"", "“");
                assert_eq!(text(&found), text(&expected).replace('\'', mark), "{asked}");
            }
        }
    }
}
