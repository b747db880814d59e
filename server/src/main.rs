//! `auricle`: speech to text on your own machine.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
