//! `auricle voices`: the voices that speak.

use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, EngineOptions, SpeakOptions};
use clap::Subcommand;

use super::{ModelsFolder, Result, output};

#[derive(Subcommand)]
pub enum VoicesCommand {
    /// List the voices of `auricle say`, the default first: id, language, model
    List {
        #[command(flatten)]
        models: ModelsFolder,
    },
}

pub fn run(command: &VoicesCommand) -> Result<()> {
    let VoicesCommand::List { models } = command;
    let options = EngineOptions::default().models(models.path()?).device(DeviceChoice::Cpu);
    let voices = Engine::open(options)?.voices(&SpeakOptions::default())?;
    let width = voices.iter().map(|voice| voice.id.chars().count()).max().unwrap_or(0);
    for voice in voices {
        output::print(&format!("{:width$}  {}  {}\n", voice.id, voice.language, voice.model))?;
    }
    Ok(())
}
