//! Answers of language models through the public API, with tiny random checkpoints: the same text alone and in company, limits, stops,
//! memory that runs out, and callers that leave.

use std::path::PathBuf;

use auricle_engine::blocking::Engine;
use auricle_engine::{
    ChatEnd, ChatEvent, ChatMessage, ChatOptions, DeviceChoice, EngineOptions, Error, FinishReason, Result,
};
use auricle_tests::devices;

fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("decoder").join(name)
}

fn options() -> EngineOptions {
    EngineOptions::default().models(auricle_tests::fixtures().join("../../models")).device(DeviceChoice::Cpu)
}

fn of(name: &str) -> ChatOptions {
    ChatOptions::default().checkpoint(fixture(name)).max_tokens(40)
}

fn ask(engine: &Engine, content: &str, options: &ChatOptions) -> Result<(String, ChatEnd)> {
    let (mut text, mut last) = (String::new(), None);
    for event in engine.chat(&[ChatMessage::user(content)], options)? {
        assert!(last.is_none(), "nothing follows the end");
        match event? {
            ChatEvent::Text(piece) => {
                assert!(!piece.is_empty());
                text.push_str(&piece);
            }
            ChatEvent::End(end) => last = Some(end),
            other => panic!("{other:?}"),
        }
    }
    Ok((text, last.expect("an answer has an end")))
}

/// Questions of lengths that begin and end at many places of a page.
fn questions() -> Vec<String> {
    (0..8).map(|n| format!("Question {n}: {}", "what was said then? ".repeat(1 + n))).collect()
}

#[test]
fn an_answer_is_the_same_alone_in_company_and_when_memory_runs_out() {
    for name in ["llama_gguf", "qwen3_gguf"] {
        let options = of(name);
        let warm = options.clone().temperature(1.0).top_p(0.95).seed(7);
        let alone = Engine::open(self::options()).unwrap();
        let expected: Vec<_> = questions().iter().map(|question| ask(&alone, question, &options).unwrap()).collect();
        let drawn: Vec<_> = questions().iter().map(|question| ask(&alone, question, &warm).unwrap()).collect();
        assert_ne!(expected, drawn);
        // Room for a little more than the longest conversation: eight texts take it from each other.
        let tight = self::options().kv_memory(tight_memory(name));
        for engine in [Engine::open(self::options()).unwrap(), Engine::open(tight).unwrap()] {
            let ask = |question: String, options: &ChatOptions| ask(&engine, &question, options).unwrap();
            let (ask, options, warm) = (&ask, &options, &warm);
            std::thread::scope(|scope| {
                let greedy: Vec<_> =
                    questions().into_iter().map(|question| scope.spawn(move || ask(question, options))).collect();
                let warm: Vec<_> =
                    questions().into_iter().map(|question| scope.spawn(move || ask(question, warm))).collect();
                for (thread, expected) in greedy.into_iter().zip(&expected).chain(warm.into_iter().zip(&drawn)) {
                    let (text, end) = thread.join().unwrap();
                    assert_eq!((&text, end.finish_reason), (&expected.0, expected.1.finish_reason), "{name}");
                    assert_eq!(end.usage.completion_tokens, expected.1.usage.completion_tokens);
                    assert_eq!(end.usage.prompt_tokens, expected.1.usage.prompt_tokens);
                }
            });
        }
    }
}

/// Sums in another order change a score's last digits, which no greedy text of these shows. (The CPU's texts are others: it keeps keys and
/// values in 16 bits.)
#[test]
fn answers_on_a_gpu_are_the_same_alone_in_company_and_when_memory_runs_out() {
    if devices().len() < 2 {
        return;
    }
    for name in ["llama_gguf", "qwen3_gguf"] {
        let gpu = options().device(DeviceChoice::Vulkan(0));
        let alone = Engine::open(gpu.clone()).unwrap();
        let expected: Vec<_> = questions().iter().map(|question| ask(&alone, question, &of(name)).unwrap()).collect();
        for engine in [Engine::open(gpu.clone()).unwrap(), Engine::open(gpu.kv_memory(tight_memory(name))).unwrap()] {
            let engine = &engine;
            std::thread::scope(|scope| {
                let asked: Vec<_> = questions()
                    .into_iter()
                    .map(|question| scope.spawn(move || ask(engine, &question, &of(name)).unwrap()))
                    .collect();
                for (thread, (text, end)) in asked.into_iter().zip(&expected) {
                    let (ours, last) = thread.join().unwrap();
                    assert_eq!((&ours, last.finish_reason), (text, end.finish_reason), "{name}");
                }
            });
        }
    }
}

/// Bytes of keys and values of 256 tokens, the fixtures' context.
fn tight_memory(name: &str) -> usize {
    // Layers, heads of keys and values, values of a head; 4 bytes at most, keys and values, 8 pages of 32 tokens.
    let values = match name {
        "llama_gguf" => 2 * 2 * 64,
        _ => 2 * 32,
    };
    values * 4 * 2 * 8 * 32
}

#[test]
fn questions_of_one_account_share_what_they_begin_with() {
    let engine = Engine::open(options()).unwrap();
    let transcript = "The meeting began at nine. ".repeat(4);
    let ask = |question: &str, account: &str| {
        let options = of("llama_gguf").account(account).max_tokens(5);
        ask(&engine, &format!("{transcript}{question}"), &options).unwrap()
    };
    let (first, cold) = ask("Who?", "one");
    assert_eq!(cold.usage.cached_tokens, 0);
    let (again, warm) = ask("Who?", "one");
    assert_eq!(first, again);
    assert!(warm.usage.cached_tokens + 32 >= cold.usage.prompt_tokens, "{warm:?}");
    let (_, other) = ask("When then?", "one");
    assert!(other.usage.cached_tokens >= 32 && other.usage.cached_tokens < other.usage.prompt_tokens, "{other:?}");
    assert_eq!(ask("Who?", "two").1.usage.cached_tokens, 0, "another account's");
}

#[test]
fn an_answer_ends_at_its_limit_and_before_a_stop_text() {
    let engine = Engine::open(options()).unwrap();
    let (whole, end) = ask(&engine, "Hello", &of("llama_gguf")).unwrap();
    assert_eq!((end.finish_reason, end.usage.completion_tokens), (FinishReason::Length, 40));
    let (short, end) = ask(&engine, "Hello", &of("llama_gguf").max_tokens(7)).unwrap();
    assert_eq!((end.finish_reason, end.usage.completion_tokens), (FinishReason::Length, 7));
    assert!(whole.starts_with(short.trim_end_matches('\u{fffd}')), "{short:?} begins {whole:?}");
    // Three characters from the middle of the text, which are held back as they come.
    let chars: Vec<char> = whole.chars().collect();
    let stop: String = chars[chars.len() / 2..][..3].iter().collect();
    let (cut, end) = ask(&engine, "Hello", &of("llama_gguf").stop([stop.clone()])).unwrap();
    assert_eq!((cut.as_str(), end.finish_reason), (whole.split(&stop).next().unwrap(), FinishReason::Stop));
    assert!(end.usage.completion_tokens < 40);
    // Without a limit the context is one: 256 tokens in all.
    let unlimited = ChatOptions::default().checkpoint(fixture("llama_gguf"));
    let (_, end) = ask(&engine, "Hello", &unlimited).unwrap();
    let all = end.usage.prompt_tokens + end.usage.completion_tokens;
    assert!(end.finish_reason == FinishReason::Stop || all == 256, "{end:?}");
}

#[test]
fn what_cannot_be_answered_is_said_before_it_waits() {
    let engine = Engine::open(options()).unwrap();
    let refused = |content: &str, options: &ChatOptions| ask(&engine, content, options).unwrap_err();
    match refused(&"word ".repeat(1000), &of("llama_gguf")) {
        Error::ContextLength { prompt_tokens, context_tokens } => {
            assert!(prompt_tokens > 1000 && context_tokens == 256, "{prompt_tokens} {context_tokens}");
        }
        other => panic!("{other}"),
    }
    let invalid = |options: ChatOptions, name: &str| match refused("Hello", &options) {
        Error::InvalidOption(reason) => assert!(reason.contains(name), "{reason}"),
        other => panic!("{other}"),
    };
    invalid(of("llama_gguf").temperature(-1.0), "temperature");
    invalid(of("llama_gguf").top_p(0.0), "top_p");
    invalid(of("llama_gguf").max_tokens(0), "max_tokens");
    invalid(of("llama_gguf").thinking(true), "cannot think");
    assert!(matches!(engine.chat(&[], &of("llama_gguf")).err(), Some(Error::InvalidOption(_))));
    match refused("Hello", &ChatOptions::default()) {
        Error::NotPulled(reason) => assert!(reason.contains("auricle models pull chat"), "{reason}"),
        other => panic!("{other}"),
    }
    assert!(matches!(refused("Hello", &ChatOptions::default().model("gpt")), Error::UnknownModel(_)));
    assert!(matches!(refused("Hello", &ChatOptions::default().checkpoint("nowhere")), Error::Checkpoint { .. }));
}

#[test]
fn a_caller_that_leaves_gives_its_place_back() {
    let engine = Engine::open(options().chats(1)).unwrap();
    let options = ChatOptions::default().checkpoint(fixture("qwen2"));
    for read in [0, 1, 5] {
        let mut reply = loop {
            // The place of the one before is free after the step that it was in.
            match engine.chat(&[ChatMessage::user("Hello")], &options) {
                Ok(reply) => break reply,
                Err(Error::Busy(_)) => std::thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
        };
        (0..read).for_each(|_| drop(reply.next()));
        let second = engine.chat(&[ChatMessage::user("Hello")], &options);
        assert!(matches!(second, Err(Error::Busy(_))) || read > 0, "one answer at a time");
    }
}

#[test]
fn a_model_that_may_think_counts_its_thoughts() {
    let engine = Engine::open(options()).unwrap();
    let (_, quiet) = ask(&engine, "Hello", &of("qwen3_gguf")).unwrap();
    let (_, thinks) = ask(&engine, "Hello", &of("qwen3_gguf").thinking(true)).unwrap();
    // Without thoughts the template writes an empty pair of marks.
    assert!(quiet.usage.prompt_tokens > thinks.usage.prompt_tokens, "{quiet:?} {thinks:?}");
}
