//! The line that says which checkpoint is at work, how many words it gets wrong, and the command for a better one.

use std::path::Path;

use auricle_engine::Catalog;

use super::output;
use crate::checkpoints::{Machine, better, decimal_bytes};

/// The line for a service model; none where the catalog lacks the model.
pub fn line(catalog: &Catalog, model: &str) -> Option<String> {
    let choice = catalog.choose(model).ok()?;
    let rate = choice.word_error_rate();
    let rate = rate.map(|rate| format!(", {} % of words wrong on {}", rate.percent, rate.recordings));
    let at_work = match choice.published() {
        Some(published) if choice.source.id == model => published.to_owned(),
        Some(published) => format!("{published}, which is there for {}", choice.source.id),
        None => "the small starter checkpoint".into(),
    };
    let better = match choice.size {
        Some(size) => {
            let larger = choice.source.sizes.iter().take_while(|other| other.name != size.name).last();
            larger.map(|size| {
                let (name, bytes) = (&size.name, decimal_bytes(size.download_bytes));
                format!("auricle models pull {} --size {name} ({bytes})", choice.source.id)
            })
        }
        None => better(catalog, model, &Machine::with(&[])).map(|better| {
            let recommended = if better.size.is_empty() { "" } else { " --recommended" };
            format!("auricle models pull {}{recommended}", better.model)
        }),
    };
    let better = better.map(|command| format!("; a better one: {command}"));
    Some(format!("{model} runs on {at_work}{}{}", rate.unwrap_or_default(), better.unwrap_or_default()))
}

/// Writes the line for a model of a models folder to standard error.
pub fn say(models: &Path, model: &str) {
    // An unreadable catalog is an error of the command itself.
    if let Some(line) = Catalog::read(models).ok().and_then(|catalog| line(&catalog, model)) {
        output::say(&line);
    }
}
