//! A language model alone: its numbers, for `tests/published/language`, and its speed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use auricle_engine::blocking::Engine;
use auricle_engine::unstable::device;
use auricle_engine::unstable::models::decoder::{ChatModel, PageArena, PageList, Piece, TemplateMessage};
use auricle_engine::{ChatEvent, ChatFormat, ChatMessage, ChatOptions, DeviceChoice, EngineOptions, Precision};
use auricle_kernels::attention::paged::cpu::PagePrecision;
use auricle_kernels::sampling::likeliest::likeliest_of;
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Scores after each token of a text, and the greedy answer to a conversation
    Compare {
        model: PathBuf,
        asked: PathBuf,
        scores: PathBuf,
        /// full, or int8: inputs of quantised weights are rounded
        #[arg(long, default_value = "full")]
        precision: Precision,
    },
    /// Tokens a second: prompt, one text, texts together
    Speed {
        model: PathBuf,
        /// Tokens of the prompt
        #[arg(long, default_value_t = 512)]
        prompt: usize,
        /// Tokens of a text
        #[arg(long, default_value_t = 64)]
        text: usize,
        /// Numbers of texts together
        #[arg(long, value_delimiter = ',', default_value = "8")]
        texts: Vec<usize>,
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// full; half, on a GPU; or int8: on a CPU inputs of quantised weights are rounded
        #[arg(long, default_value = "full")]
        precision: Precision,
        /// cpu, gpu or vulkan:N
        #[arg(long, default_value = "cpu")]
        device: DeviceChoice,
    },
    /// The wait for the first token of an answer over a long prompt, cold, and where all but its last question was read before
    FirstToken {
        model: PathBuf,
        /// Words of the prompt, each at least a token
        #[arg(long, default_value_t = 880)]
        words: usize,
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// full, or int8: inputs of quantised weights are rounded
        #[arg(long, default_value = "full")]
        precision: Precision,
    },
    /// Answers to questions, free and held to a JSON Schema each: a JSON line of both texts, their tokens and seconds
    Schemas {
        model: PathBuf,
        /// A JSON array of objects with `content` and `schema`
        asked: PathBuf,
    },
}

fn main() {
    match Cli::parse().command {
        Command::Compare { model, asked, scores, precision } => compare(&model, precision, &asked, &scores),
        Command::Speed { model, prompt, text, texts, rounds, precision, device } => {
            speed(&model, device, precision, [prompt, text], &texts, rounds);
        }
        Command::FirstToken { model, words, rounds, precision } => first_token(&model, precision, words, rounds),
        Command::Schemas { model, asked } => schemas(&model, &asked),
    }
}

/// A sequence of its own.
struct Text<'a> {
    model: &'a ChatModel,
    pages: PageList,
    computed: usize,
}

impl<'a> Text<'a> {
    fn new(model: &'a ChatModel) -> Self {
        Self { model, pages: PageList::default(), computed: 0 }
    }

    fn read(&mut self, arena: &mut PageArena, tokens: &[u32]) -> Vec<f32> {
        assert!(arena.extend(&mut self.pages, self.computed + tokens.len()), "memory");
        let piece = Piece { tokens, position: self.computed, pages: &self.pages, embedded: None, scores: true };
        let scores = self.model.forward(arena, &[piece]).expect("scores");
        self.computed += tokens.len();
        scores
    }
}

fn likeliest(scores: &[f32]) -> u32 {
    likeliest_of(scores).map_or(0, |token| token as u32)
}

/// An engine on the CPU with a catalog that names no model.
fn engine(precision: Precision) -> Engine {
    let models = tempfile::tempdir().expect("a folder");
    std::fs::write(models.path().join("catalog.toml"), "").expect("a catalog");
    let options = EngineOptions::default().models(models.path()).device(DeviceChoice::Cpu).precision(precision);
    Engine::open(options).expect("the engine opens")
}

fn first_token(path: &Path, precision: Precision, words: usize, rounds: usize) {
    let engine = engine(precision);
    let options = ChatOptions::default().checkpoint(path).max_tokens(1).account("bench");
    // The wait in seconds, and the tokens of the prompt.
    let wait = |source: usize, question: &str| {
        let facts: Vec<String> =
            (0..words / 5).map(|at| format!("part {at} weighs {} grams.", (at * 31 + source * 17) % 997)).collect();
        let messages =
            [ChatMessage::system(format!("Source {source}. {}", facts.join(" "))), ChatMessage::user(question)];
        let began = Instant::now();
        let mut prompt = 0;
        for event in engine.chat(&messages, &options).expect("an answer") {
            if let ChatEvent::End(end) = event.expect("an answer") {
                prompt = end.usage.prompt_tokens;
            }
        }
        (began.elapsed().as_secs_f64(), prompt)
    };
    wait(0, "Ready?");
    let mut waits = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        let (cold, tokens) = wait(round, "How heavy is part 7?");
        let (cached, _) = wait(round, "Which part is the lightest?");
        println!("{tokens} tokens: cold {:.0} ms, cached {:.0} ms", cold * 1e3, cached * 1e3);
        waits[0].push(cold);
        waits[1].push(cached);
    }
    let [cold, cached] = waits.map(|mut waits| {
        waits.sort_by(f64::total_cmp);
        waits[waits.len() / 2] * 1e3
    });
    println!("median of {rounds}: cold {cold:.0} ms, cached {cached:.0} ms, {:.3} of it", cached / cold);
}

fn schemas(path: &Path, asked: &Path) {
    let engine = engine(Precision::default());
    let asked: Value = serde_json::from_str(&std::fs::read_to_string(asked).expect("asked")).expect("JSON");
    let options = ChatOptions::default().checkpoint(path).max_tokens(300);
    let answer = |content: &str, options: &ChatOptions| {
        let mut reply = engine.chat(&[ChatMessage::user(content)], options).expect("an answer").peekable();
        let (mut text, mut end) = (String::new(), Value::Null);
        // The prompt is not counted.
        reply.peek();
        let began = Instant::now();
        for event in reply {
            match event.expect("an answer") {
                ChatEvent::Text(piece) => text.push_str(&piece),
                ChatEvent::End(last) => {
                    let seconds = began.elapsed().as_secs_f64();
                    let (tokens, reason) = (last.usage.completion_tokens, last.finish_reason.name());
                    end = json!({ "tokens": tokens, "seconds": seconds, "finish_reason": reason });
                }
                _ => {}
            }
        }
        end["text"] = text.into();
        end
    };
    for one in asked.as_array().expect("an array") {
        let content = one["content"].as_str().expect("content");
        let held = options.clone().format(ChatFormat::Schema(one["schema"].clone()));
        println!("{}", json!({ "held": answer(content, &held), "free": answer(content, &options) }));
    }
}

fn compare(path: &Path, precision: Precision, asked: &Path, to: &Path) {
    let model = ChatModel::load_with(path, precision).expect("the model loads");
    let asked: Value = serde_json::from_str(&std::fs::read_to_string(asked).expect("asked")).expect("JSON");
    let mut text = Vec::new();
    model.tokenizer().encode_text(asked["text"].as_str().expect("text"), &mut text).expect("tokens");
    let mut arena = model.arena_of(PagePrecision::F32, 4 << 30);
    let mut sequence = Text::new(&model);
    let scores: Vec<f32> = text.iter().flat_map(|token| sequence.read(&mut arena, &[*token])).collect();
    let bytes: Vec<u8> = scores.iter().flat_map(|score| score.to_le_bytes()).collect();
    std::fs::write(to, bytes).expect("scores are written");
    let messages: Vec<TemplateMessage> = asked["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| {
            let text = |key: &str| message[key].as_str().expect("role and content");
            TemplateMessage::new(text("role"), text("content"))
        })
        .collect();
    let prompt = model.prompt(&messages, &[], "", false, chrono::Local::now().naive_local()).expect("prompt");
    let mut sequence = Text::new(&model);
    let mut scores = sequence.read(&mut arena, &prompt);
    let mut greedy = Vec::new();
    for _ in 0..asked["greedy"].as_u64().expect("greedy") {
        let token = likeliest(&scores);
        greedy.push(token);
        scores = sequence.read(&mut arena, &[token]);
    }
    println!("{}", json!({ "text": text, "prompt": prompt, "greedy": greedy }));
}

fn speed(
    path: &Path,
    device: DeviceChoice,
    precision: Precision,
    [prompt, text]: [usize; 2],
    texts: &[usize],
    rounds: usize,
) {
    let began = Instant::now();
    let opened = device::open(device).expect("the device opens");
    let most = opened.info.max_tensor_bytes;
    let model = device::in_own_memory(&opened.device, || ChatModel::load_on(path, precision, &opened.device, most))
        .expect("the model loads");
    let megabytes = model.weight_bytes() as f64 / 1e6;
    println!(
        "{}, {device}: loaded in {:.1} s; a token reads {megabytes:.0} MB of weights",
        path.display(),
        began.elapsed().as_secs_f64()
    );
    let vocabulary = model.config().vocabulary as u32;
    let tokens: Vec<u32> = (0..prompt as u32).map(|at| (at * 7919 + 13) % vocabulary).collect();
    let mut rates = vec![Vec::new(); 3 + texts.len()];
    let mut arena = model.arena(4 << 30);
    for _ in 0..rounds {
        let mut one = Text::new(&model);
        let began = Instant::now();
        let mut scores = Vec::new();
        for piece in tokens.chunks(512) {
            scores = one.read(&mut arena, piece);
        }
        rates[0].push(prompt as f64 / began.elapsed().as_secs_f64());
        rates[2].push(write(&mut one, &mut arena, likeliest(&scores), text));
        let mut short = Text::new(&model);
        let scores = short.read(&mut arena, &tokens[..8.min(tokens.len())]);
        rates[1].push(write(&mut short, &mut arena, likeliest(&scores), text));
        arena.release(&mut one.pages);
        arena.release(&mut short.pages);
        for (rates, count) in rates[3..].iter_mut().zip(texts) {
            rates.push(write_together(&model, &mut arena, &tokens, *count, text));
        }
    }
    let mut names = vec![format!("prompt of {prompt}"), "one text".into(), format!("one text, {prompt} tokens deep")];
    names.extend(texts.iter().map(|count| format!("{count} texts together")));
    for (name, mut rates) in names.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.1} tokens/s (median of {rounds}; {:.1} to {:.1})",
            rates[rates.len() / 2],
            rates[0],
            rates[rates.len() - 1]
        );
    }
}

fn write_together(model: &ChatModel, arena: &mut PageArena, tokens: &[u32], count: usize, length: usize) -> f64 {
    let mut texts: Vec<Text> = (0..count).map(|_| Text::new(model)).collect();
    let mut next: Vec<u32> = Vec::new();
    for (at, text) in texts.iter_mut().enumerate() {
        let prompt = tokens.iter().cycle().skip(at).take(8).copied().collect::<Vec<_>>();
        next.push(likeliest(&text.read(arena, &prompt)));
    }
    let began = Instant::now();
    for _ in 0..length {
        for text in &mut texts {
            assert!(arena.extend(&mut text.pages, text.computed + 1), "memory");
        }
        let pieces: Vec<Piece> = texts
            .iter()
            .zip(&next)
            .map(|(text, token)| Piece {
                tokens: std::slice::from_ref(token),
                position: text.computed,
                pages: &text.pages,
                embedded: None,
                scores: true,
            })
            .collect();
        let tokens = model.likeliest(arena, &pieces).expect("tokens");
        drop(pieces);
        next = tokens.into_iter().map(|token| token.expect("a token")).collect();
        texts.iter_mut().for_each(|text| text.computed += 1);
    }
    let rate = (count * length) as f64 / began.elapsed().as_secs_f64();
    for text in &mut texts {
        arena.release(&mut text.pages);
    }
    rate
}

fn write(one: &mut Text, arena: &mut PageArena, first: u32, count: usize) -> f64 {
    let began = Instant::now();
    let mut token = first;
    for _ in 0..count {
        assert!(arena.extend(&mut one.pages, one.computed + 1), "memory");
        let piece = Piece { tokens: &[token], position: one.computed, pages: &one.pages, embedded: None, scores: true };
        token = one.model.likeliest(arena, &[piece]).expect("a token")[0].expect("a token");
        one.computed += 1;
    }
    count as f64 / began.elapsed().as_secs_f64()
}
