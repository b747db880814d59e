//! Simulated callers of a voice agent, for `auricle bench --talk`: they speak, pause, listen, interrupt, and judge the agent by what
//! they hear.
//!
//! - `script`: the words of a caller and their times.
//! - `room`: the sound at the microphone: the caller, echo of the loudspeaker, noise.
//! - `caller`: a call by the clock.
//! - `judge`: counts of the agent's faults, and its times.

mod caller;
mod judge;
mod room;
mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;

use auricle_engine::blocking::Engine;
use clap::Args;
use serde_json::json;

use self::judge::Report;
use self::script::Lines;
pub use self::script::files_of;
use super::progress::Bar;
use super::talk::call::Host;
use super::talk::host::HostArgs;
use super::{EngineArgs, Failure, Result, output, runtime};
use crate::config::url_below;

#[derive(Args)]
pub struct CallersArgs {
    /// Measure voice agents instead: simulated callers in a room with echo
    #[arg(long)]
    pub talk: bool,
    /// Calls at a time
    #[arg(long, value_name = "N", default_value_t = 1, requires = "talk", value_parser = clap::value_parser!(u16).range(1..))]
    calls: u16,
    /// Rounds of such calls
    #[arg(long, value_name = "N", default_value_t = 2, requires = "talk", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Turns of the caller in each call, after the words over the greeting
    #[arg(long, value_name = "N", default_value_t = 3, requires = "talk")]
    turns: u16,
    /// Level of the loudspeaker's echo in the microphone, dB
    #[arg(long, value_name = "DB", default_value_t = -12.0, allow_negative_numbers = true, requires = "talk")]
    echo: f32,
    /// A caller with headphones: no echo
    #[arg(long, requires = "talk", conflicts_with = "echo")]
    headphones: bool,
    /// Folder of recorded callers
    ///
    /// Its folders sentences, backchannels and interruptions hold sound files, which take the places of the lines of their kind.
    #[arg(long, value_name = "DIR", requires = "talk")]
    lines: Option<PathBuf>,
    /// The result as JSON
    #[arg(long, requires = "talk")]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

impl CallersArgs {
    /// Calls the service, and prints what its agents did.
    ///
    /// # Errors
    /// If the service cannot be called or there is no voice for the callers.
    pub fn run(&self, engine: &EngineArgs) -> Result<()> {
        let bar = Bar::new(self.json);
        let _file = bar.start("the callers learn their lines");
        let options = engine.options()?;
        let lines = Lines::prepare(&Engine::open(options)?, self.lines.as_deref())?;
        let service = self.host.service(engine, None, bar.clone())?;
        let echo = (!self.headphones).then_some(self.echo);
        let (calls, turns) = (usize::from(self.calls), usize::from(self.turns));
        let (report, parts) = runtime()?.block_on(async {
            let mut report = Report::default();
            for round in 0..usize::from(self.rounds) {
                let _file = bar.start(&format!("round {} of {}", round + 1, self.rounds));
                let mut running = tokio::task::JoinSet::new();
                for call in round * calls..(round + 1) * calls {
                    let (host, acts) = (service.host.clone(), lines.acts(call, turns));
                    running.spawn(async move {
                        // Callers do not begin in the same millisecond.
                        tokio::time::sleep(std::time::Duration::from_millis(137 * (call % calls) as u64)).await;
                        caller::call(&host, acts, echo, call as u64 + 1).await
                    });
                }
                while let Some(call) = running.join_next().await {
                    report.add(call.map_err(|error| Failure::Service(error.to_string()))??);
                }
            }
            Ok::<_, Failure>((report, parts_of_turns(&service.host).await.unwrap_or_default()))
        })?;
        bar.clear();
        if self.json {
            return output::print(&format!("{}\n", json!({ "report": report, "mean_parts_ms": parts })));
        }
        let echo = echo.map_or("headphones".into(), |db| format!("echo at {db} dB"));
        let mut text =
            format!("{} calls, {calls} at a time, {echo}\n\n{}", report.calls, output::table(&report.rows()));
        if !parts.is_empty() {
            let mut rows =
                vec![["part of a turn, from the caller's last speech on", "mean"].map(String::from).to_vec()];
            rows.extend(parts.iter().map(|(part, ms)| vec![part.replace('_', " "), format!("{ms:.0} ms")]));
            text += &format!("\n{}", output::table(&rows));
        }
        for line in report.failed_lines() {
            text += &format!("\n{line}");
        }
        for code in &report.errors {
            let remedy = match code.as_str() {
                "model_unavailable" => {
                    ": the replies were the notice that there is no language model (`auricle models pull chat`)"
                }
                _ => "",
            };
            text += &format!("\nthe agent sent an error, {code}{remedy}");
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        output::print(&text)
    }
}

/// Mean times of the parts of all turns, ms, from the service's metrics.
async fn parts_of_turns(host: &Host) -> Option<BTreeMap<String, f64>> {
    let text = reqwest::get(url_below(&host.url, "/metrics")).await.ok()?.text().await.ok()?;
    let values = |suffix: &str| -> BTreeMap<String, f64> {
        let prefix = format!("auricle_agent_turn_seconds_{suffix}{{part=\"");
        text.lines()
            .filter_map(|line| {
                let (part, value) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
                Some((part.to_owned(), value.trim().parse().ok()?))
            })
            .collect()
    };
    let counts = values("count");
    let mean = |(part, sum): (String, f64)| {
        let count = counts.get(&part).copied().filter(|count| *count > 0.0)?;
        Some((part, 1e3 * sum / count))
    };
    Some(values("sum").into_iter().filter_map(mean).collect())
}
