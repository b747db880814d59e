//! Every pair of state and event has a row, and the behaviours that users complain of have tests.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may")]

use super::scene::Scene;
use super::*;

const STATES: [State; 8] = [
    State::Listening,
    State::Hearing,
    State::Pausing,
    State::Thinking,
    State::Speaking,
    State::Uncertain,
    State::Holding,
    State::Ending,
];

/// Each state's answer to each event: the event, and the first letters of the state after it, in the order of [`STATES`]; `--` is the end of the
/// session.
const ROWS: &[(&str, &str)] = &[
    ("greet", "Th He Pa Th Sp Un Ho En"),
    ("speech 32 ms", "Li He Pa Th Sp Un Ho En"),
    ("speech 160 ms", "He He He Th Un Un Ho En"),
    ("speech 320 ms", "He He He He Un Un He En"),
    ("speech and a word", "He He He He He He He En"),
    ("silence 96 ms", "Li He Pa Th Sp Un Ho En"),
    ("silence 256 ms", "Li Pa Pa Th Sp Un Ho En"),
    ("silence 2 s", "Li Th Th Th Sp Un Ho --"),
    ("partial", "Li He Pa Th Sp Un Ho En"),
    ("stop", "Li He Pa Th Sp He Ho En"),
    ("final", "Li He Pa Th Sp Un Ho En"),
    ("settled", "Li He Pa Th Sp Un Ho --"),
    ("finished by its sound", "Li He Pa Th Sp Un Ho En"),
    ("text of the thought", "Li He Pa Th Sp Un Ho En"),
    ("end of the thought", "Li He Pa Li Sp Un Ho En"),
    ("a call", "Li He Pa Ho Sp Un Ho En"),
    ("model fails", "Li He Pa Th Sp Un Ho En"),
    ("frame of the speech", "Li He Pa Th Sp Un Ho En"),
    ("said", "Li He Pa Th Sp Un Ho En"),
    ("voice fails", "Li He Pa Th Th He Ho En"),
    ("result", "Li He Pa Th Sp Un Th En"),
    ("result of no call", "Li He Pa Th Sp Un Ho En"),
    ("keys", "Th He Pa Th Th He Ho En"),
    ("tick after 40 s", "Li He Pa Th Sp Un Th --"),
    ("end", "-- En En -- -- -- -- En"),
];

fn apply(scene: &mut Scene, event: &str) {
    let last = |scene: &Scene, llm: bool| {
        scene
            .done
            .iter()
            .filter_map(|action| match action {
                Action::Think { thought, .. } if llm => Some(*thought),
                Action::Say { speech, .. } if !llm => Some(*speech),
                _ => None,
            })
            .next_back()
            .unwrap_or(999)
    };
    let failure = || Failure { code: "x", message: "x".into(), apology: "Sorry.".into() };
    match event {
        "greet" => drop(scene.happens(Event::Greet("Hello.".into()))),
        "speech 32 ms" => drop(scene.hears(true, 32)),
        "speech 160 ms" => drop(scene.hears(true, 160)),
        "speech 320 ms" => drop(scene.hears(true, 320)),
        "speech and a word" => {
            scene.hears(true, 928);
            scene.happens(Event::Partial("bananas".into()));
        }
        "silence 96 ms" => drop(scene.hears(false, 96)),
        "silence 256 ms" => drop(scene.hears(false, 256)),
        "silence 2 s" => drop(scene.hears(false, 2_016)),
        "partial" => drop(scene.happens(Event::Partial("yeah".into()))),
        "stop" => drop(scene.happens(Event::Partial("stop".into()))),
        "final" => drop(scene.happens(Event::Final("Yeah.".into()))),
        "settled" => drop(scene.happens(Event::Settled)),
        "finished by its sound" => drop(scene.happens(Event::Judged { question: 1, probability: 0.9 })),
        "text of the thought" => {
            let thought = last(scene, true);
            scene.happens(Event::Text { thought, text: "Well.".into() });
        }
        "end of the thought" => {
            let thought = last(scene, true);
            scene.happens(Event::Thought { thought, calls: Vec::new() });
        }
        "a call" => {
            let thought = last(scene, true);
            let call = ToolCall { id: "b".into(), name: "weather".into(), arguments: "{}".into() };
            scene.happens(Event::Thought { thought, calls: vec![call] });
        }
        "model fails" => {
            let thought = last(scene, true);
            scene.happens(Event::LlmFailed { thought, failure: failure() });
        }
        "frame of the speech" => {
            let speech = last(scene, false);
            scene.happens(Event::Frame { speech, frame: VoiceFrame { samples: vec![0.0; 1_920], words: Vec::new() } });
        }
        "said" => {
            let speech = last(scene, false);
            scene.happens(Event::Said { speech });
        }
        "voice fails" => {
            let speech = last(scene, false);
            scene.happens(Event::VoiceFailed { speech, failure: failure() });
        }
        "result" => drop(scene.result("a", "{}")),
        "result of no call" => drop(scene.result("z", "{}")),
        "keys" => drop(scene.happens(Event::Dtmf("5".into()))),
        "tick after 40 s" => {
            scene.now += 40_000;
            scene.happens(Event::Tick);
        }
        "end" => drop(scene.happens(Event::End)),
        other => panic!("no such event: {other}"),
    }
}

#[test]
fn every_pair_of_state_and_event_has_its_row() {
    for (event, row) in ROWS {
        let expected: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(expected.len(), STATES.len(), "{event}");
        for (state, expected) in STATES.into_iter().zip(expected) {
            let mut scene = Scene::in_state(state);
            apply(&mut scene, event);
            let over = scene.count(|action| *action == Action::Ended) > 0;
            let name = format!("{:?}", scene.state());
            let letter = if over { "--" } else { &name[..2] };
            assert_eq!(letter, expected, "{event} in {state:?}: {:?}", scene.done);
        }
    }
}

/// A pause after a turn's words, with the answers that a turn detector gives: the silence at which the turn is over, ms.
fn silence_until_over(words: &str, answers: &[f32]) -> u64 {
    let mut scene = Scene::with(Rules { turn_detector: true, language: Some("en".into()), ..Rules::default() });
    scene.hears(true, 960);
    scene.happens(Event::Partial(words.into()));
    let (began, mut answers) = (scene.now, answers.iter());
    while scene.state() != State::Thinking && scene.now - began < 5_000 {
        for action in scene.hears(false, 32) {
            if let Action::Judge { question, turn_ms } = action {
                assert_eq!(turn_ms, 500 + 960 + scene.now - began, "the turn so far, and what was before it");
                if let Some(probability) = answers.next() {
                    scene.happens(Event::Judged { question, probability: *probability });
                }
            }
        }
    }
    scene.now - began
}

#[test]
fn words_and_then_the_sound_tell_when_a_turn_is_over() {
    for (words, answers, silence_ms) in [
        ("what is the weather in paris", &[0.9][..], 320),
        ("what is the weather in paris", &[0.1, 0.1], 1_504),
        ("what is the weather in paris", &[0.1, 0.9], 512),
        ("what is the weather in paris", &[], 704),
        ("my number is five five one", &[0.9], 320),
        ("my number is five five one", &[0.1, 0.1], 1_504),
        ("i would like a table for", &[0.9, 0.9], 1_504),
    ] {
        assert_eq!(silence_until_over(words, answers), silence_ms, "{words} {answers:?}");
    }
}

#[test]
fn an_answer_about_an_earlier_pause_ends_no_turn() {
    let mut scene = Scene::with(Rules { turn_detector: true, language: Some("en".into()), ..Rules::default() });
    scene.hears(true, 960);
    scene.happens(Event::Partial("tell me a story".into()));
    let asked = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Judge { .. }));
    assert!(asked(&scene.hears(false, 224)));
    scene.hears(true, 320);
    assert!(asked(&scene.hears(false, 320)));
    scene.happens(Event::Judged { question: 1, probability: 0.9 });
    assert_eq!(scene.state(), State::Pausing);
    scene.happens(Event::Judged { question: 2, probability: 0.9 });
    assert_eq!(scene.state(), State::Thinking);
}

#[test]
fn a_turn_is_heard_answered_and_remembered() {
    let mut scene = Scene::new();
    scene.says("What is the time?");
    assert_eq!(scene.user_texts(), ["What is the time?"]);
    scene.answers("It is noon.");
    scene.waits(2_000);
    assert_eq!(scene.state(), State::Listening);
    assert_eq!(scene.agent_texts(), [("It is noon.", false)]);
    let history = scene.conversation.history();
    assert_eq!(
        history.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(),
        ["What is the time?", "It is noon."]
    );
    let order: Vec<&str> = scene
        .done
        .iter()
        .filter_map(|action| match action {
            Action::SpeechStarted => Some("started"),
            Action::SpeechStopped => Some("stopped"),
            Action::UserFinal(_) => Some("user"),
            Action::ReplyStarted { .. } => Some("reply"),
            Action::AgentText { .. } => Some("agent"),
            Action::ReplyDone { .. } => Some("done"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["started", "stopped", "user", "reply", "agent", "done"]);
}

#[test]
fn nothing_of_a_prepared_reply_leaves_before_the_turn_is_over() {
    let mut scene = Scene::with(Rules { min_silence_ms: 1_000, language: Some("en".into()), ..Rules::default() });
    scene.hears(true, 640);
    scene.hears(false, 224);
    scene.happens(Event::Final("Book a table.".into()));
    scene.happens(Event::Settled);
    let thought = scene.thought();
    scene.happens(Event::Text { thought, text: "Done.".into() });
    scene.calls(&["a"]);
    scene.speaks("Done.");
    let leaves =
        |action: &Action| matches!(action, Action::Call(_) | Action::Audio { .. } | Action::ReplyStarted { .. });
    assert_eq!((scene.state(), scene.count(leaves)), (State::Pausing, 0));
    // The caller goes on: the call was never made.
    scene.hears(true, 640);
    assert_eq!(scene.conversation.history(), []);
    scene.hears(false, 224);
    scene.happens(Event::Final("For two.".into()));
    scene.happens(Event::Settled);
    scene.hears(false, 1_024);
    assert_eq!(scene.user_texts(), ["Book a table. For two."]);
    assert_eq!(scene.count(leaves), 0);
    scene.calls(&["b"]);
    assert_eq!(scene.count(|action| matches!(action, Action::Call(call) if call.id == "b")), 1);
}

#[test]
fn a_turn_that_ends_in_the_middle_of_a_sentence_waits() {
    for (text, waits_ms) in [("I would like to book", 300), ("I would like to", 1_500), ("My number is five", 700)] {
        let mut scene = Scene::new();
        scene.hears(true, 640);
        scene.happens(Event::Partial(text.to_lowercase()));
        let mut quiet = 0;
        while scene.user_texts().is_empty() {
            quiet += 32;
            for action in scene.hears(false, 32) {
                if action == Action::Settle {
                    scene.happens(Event::Final(text.into()));
                    scene.happens(Event::Settled);
                }
            }
        }
        assert!((waits_ms..waits_ms + 64).contains(&quiet), "{text}: {quiet} ms");
    }
}

#[test]
fn a_word_that_stops_needs_enough_speech() {
    for (heard, speech_ms, state) in [
        ("wait", 256, State::Hearing),
        ("no", 256, State::Hearing),
        ("stop", 224, State::Uncertain),
        ("when", 256, State::Uncertain),
    ] {
        let mut scene = Scene::in_state(State::Speaking);
        scene.waits(900);
        scene.hears(true, speech_ms);
        scene.happens(Event::Partial(heard.into()));
        assert_eq!(scene.state(), state, "{heard}, {speech_ms} ms");
    }
}

#[test]
fn a_word_that_was_stop_for_a_moment_stops_once_there_is_enough_speech() {
    for (pause_ms, state) in [(64, State::Hearing), (512, State::Uncertain)] {
        let mut scene = Scene::in_state(State::Speaking);
        scene.waits(900);
        scene.hears(true, 224);
        scene.happens(Event::Partial("wait".into()));
        scene.happens(Event::Partial("when each".into()));
        assert_eq!(scene.state(), State::Uncertain);
        scene.hears(false, pause_ms);
        scene.hears(true, 96);
        assert_eq!(scene.state(), state, "after {pause_ms} ms");
    }
}

#[test]
fn a_final_word_stops_if_there_was_enough_speech() {
    for (speech_ms, state) in [(256, State::Hearing), (224, State::Speaking)] {
        let mut scene = Scene::in_state(State::Speaking);
        scene.waits(900);
        scene.hears(true, speech_ms);
        scene.hears(false, 480);
        assert!(scene.done.contains(&Action::Settle));
        scene.happens(Event::Final("Wait.".into()));
        scene.happens(Event::Settled);
        assert_eq!(scene.state(), state, "{speech_ms} ms");
    }
}

#[test]
fn a_second_pass_writes_the_turn_and_does_not_tell_who_listens() {
    let mut scene = Scene::in_state(State::Speaking);
    scene.waits(900);
    scene.hears(true, 320);
    scene.happens(Event::Partial("right".into()));
    scene.hears(false, 480);
    scene.happens(Event::Final("right".into()));
    scene.happens(Event::Formatted("Wait, no.".into()));
    scene.happens(Event::Settled);
    assert_eq!(scene.state(), State::Speaking, "a text without others is no better at short words");
    scene.waits(6_000);
    scene.hears(true, 640);
    scene.hears(false, 224);
    scene.happens(Event::Final("a story of the miller's lad".into()));
    scene.happens(Event::Formatted("A story of the Miller's lad.".into()));
    scene.happens(Event::Settled);
    scene.hears(false, 1_600);
    assert_eq!(scene.user_texts().last(), Some(&"A story of the Miller's lad."));
}

#[test]
fn speech_before_the_reply_makes_one_turn_of_both_parts() {
    let mut scene = Scene::new();
    scene.says("Tell me a story.");
    let first = scene.thought();
    scene.says("About a house.");
    assert!(scene.done.contains(&Action::StopThinking { thought: first }));
    assert_eq!(scene.conversation.history()[0].content, "Tell me a story. About a house.");
    assert_eq!(scene.conversation.history().len(), 1);
}

#[test]
fn an_interruption_stops_the_reply_and_keeps_what_was_played() {
    let mut scene = Scene::in_state(State::Speaking);
    scene.waits(900);
    scene.hears(true, 320);
    scene.happens(Event::Partial("sorry i meant".into()));
    assert_eq!(scene.state(), State::Uncertain, "not half a second yet");
    scene.hears(true, 256);
    assert_eq!(scene.state(), State::Hearing);
    let (text, interrupted) = scene.agent_texts()[0];
    assert!(interrupted && "Once upon a time there was a small house.".starts_with(text) && text.len() < 25, "{text}");
    assert_eq!(scene.conversation.history()[1].content, text);
    scene.happens(Event::Frame { speech: scene.speech(), frame: VoiceFrame::default() });
    let done = scene.done.iter().position(|action| matches!(action, Action::ReplyDone { interrupted: true, .. }));
    let audio = scene.done.iter().rposition(|action| matches!(action, Action::Audio { .. }));
    assert!(audio < done, "no audio after the end");
    scene.hears(false, 224);
    scene.happens(Event::Final("Sorry, I meant a castle.".into()));
    scene.happens(Event::Settled);
    scene.hears(false, 1_600);
    assert_eq!(scene.user_texts().last(), Some(&"Sorry, I meant a castle."));
}

#[test]
fn what_was_not_played_was_not_said() {
    let mut scene = Scene::new();
    scene.says("Tell me a story.");
    let thought = scene.thought();
    scene.happens(Event::Text { thought, text: "Once upon a time.".into() });
    scene.hears(true, 320);
    assert_eq!(scene.state(), State::Hearing);
    assert!(scene.agent_texts().is_empty());
    assert_eq!(scene.conversation.history().len(), 1, "the caller's words alone");
}

#[test]
fn backchannels_do_not_stop_the_agent_and_are_not_answered() {
    for word in ["yeah", "uh-huh", "okay", "right"] {
        let mut scene = Scene::in_state(State::Speaking);
        scene.waits(600);
        scene.hears(true, 320);
        scene.happens(Event::Partial(word.into()));
        for action in scene.hears(false, 480) {
            if action == Action::Settle {
                scene.happens(Event::Final(word.into()));
                scene.happens(Event::Settled);
            }
        }
        assert_eq!(scene.state(), State::Speaking, "{word}");
        scene.waits(6_000);
        assert_eq!(scene.agent_texts(), [("Once upon a time there was a small house.", false)], "{word}");
        assert_eq!((scene.state(), scene.user_texts().len()), (State::Listening, 1), "{word}");
    }
}

#[test]
fn an_early_yes_to_a_question_is_an_answer() {
    let mut scene = Scene::new();
    scene.says("Tell me a story.");
    scene.answers("Shall I begin now?");
    scene.waits(1_500);
    scene.hears(true, 320);
    scene.happens(Event::Partial("yes".into()));
    for action in scene.hears(false, 1_600) {
        if action == Action::Settle {
            scene.happens(Event::Final("Yes.".into()));
            scene.happens(Event::Settled);
        }
    }
    assert_eq!(scene.user_texts(), ["Tell me a story.", "Yes."]);
}

#[test]
fn its_own_echo_neither_stops_it_nor_is_answered() {
    let mut scene = Scene::in_state(State::Speaking);
    scene.hears(true, 800);
    scene.happens(Event::Partial("once upon".into()));
    scene.hears(true, 800);
    scene.happens(Event::Partial("once upon a time there".into()));
    scene.hears(true, 2_400);
    assert_eq!(scene.state(), State::Hearing, "the reply has ended; the echo goes on");
    scene.happens(Event::Final("Once upon a time there was a small house.".into()));
    for action in scene.hears(false, 1_600) {
        if action == Action::Settle {
            scene.happens(Event::Settled);
        }
    }
    assert_eq!((scene.state(), scene.user_texts().len()), (State::Listening, 1));
    assert_eq!(scene.agent_texts(), [("Once upon a time there was a small house.", false)]);
    assert_eq!(scene.count(|action| *action == Action::SpeechStarted), 1, "the caller did not speak");
}

#[test]
fn speech_does_not_stop_an_agent_that_is_not_to_be_stopped() {
    let mut scene = Scene::with(Rules { interruptible: false, language: Some("en".into()), ..Rules::default() });
    scene.says("Tell me a story.");
    scene.answers("Once upon a time there was a small house.");
    scene.hears(true, 1_600);
    scene.happens(Event::Partial("stop i meant a castle".into()));
    for action in scene.hears(false, 6_000) {
        if action == Action::Settle {
            scene.happens(Event::Settled);
        }
    }
    assert_eq!(scene.agent_texts(), [("Once upon a time there was a small house.", false)]);
    assert_eq!(scene.user_texts().last(), Some(&"stop i meant a castle"), "it is answered after the reply");
}

#[test]
fn noise_without_words_is_no_turn() {
    let mut scene = Scene::new();
    scene.hears(true, 320);
    for action in scene.hears(false, 1_600) {
        if action == Action::Settle {
            scene.happens(Event::Settled);
        }
    }
    assert_eq!((scene.state(), scene.user_texts().len()), (State::Listening, 0));
    assert_eq!(scene.count(|action| *action == Action::SpeechStopped), 1);
}

#[test]
fn tools_are_called_and_their_results_told() {
    let mut scene = Scene::new();
    scene.says("Is it sunny in Rome and in Paris?");
    let thought = scene.thought();
    scene.happens(Event::Text { thought, text: "I will look.".into() });
    scene.calls(&["a", "b"]);
    scene.speaks("I will look.");
    assert_eq!(scene.count(|action| matches!(action, Action::Call(_))), 2);
    scene.result("b", "\"rain\"");
    assert_eq!(scene.state(), State::Holding);
    scene.result("a", "\"sun\"");
    assert_ne!(scene.thought(), thought);
    scene.answers("Sun in Rome, rain in Paris.");
    scene.waits(6_000);
    let history = scene.conversation.history();
    let roles: Vec<Role> = history.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::Assistant]);
    assert_eq!((history[1].content.as_str(), history[1].calls.len()), ("I will look.", 2));
    assert_eq!(history[2].call_id.as_deref(), Some("b"));
    assert_eq!(scene.agent_texts(), [("I will look. Sun in Rome, rain in Paris.", false)], "one reply");
    let twice = scene.result("a", "\"sun\"");
    assert!(matches!(&twice[..], [Action::Error(failure)] if failure.code == "unknown_call"), "{twice:?}");
}

#[test]
fn a_tool_that_never_answers_is_given_up_after_a_filler() {
    let mut scene = Scene::in_state(State::Holding);
    scene.waits(2_200);
    let speech = scene.speech();
    assert_eq!(scene.count(|action| matches!(action, Action::Say { .. })), 1, "a filler after 2 s");
    scene.happens(Event::Frame { speech, frame: VoiceFrame { samples: vec![0.0; 1_920], words: Vec::new() } });
    scene.happens(Event::Said { speech });
    let before = scene.thought();
    scene.waits(27_000);
    assert_eq!(scene.count(|action| matches!(action, Action::Say { .. })), 1, "once a call");
    assert_eq!((scene.state(), scene.thought()), (State::Holding, before));
    scene.waits(1_500);
    assert_ne!(scene.thought(), before);
    let message = scene.conversation.history().last().unwrap().content.clone();
    assert!(message.contains("failed"), "{message}");
    scene.answers("It does not answer.");
    scene.waits(3_000);
    scene.result("a", "\"late\"");
    scene.says("And now?");
    let history = scene.conversation.history();
    assert!(history.last().unwrap().content.contains("late") && history.last().unwrap().content.ends_with("And now?"));
}

#[test]
fn a_reply_whose_first_word_is_slow_begins_with_a_filler() {
    let mut scene = Scene::new();
    scene.says("Are you there?");
    assert_eq!(scene.state(), State::Thinking);
    scene.waits(1_000);
    assert_eq!(scene.count(|action| matches!(action, Action::Say { .. })), 0);
    scene.waits(1_500);
    scene.speaks("One moment, please.");
    scene.waits(8_000);
    assert_eq!(scene.count(|action| matches!(action, Action::Say { .. })), 1, "once a reply");
    scene.answers("Yes, I am.");
    scene.waits(3_000);
    assert_eq!(scene.agent_texts(), [("One moment, please. Yes, I am.", false)], "one reply");
    let history = scene.conversation.history();
    assert_eq!(history.last().unwrap().content, "Yes, I am.", "the language model does not read it");
    // The next is another phrase, and not before its time.
    scene.says("Good. And now?");
    scene.answers("Now I am quick.");
    scene.waits(3_000);
    assert_eq!(scene.agent_texts()[1], ("Now I am quick.", false));
}

#[test]
fn speech_never_cancels_a_call() {
    let mut scene = Scene::in_state(State::Holding);
    scene.says("And what about Paris?");
    assert_eq!(scene.state(), State::Holding, "the result is awaited");
    assert_eq!(scene.user_texts().len(), 2);
    scene.result("a", "\"sun\"");
    let history = scene.conversation.history();
    let roles: Vec<Role> = history.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::User]);
    assert_eq!(scene.state(), State::Thinking);
}

#[test]
fn at_most_eight_rounds_call_tools() {
    let mut scene = Scene::new();
    scene.says("Keep going.");
    for round in 0..8 {
        let id = format!("call{round}");
        scene.calls(&[&id]);
        scene.result(&id, "1");
    }
    assert!(matches!(scene.done.last(), Some(Action::Think { tools: false, .. })), "{:?}", scene.done.last());
    scene.calls(&["one more"]);
    assert_eq!(scene.count(|action| matches!(action, Action::Call(_))), 8);
    assert!(scene.done.iter().any(|action| matches!(action, Action::Error(_))));
}

#[test]
fn failures_are_told_with_an_apology_and_the_session_lives() {
    let failure = || Failure { code: "x", message: "x".into(), apology: "Sorry.".into() };
    let mut scene = Scene::in_state(State::Thinking);
    let thought = scene.thought();
    scene.happens(Event::LlmFailed { thought, failure: failure() });
    scene.speaks("Sorry.");
    scene.waits(1_000);
    assert_eq!((scene.agent_texts(), scene.state()), (vec![("Sorry.", false)], State::Listening));
    scene.says("Again.");
    scene.answers("Here it is.");
    scene.happens(Event::VoiceFailed { speech: scene.speech(), failure: failure() });
    assert!(
        matches!(scene.done.iter().rev().find(|action| matches!(action, Action::Say { .. })), Some(Action::Say { text, .. }) if text == "Sorry.")
    );
    let speech = scene.speech();
    scene.happens(Event::VoiceFailed { speech, failure: failure() });
    assert_eq!(scene.state(), State::Listening, "an apology that fails is not apologised for");
    scene.says("Tell me a story.");
    scene.answers("Once upon a time.");
    scene.waits(3_000);
    assert_eq!(scene.agent_texts().last(), Some(&("Once upon a time.", false)));
}

#[test]
fn the_end_waits_for_the_last_words() {
    let mut scene = Scene::in_state(State::Hearing);
    scene.happens(Event::Partial("good".into()));
    scene.happens(Event::End);
    assert_eq!(scene.count(|action| *action == Action::Ended), 0);
    scene.happens(Event::Final("Goodbye.".into()));
    scene.happens(Event::Settled);
    assert_eq!(scene.user_texts(), ["Goodbye."]);
    assert_eq!(scene.done.last(), Some(&Action::Ended));
    assert!(scene.happens(Event::Greet("Hello.".into())).is_empty(), "it is over");
}

#[test]
fn what_is_sent_is_at_most_half_a_second_ahead() {
    let mut scene = Scene::in_state(State::Thinking);
    scene.answers("One two three four five six seven eight nine ten.");
    let began = scene.now;
    let sent = |scene: &Scene| scene.count(|action| matches!(action, Action::Audio { .. })) as u64 * 80;
    for _ in 0..100 {
        scene.waits(32);
        assert!(sent(&scene) <= scene.now - began + 500, "{} ms", sent(&scene));
    }
    scene.waits(2_000);
    assert_eq!(sent(&scene), 4_000);
}

#[test]
fn a_driver_can_ask_for_every_reply() {
    let mut scene = Scene::with(Rules { answers: false, language: Some("en".into()), ..Rules::default() });
    scene.says("Tell me a story.");
    let thinks = |scene: &Scene| scene.count(|action| matches!(action, Action::Think { .. }));
    assert_eq!((scene.user_texts(), thinks(&scene), scene.state()), (vec!["Tell me a story."], 0, State::Listening));
    scene.happens(Event::Respond);
    assert_eq!((thinks(&scene), scene.state()), (1, State::Thinking));
    scene.happens(Event::Respond);
    assert_eq!(thinks(&scene), 1, "one reply at a time");
    scene.answers("Once upon a time.");
    scene.waits(4_000);
    assert_eq!((scene.agent_texts(), scene.state()), (vec![("Once upon a time.", false)], State::Listening));
    let texts = scene.done.iter().filter_map(|action| match action {
        Action::Audio { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), "Once upon a time", "the audio tells its words");
}

#[test]
fn a_driver_can_stop_a_reply_whether_it_speaks_or_not() {
    for state in [State::Thinking, State::Speaking, State::Uncertain] {
        let mut scene = Scene::in_state(state);
        let started = scene.count(|action| matches!(action, Action::ReplyStarted { .. }));
        let actions = scene.happens(Event::Cancel);
        let closed = |action: &Action| matches!(action, Action::ReplyClosed { interrupted: true, .. });
        assert_eq!(actions.iter().filter(|action| closed(action)).count(), 1, "{state:?}: {actions:?}");
        let done = scene.count(|action| matches!(action, Action::ReplyDone { interrupted: true, .. }));
        assert_eq!(done, started, "{state:?}");
        let expected = if state == State::Uncertain { State::Hearing } else { State::Listening };
        assert_eq!(scene.state(), expected);
        assert!(scene.happens(Event::Cancel).is_empty(), "{state:?}: it is stopped once");
    }
    // A prepared reply is given up; its turn is answered anew.
    let mut scene = Scene::with(Rules { min_silence_ms: 1_000, language: Some("en".into()), ..Rules::default() });
    scene.hears(true, 640);
    scene.hears(false, 224);
    scene.happens(Event::Final("Book a table.".into()));
    scene.happens(Event::Settled);
    assert_eq!(scene.conversation.prepared_text(), Some("Book a table."));
    let first = scene.thought();
    scene.happens(Event::Cancel);
    assert_eq!((scene.conversation.prepared_text(), scene.state()), (None, State::Pausing));
    scene.hears(false, 1_024);
    assert_eq!(scene.user_texts(), ["Book a table."]);
    assert!(scene.thought() > first && scene.state() == State::Thinking);
}

#[test]
fn a_driver_can_end_a_turn_and_drop_one() {
    let mut scene = Scene::in_state(State::Pausing);
    scene.happens(Event::EndTurn);
    scene.happens(Event::Final("I would like the.".into()));
    scene.happens(Event::Settled);
    assert_eq!(scene.user_texts(), ["I would like the."], "it sounds open");
    for state in [State::Hearing, State::Pausing] {
        let mut scene = Scene::in_state(state);
        scene.happens(Event::ClearTurn);
        assert_eq!((scene.state(), scene.conversation.handle(scene.now, Event::EndTurn)), (State::Listening, vec![]));
        scene.says("Tell me a story.");
        assert_eq!(scene.user_texts(), ["Tell me a story."]);
    }
}

/// The keys that the language model got, in order.
fn keys(scene: &Scene) -> Vec<String> {
    let history = scene.conversation.history();
    let results = history.iter().filter(|message| message.call_id.as_ref().is_some_and(|id| id.starts_with("dtmf_")));
    results.map(|message| message.content.clone()).collect()
}

#[test]
fn keys_stop_the_reply_and_are_answered_as_a_result_of_a_tool() {
    let mut scene = Scene::in_state(State::Speaking);
    scene.waits(900);
    scene.happens(Event::Dtmf("42".into()));
    assert!(scene.agent_texts()[0].1, "interrupted");
    assert_eq!((scene.state(), keys(&scene)), (State::Thinking, vec![r#"{"digits":"42"}"#.to_owned()]));
    let history = scene.conversation.history();
    let roles: Vec<Role> = history.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Assistant, Role::Tool]);
    assert_eq!(history[2].calls[0].name, "dtmf");
    scene.answers("Thank you.");
    scene.waits(2_000);
    assert_eq!(scene.state(), State::Listening);
}

#[test]
fn keys_during_a_turn_are_answered_with_it() {
    let mut scene = Scene::with(Rules { min_silence_ms: 1_000, language: Some("en".into()), ..Rules::default() });
    scene.hears(true, 640);
    scene.hears(false, 224);
    scene.happens(Event::Final("My number is.".into()));
    scene.happens(Event::Settled);
    scene.happens(Event::Dtmf("4".into()));
    scene.happens(Event::Dtmf("2".into()));
    assert_eq!((scene.state(), keys(&scene).len()), (State::Pausing, 0));
    scene.hears(false, 2_000);
    assert_eq!(scene.user_texts(), ["My number is."]);
    assert_eq!(keys(&scene), [r#"{"digits":"42"}"#]);
    // A noise without words is no turn, and loses no key.
    let mut scene = Scene::new();
    scene.hears(true, 320);
    scene.happens(Event::Dtmf("7".into()));
    scene.hears(false, 224);
    scene.happens(Event::Settled);
    scene.hears(false, 1_600);
    scene.happens(Event::Settled);
    assert_eq!((scene.user_texts().len(), keys(&scene)), (0, vec![r#"{"digits":"7"}"#.to_owned()]));
}

#[test]
fn keys_wait_for_tools_and_for_a_reply_that_is_not_to_be_stopped() {
    let mut scene = Scene::in_state(State::Holding);
    scene.happens(Event::Dtmf("1".into()));
    assert_eq!((scene.state(), keys(&scene).len()), (State::Holding, 0));
    scene.result("a", "{}");
    assert_eq!(keys(&scene).len(), 1);
    let rules = Rules { interruptible: false, language: Some("en".into()), ..Rules::default() };
    let mut scene = Scene::with(rules);
    scene.says("Tell me a story.");
    scene.answers("Once upon a time.");
    scene.waits(320);
    scene.happens(Event::Dtmf("1".into()));
    assert_eq!((scene.state(), keys(&scene).len()), (State::Speaking, 0));
    scene.waits(3_000);
    assert_eq!((scene.state(), keys(&scene).len()), (State::Thinking, 1));
}

#[test]
fn what_a_late_client_has_not_played_was_not_said() {
    let said = |delay_ms: u64| {
        let mut scene = Scene::in_state(State::Speaking);
        scene.waits(1_500);
        scene.conversation.set_play_delay(delay_ms);
        scene.happens(Event::Cancel);
        scene.agent_texts().first().map_or(0, |(text, _)| text.split(' ').count())
    };
    assert!(said(0) >= 3 && said(800) == said(0) - 2, "{} {}", said(0), said(800));
    // A reply that is played to its end is whole.
    let mut scene = Scene::new();
    scene.conversation.set_play_delay(800);
    scene.says("Hello.");
    scene.answers("Once upon a time.");
    scene.waits(4_000);
    assert_eq!(scene.agent_texts(), [("Once upon a time.", false)]);
}
