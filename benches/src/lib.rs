//! The parts that the load tools in `src/bin` share.
//!
//! # Layout
//!
//! - [`diarization_errors`]: the error rate between two labellings of who speaks when.
//! - [`process`]: processor time and memory of a process.
//! - [`speech_set`]: a folder of speech with its reference texts.
//! - [`word_errors`]: substitutions, deletions and insertions between two texts.

use std::error::Error;
use std::process::ExitCode;

use auricle_kernels::vulkan_layers::disable_mesa_device_select;
use clap::Parser;

pub mod diarization_errors;
pub mod process;
pub mod speech_set;
pub mod word_errors;

/// Parses the arguments, runs `program` and prints its error, if it has one, on standard error.
pub fn run<A: Parser>(program: impl FnOnce(A) -> Result<(), Box<dyn Error>>) -> ExitCode {
    disable_mesa_device_select();
    match program(A::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
