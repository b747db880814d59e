//! The default loudspeaker and microphone.
//!
//! - `player`: samples out.
//! - `recorder`: samples in.
//! - `pulse`: the devices of a PulseAudio or PipeWire server, on Linux.
//! - `native`: the devices of other systems.

mod player;
mod recorder;

#[cfg(not(target_os = "linux"))]
mod native;
#[cfg(target_os = "linux")]
mod pulse;

use std::time::Duration;

#[cfg(not(target_os = "linux"))]
use native::{Input, Output};
#[cfg(target_os = "linux")]
use pulse::{Input, Output};

pub use player::Player;
pub use recorder::Recorder;

/// A device without a call for so long stands still.
const LONGEST_STALL: Duration = Duration::from_secs(3);
/// Sound that a device is given or gives at a time.
const BUFFER: Duration = Duration::from_millis(20);
