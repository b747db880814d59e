//! The program `auricle` as its users run it: arguments, files, standard streams, exit status.

mod accounts;
mod analyze;
mod chat;
mod doctor;
mod files;
mod first_run;
mod formats;
mod forms;
mod hub_model;
mod inputs;
mod known_speakers;
mod listen;
mod outputs;
mod place;
mod pull;
mod say;
#[cfg(target_os = "linux")]
mod sound_card;
mod speakers;
mod talk;
mod voices;
#[cfg(unix)]
mod watch;
