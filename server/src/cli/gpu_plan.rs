//! `auricle bench --gpu-plan`: what steps of the published sizes cost on a GPU by arithmetic alone, for a card that is not at hand.

use auricle_engine::devices;

use super::{Failure, Result, output};

/// A graphics card by its maker's figures.
struct Adapter {
    /// In lower case, a part of the name that drivers report.
    name: &'static str,
    title: &'static str,
    /// Multiply-adds in 32 bits, TFLOP/s.
    vector: f64,
    /// Multiply-adds of matrix units in 16 bits with sums of 32, TFLOP/s.
    matrix: f64,
    /// Memory bandwidth, TB/s.
    memory: f64,
}

const ADAPTERS: [Adapter; 5] = [
    Adapter { name: "h100", title: "NVIDIA H100 SXM", vector: 67.0, matrix: 989.0, memory: 3.35 },
    Adapter { name: "h200", title: "NVIDIA H200", vector: 67.0, matrix: 989.0, memory: 4.8 },
    Adapter { name: "rtx 4090", title: "NVIDIA RTX 4090", vector: 82.6, matrix: 165.0, memory: 1.01 },
    Adapter { name: "m3 max", title: "Apple M3 Max, 40 cores", vector: 14.2, matrix: 14.2, memory: 0.4 },
    Adapter { name: "radeon 7900", title: "AMD Radeon RX 7900 XTX", vector: 61.4, matrix: 122.8, memory: 0.96 },
];

/// The host's time for a launch, ms: measured with Vulkan on the host of an H200, where it decides small steps.
const LAUNCH_MS: f64 = 0.028;

/// The same in a live step that repeats a record: 5.8 ms of 430 launches of one stream, while the card's clock was up.
const RECORDED_LAUNCH_MS: f64 = 0.0135;

/// Encoder frames of a step that is recorded, all streams together.
const MOST_RECORDED_FRAMES: f64 = 512.0;

/// The part of a card's peak that products of thousands of rows reach, and the most that they reach on matrix units, TFLOP/s: measured on
/// an H200.
const REACHED: f64 = 0.38;
const MOST_REACHED: f64 = 80.0;

/// Work that runs as one step.
struct Step {
    what: String,
    /// Audio of the step, s, all streams together.
    audio_s: f64,
    /// Time within which the step keeps up with its streams, ms.
    within_ms: Option<f64>,
    parameters: f64,
    flops: f64,
    /// Keys and values that are read, values.
    state: f64,
    launches: f64,
    /// The host's time for each launch, ms.
    launch_ms: f64,
    peer: &'static str,
}

/// The encoder of FastConformer at 0.6 billion parameters, by its published configuration.
mod conformer {
    pub const LAYERS: f64 = 24.0;
    pub const SIZE: f64 = 1024.0;
    const INNER: f64 = 4096.0;
    pub const PARAMETERS: f64 = 0.6e9;
    pub const FRAME_S: f64 = 0.08;
    /// Launches of a block, and of all else in a step: the subsampling, the joint and the prediction network.
    const BLOCK_LAUNCHES: f64 = 17.0;
    const OTHER_LAUNCHES: f64 = 60.0;

    /// Operations of a frame that sees `keys` keys.
    pub fn flops(keys: f64) -> f64 {
        let feed_forward = 2.0 * (2.0 * 2.0 * SIZE * INNER);
        let projections = 4.0 * 2.0 * SIZE * SIZE;
        // Scores of content and of distance, and values.
        let attention = 3.0 * 2.0 * keys * SIZE;
        let convolution = 3.0 * 2.0 * SIZE * SIZE;
        LAYERS * (feed_forward + projections + attention + convolution)
    }

    pub fn launches() -> f64 {
        LAYERS * BLOCK_LAUNCHES + OTHER_LAUNCHES
    }
}

/// Keys that a live stream keeps.
const LIVE_KEYS: f64 = 70.0;

fn live(streams: f64, look_ahead: f64, peer: &'static str) -> Step {
    let frames = look_ahead + 1.0;
    let step_s = frames * conformer::FRAME_S;
    Step {
        what: format!("live streams, 0.6B, {:.0} ms: {streams:.0}", step_s * 1e3),
        audio_s: streams * step_s,
        within_ms: Some(step_s * 1e3),
        parameters: conformer::PARAMETERS,
        flops: streams * frames * conformer::flops(LIVE_KEYS + frames),
        state: streams * conformer::LAYERS * 2.0 * LIVE_KEYS * conformer::SIZE,
        launches: conformer::launches(),
        launch_ms: if streams * frames <= MOST_RECORDED_FRAMES { RECORDED_LAUNCH_MS } else { LAUNCH_MS },
        peer,
    }
}

fn recordings(count: f64) -> Step {
    const WINDOW_S: f64 = 30.0;
    let frames = WINDOW_S / conformer::FRAME_S;
    Step {
        what: format!("Parakeet 0.6B, windows of 30 s: {count:.0}"),
        audio_s: count * WINDOW_S,
        within_ms: None,
        parameters: conformer::PARAMETERS,
        flops: count * frames * conformer::flops(frames),
        state: count * conformer::LAYERS * 2.0 * frames * conformer::SIZE,
        launches: conformer::launches(),
        launch_ms: LAUNCH_MS,
        peer: "3,333x",
    }
}

/// Whisper large-v3-turbo: 32 encoder layers, 4 decoder layers, 100 tokens a window.
fn whisper(windows: f64) -> Step {
    const SIZE: f64 = 1280.0;
    const FRAMES: f64 = 1500.0;
    const TOKENS: f64 = 100.0;
    const VOCABULARY: f64 = 51_866.0;
    let block = 4.0 * 2.0 * SIZE * SIZE + 2.0 * 2.0 * 4.0 * SIZE * SIZE;
    let encoder = 32.0 * FRAMES * (block + 2.0 * 2.0 * FRAMES * SIZE);
    let projected = 4.0 * FRAMES * 2.0 * 2.0 * SIZE * SIZE;
    let token = 4.0 * (block + 2.0 * 2.0 * SIZE * SIZE + 2.0 * 2.0 * FRAMES * SIZE) + 2.0 * SIZE * VOCABULARY;
    let (encoder_weights, decoder_weights) = (0.637e9, 0.172e9);
    Step {
        what: format!("Whisper large-v3-turbo, windows of 30 s: {windows:.0}, 100 tokens"),
        audio_s: windows * 30.0,
        within_ms: None,
        // Every token reads the decoder's weights again.
        parameters: encoder_weights + TOKENS * decoder_weights,
        flops: windows * (encoder + projected + TOKENS * token),
        state: windows * TOKENS * 4.0 * 2.0 * FRAMES * SIZE,
        launches: 32.0 * 9.0 + TOKENS * (4.0 * 19.0 + 6.0),
        launch_ms: LAUNCH_MS,
        peer: "",
    }
}

/// Prints the table for the named card, or for the first GPU of this machine.
pub fn run(wanted: &str) -> Result<()> {
    let known = || ADAPTERS.map(|adapter| adapter.name).join(", ");
    let name = match wanted {
        "" => devices().into_iter().find(auricle_engine::DeviceInfo::is_gpu).map(|device| device.name).ok_or_else(
            || Failure::Usage(format!("there is no GPU here; name one of {}: auricle bench --gpu-plan h100", known())),
        )?,
        name => name.to_owned(),
    };
    let lower = name.to_lowercase();
    let adapter = ADAPTERS
        .iter()
        .find(|adapter| lower.contains(adapter.name))
        .ok_or_else(|| Failure::Usage(format!("there are no figures for {name}; name one of {}", known())))?;
    let steps = [
        recordings(32.0),
        whisper(1.0),
        whisper(8.0),
        live(1.0, 0.0, ""),
        live(64.0, 0.0, ""),
        live(240.0, 0.0, "240 streams"),
        live(240.0, 13.0, ""),
        live(2400.0, 13.0, "2,400 streams"),
    ];
    for (precision, bytes, peak) in [("full", 4.0, adapter.vector), ("half, on matrix units", 2.0, adapter.matrix)] {
        let rate = (REACHED * peak).min(MOST_REACHED);
        let heading = format!(
            "{}, precision {precision}: {rate:.0} of {peak} TFLOP/s, {} TB/s, {:.0} us a launch, {:.1} us in a record\n\n",
            adapter.title,
            adapter.memory,
            LAUNCH_MS * 1e3,
            RECORDED_LAUNCH_MS * 1e3
        );
        let header = [
            "step",
            "TFLOP",
            "GB read",
            "launches",
            "arithmetic",
            "memory",
            "launching",
            "step",
            "keeps up",
            "others, one H100",
        ];
        let mut rows = vec![header.map(String::from).to_vec()];
        rows.extend(steps.iter().map(|step| row(step, adapter, bytes, rate)));
        output::print(&(heading + &output::table(&rows) + "\n"))?;
    }
    output::print(
        "A step takes the longest of three: its products at 38 % of the maker's peak and 80 TFLOP/s at most, as on an H200;\n\
         its weights, keys and values once through memory; its launches by the host. Live steps of few frames repeat a record\n\
         of theirs. Attention, convolutions and norms are left out, so that steps of many frames take up to twice as long.\n\
         Figures of others are those that they publish.\n",
    )
}

fn row(step: &Step, adapter: &Adapter, bytes: f64, rate: f64) -> Vec<String> {
    let arithmetic = step.flops / rate / 1e9;
    let read = (step.parameters + step.state) * bytes;
    let memory = read / adapter.memory / 1e9;
    let launching = step.launches * step.launch_ms;
    let time = arithmetic.max(memory).max(launching);
    let ms = |value: f64| format!("{value:.1} ms");
    let keeps_up = match step.within_ms {
        Some(within) if time <= within => "yes".to_owned(),
        Some(_) => "no".to_owned(),
        None => format!("{:.0}x", step.audio_s * 1e3 / time),
    };
    vec![
        step.what.clone(),
        format!("{:.2}", step.flops / 1e12),
        format!("{:.1}", read / 1e9),
        format!("{:.0}", step.launches),
        ms(arithmetic),
        ms(memory),
        ms(launching),
        ms(time),
        keeps_up,
        step.peer.to_owned(),
    ]
}
