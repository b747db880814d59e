//! The checkpoints of a models folder: what serves each model, what there is to pull and is recommended, and pulls from a model hub.

mod better;
mod list;
mod pull;
mod recommend;

pub use better::{Better, better};
pub use list::{ListedModel, ModelState, list};
pub use pull::{PullError, PullTarget, Pulled, Source, Step, bytes_in, is_hub_name, pull};
pub use recommend::Machine;

/// The hub that checkpoints come from where no other is named, and the branch.
pub const HUB: &str = "https://huggingface.co";
pub const REVISION: &str = "main";

/// `967 MB`, `1.6 GB`: units of a thousand, as hubs and disks state them.
pub fn decimal_bytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 999.5 { format!("{megabytes:.0} MB") } else { format!("{:.1} GB", megabytes / 1e3) }
}
