//! The network that detects whether a speaker has finished.

use std::path::Path;
use std::sync::Arc;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use super::Engine;
use super::devices::EngineDevice;
use crate::device::is_cpu;
use crate::error::Result;
use crate::models::smart_turn::SmartTurn;
use crate::options::TurnDetectorChoice;

/// Loads a Smart Turn network on the CPU, an `.onnx` file or a folder, to see that every tensor is there, has its shape, and none is left
/// over; gives the number of values in its tensors.
///
/// # Errors
/// [`Error::Checkpoint`](crate::Error::Checkpoint) and [`Error::Weights`](crate::Error::Weights), which name the file or tensor at fault.
pub fn check_turn_detector(path: impl AsRef<Path>) -> Result<usize> {
    Ok(SmartTurn::load(path.as_ref(), &Device::flex(), Precision::F32)?.parameters())
}

impl Engine {
    /// Loads the network of [`EngineOptions::turn_detector`](crate::EngineOptions::turn_detector), so that the first live session does not
    /// wait for it. False where that is off, or the catalog's is not pulled.
    ///
    /// # Errors
    /// As [`check_turn_detector`], and [`Error::Busy`](crate::Error::Busy) where models in use leave no memory for it.
    pub fn load_turn_detector(&self) -> Result<bool> {
        let mut is_there = false;
        for on in self.devices.all()? {
            is_there |= self.turn_detector_on(&on)?.is_some();
        }
        Ok(is_there)
    }

    pub(super) fn turn_detector_on(&self, on: &EngineDevice) -> Result<Option<Arc<SmartTurn>>> {
        let path = match &self.turn_detector {
            TurnDetectorChoice::Pulled => self.catalog.turn_detector(),
            TurnDetectorChoice::Off => None,
            TurnDetectorChoice::Path(path) => Some(path.clone()),
        };
        let Some(path) = path else { return Ok(None) };
        // The published weights have 8 bits; products in as many take half the time on a CPU that is faster with them.
        let precision = if is_cpu(&on.device) { Precision::Int8 } else { on.precision.unwrap_or_default() };
        on.model(&path, || SmartTurn::load(&path, &on.device, precision)).map(Some)
    }
}
