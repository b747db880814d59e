//! The parts that the load tools in `src/bin` share.
//!
//! # Layout
//!
//! - [`process`]: processor time and memory of a process.
//! - [`speech_set`]: a folder of speech with its reference texts.
//! - [`word_errors`]: substitutions, deletions and insertions between two texts.

use std::error::Error;
use std::process::ExitCode;

pub mod process;
pub mod speech_set;
pub mod word_errors;

/// Runs a program and prints its error, if it has one, on standard error.
pub fn report(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
