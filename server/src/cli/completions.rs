//! `auricle completions` and `auricle man`: the commands as shells and `man` read them.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::{Failure, Result, output};

#[derive(Args)]
#[command(after_long_help = "\
Examples:
  auricle completions bash > ~/.local/share/bash-completion/completions/auricle
  auricle completions zsh > /usr/local/share/zsh/site-functions/_auricle
  auricle completions fish > ~/.config/fish/completions/auricle.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub struct ManArgs {
    /// The folder that gets a page for each command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn run(args: &CompletionsArgs, mut program: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "auricle", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

pub fn write_pages(args: &ManArgs, program: Command) -> Result<()> {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(&args.folder)?;
        clap_mangen::generate_to(program, &args.folder)
    };
    write().map_err(|source| Failure::Write { what: format!("pages into {}", args.folder.display()), source })
}
