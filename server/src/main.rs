//! The `auricle` program.

/// Each step allocates and frees tensors of many megabytes. The C library returns their pages to the system each time, and
/// new zeroed pages cost more than some of the computations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    auricle_server::main()
}
