//! The `auricle` program.

fn main() -> std::process::ExitCode {
    auricle_server::main()
}
