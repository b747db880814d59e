//! The `auricle` program.

/// Tensors of many megabytes come and go with each step. The C library gives their pages back to the system each time, and
/// the system's clean new ones cost more than what is computed on some of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    auricle_server::main()
}
