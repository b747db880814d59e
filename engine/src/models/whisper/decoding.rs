//! Windows become tokens, side by side, a token a step; one that is done makes room for another at once.

use burn::tensor::Tensor;

use super::decoder::{Looked, Steps, Values};
use super::model::Whisper;
use super::rules::Rules;
use crate::error::{Error, Result};
use crate::models::confidence;

/// What to do with speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Write it down.
    #[default]
    Transcribe,
    /// Write it down in English.
    Translate,
}

/// What is wanted of a window.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The token of the language spoken; not looked at where the checkpoint has English alone.
    pub language: u32,
    /// What to do.
    pub task: Task,
    /// Tokens said before, or expected.
    pub previous: Vec<u32>,
    /// 0: the likeliest token at each step; above it, chance has more and more of a say.
    pub temperature: f32,
    /// What chance begins with.
    pub seed: u64,
    /// Tokens at most.
    pub most: usize,
    /// Encoder frames of real audio, to tell where the heads looked; 0 to leave that out.
    pub frames: usize,
}

/// What was said in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The tokens, timestamps among them; without the end.
    pub tokens: Vec<u32>,
    /// Of each token: one minus the normalised entropy of what might have been written.
    pub confidences: Vec<f32>,
    /// Mean log probability of the tokens and the end.
    pub log_prob: f32,
    /// Chance that there is no speech.
    pub no_speech: f32,
    /// Where the heads looked for each token, and for the end: `[tokens + 1, heads, frames]`.
    pub weights: Vec<f32>,
}

/// Windows that are decoded side by side.
pub struct Decoding {
    timestamps: bool,
    steps: Option<Steps>,
    rows: Vec<Row>,
}

struct Row {
    number: u64,
    ask: Ask,
    said: Said,
    /// Tokens before the first that is said.
    prompt: usize,
    chance: u64,
    over: bool,
}

impl Decoding {
    /// None yet; with timestamps written or not.
    pub fn new(timestamps: bool) -> Self {
        Self { timestamps, steps: None, rows: Vec::new() }
    }

    /// How many are not done.
    pub fn rows(&self) -> usize {
        self.rows.iter().filter(|row| !row.over).count()
    }

    /// Windows join in: the encoder's frames `[windows, frames, size]`, and each one's number and what is wanted of it. Those
    /// of which nothing was said are done already.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed; [`Error::InvalidOption`] for more previous tokens than there are positions.
    pub fn add(&mut self, model: &Whisper, frames: &Tensor<3>, asks: Vec<(u64, Ask)>) -> Result<Vec<(u64, Said)>> {
        let config = model.config();
        let special = &config.special;
        let room = config.positions / 2 - 1;
        let mut steps = model.decoder().start(frames)?;
        let mut begins: Vec<Vec<u32>> = Vec::new();
        let mut follows: Vec<Vec<u32>> = Vec::new();
        for (_, ask) in &asks {
            let mut begin = Vec::new();
            if let Some(previous) = special.previous.filter(|_| !ask.previous.is_empty()) {
                begin.push(previous);
                begin.extend(&ask.previous[ask.previous.len().saturating_sub(room)..]);
            }
            begin.push(special.start);
            begins.push(begin);
            let task = match ask.task {
                Task::Transcribe => special.transcribe,
                Task::Translate => special.translate,
            };
            let language = config.is_multilingual().then_some(ask.language);
            let plain = (!self.timestamps).then_some(special.no_timestamps);
            follows.push([language, task.filter(|_| config.is_multilingual()), plain].into_iter().flatten().collect());
        }
        // Whether there is speech at all is told where the text would start.
        let looked = model.decoder().forward(&mut steps, &begins);
        let (heads, frames) = (looked.heads, looked.frames);
        let scores = looked.scores.read()?;
        let no_speech = chances_of(&scores, asks.len(), special.no_speech as usize);
        let looked = match follows.first().is_some_and(|follow| !follow.is_empty()) {
            true => model.decoder().forward(&mut steps, &follows),
            false => Looked { scores: Values::Host(scores), weights: looked.weights, heads, frames },
        };
        let prompts = begins.iter().zip(&follows).map(|(begin, follow)| begin.len() + follow.len());
        let rows = asks.into_iter().zip(prompts.zip(no_speech)).map(|((number, ask), (prompt, no_speech))| Row {
            number,
            prompt,
            chance: ask.seed,
            ask,
            said: Said { no_speech, ..Said::default() },
            over: false,
        });
        let from = self.rows.len();
        self.rows.extend(rows);
        self.steps = Some(match self.steps.take() {
            Some(before) => before.join(steps),
            None => steps,
        });
        self.choose(model, looked, from)
    }

    /// One more token of each; those that are done.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn step(&mut self, model: &Whisper) -> Result<Vec<(u64, Said)>> {
        self.tidy();
        let Some(steps) = &mut self.steps else { return Ok(Vec::new()) };
        let end = model.config().special.end;
        let last = |row: &Row| vec![row.said.tokens.last().copied().filter(|_| !row.over).unwrap_or(end)];
        let tokens: Vec<Vec<u32>> = self.rows.iter().map(last).collect();
        let looked = model.decoder().forward(steps, &tokens);
        self.choose(model, looked, 0)
    }

    /// Gives up a window.
    pub fn forget(&mut self, number: u64) {
        self.rows.iter_mut().filter(|row| row.number == number).for_each(|row| row.over = true);
    }

    /// Moves the others together once half of the rows are done: what is kept of a row is large.
    fn tidy(&mut self) {
        let alive: Vec<usize> = (0..self.rows.len()).filter(|row| !self.rows[*row].over).collect();
        if alive.is_empty() {
            (self.steps, self.rows) = (None, Vec::new());
        } else if 2 * alive.len() <= self.rows.len() {
            self.steps = self.steps.take().map(|steps| steps.keep(&alive));
            self.rows.retain(|row| !row.over);
        }
    }

    /// Chooses the next token of the rows from `from` on.
    fn choose(&mut self, model: &Whisper, looked: Looked, from: usize) -> Result<Vec<(u64, Said)>> {
        let config = model.config();
        let rules = Rules::new(config, self.timestamps);
        let (heads, frames) = (looked.heads, looked.frames);
        let wanted = self.rows[from..].iter().any(|row| row.ask.frames > 0 && !row.over);
        let weights = if wanted { looked.weights.read()? } else { Vec::new() };
        let mut scores = looked.scores.read()?;
        let mut done = Vec::new();
        for (at, row) in self.rows[from..].iter_mut().enumerate().filter(|(_, row)| !row.over) {
            let scores = &mut scores[at * config.vocab_size..][..config.vocab_size];
            rules.apply(scores, &row.said.tokens);
            let token = row.pick(scores);
            let count = row.said.tokens.len() as f32;
            row.said.log_prob = (row.said.log_prob * count + log_prob(scores, token)) / (count + 1.0);
            let seen = row.ask.frames.min(frames);
            if seen > 0 {
                let heads = (0..heads).map(|head| &weights[(at * heads + head) * frames..][..seen]);
                row.said.weights.extend(heads.flatten());
            }
            if token as u32 == config.special.end {
                row.over = true;
            } else {
                row.said.tokens.push(token as u32);
                row.said.confidences.push(confidence(scores));
                let spoken = row.said.tokens.len();
                row.over = spoken >= row.ask.most || row.prompt + spoken >= config.positions;
            }
            if row.over {
                done.push((row.number, std::mem::take(&mut row.said)));
            }
        }
        if scores.iter().any(|score| score.is_nan()) {
            return Err(Error::Device {
                device: "in use".into(),
                reason: "the decoder's scores are no numbers".into(),
            });
        }
        Ok(done)
    }
}

impl Row {
    /// The likeliest token, or one drawn by its chance.
    fn pick(&mut self, scores: &[f32]) -> usize {
        let temperature = self.ask.temperature;
        let mut best = (f32::NEG_INFINITY, 0);
        for (token, score) in scores.iter().enumerate() {
            if *score == f32::NEG_INFINITY {
                continue;
            }
            // The largest of scores with Gumbel noise is a draw by their chances.
            let value = if temperature > 0.0 { score / temperature - (-self.draw().ln()).ln() } else { *score };
            if value > best.0 {
                best = (value, token);
            }
        }
        best.1
    }

    /// Above 0, below 1 (splitmix64).
    fn draw(&mut self) -> f32 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32 + 3e-8
    }
}

/// ln of the chance of a token.
fn log_prob(scores: &[f32], token: usize) -> f32 {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores[token] - most - scores.iter().map(|score| (score - most).exp()).sum::<f32>().ln()
}

/// The chance of one token in each of so many rows of scores.
fn chances_of(scores: &[f32], rows: usize, token: usize) -> Vec<f32> {
    scores.chunks_exact(scores.len() / rows.max(1)).map(|scores| log_prob(scores, token).exp()).collect()
}
