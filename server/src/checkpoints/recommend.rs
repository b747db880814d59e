//! Recommends a size of a checkpoint by the compute device and the free memory of this machine.

use auricle_engine::{CatalogSize, DeviceInfo, available_memory, devices};

use super::decimal_bytes;

/// The properties of this machine that decide the size.
pub struct Machine {
    /// The GPU that `--device auto` takes.
    gpu: Option<String>,
    /// Free main memory, where the system tells it, bytes.
    free_bytes: Option<u64>,
}

impl Machine {
    /// This machine as it is now.
    pub fn probe() -> Self {
        Self::with(&devices())
    }

    /// This machine, of whose devices these compute.
    pub fn with<'a>(devices: impl IntoIterator<Item = &'a DeviceInfo>) -> Self {
        let gpu = devices.into_iter().find(|device| device.is_gpu()).map(|gpu| gpu.name.clone());
        Self { gpu, free_bytes: available_memory() }
    }

    fn suits(&self, size: &CatalogSize) -> bool {
        (self.gpu.is_some() || !size.needs_gpu) && self.free_bytes.is_none_or(|free| free >= size.memory_bytes)
    }

    /// The best size that this machine suits, else the smallest, and the reason. The sizes are sorted, the best first; none
    /// for an empty list.
    pub fn recommend<'a>(&self, sizes: &'a [CatalogSize]) -> Option<(&'a CatalogSize, String)> {
        let size = sizes.iter().find(|size| self.suits(size)).or(sizes.last())?;
        let device = match &self.gpu {
            Some(gpu) => format!("{gpu} computes"),
            None => "no GPU, so the CPU computes".into(),
        };
        let free = self.free_bytes.map_or_else(
            || "free memory is unknown".into(),
            |free| format!("{} of memory are free", decimal_bytes(free)),
        );
        let needs = decimal_bytes(size.memory_bytes);
        let why = if self.suits(size) { "the best size for that" } else { "the smallest size" };
        Some((size, format!("{}: {device}, {free}; {why}, which needs {needs}", size.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Vec<CatalogSize> {
        let catalog = auricle_engine::Catalog::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../models")).unwrap();
        catalog.models().iter().find(|model| model.id == "svc-fast").unwrap().sizes.clone()
    }

    #[test]
    fn device_and_memory_decide() {
        let sizes = sizes();
        let gpu = || Some("A GPU".to_owned());
        for (gpu, free_bytes, name, words) in [
            (gpu(), Some(16_000_000_000), "turbo", ["A GPU computes", "16.0 GB of memory are free"]),
            (gpu(), Some(3_000_000_000), "small", ["A GPU computes", "needs 2.5 GB"]),
            (None, Some(16_000_000_000), "small", ["the CPU computes", "the best size"]),
            (None, Some(1_500_000_000), "base", ["the CPU computes", "needs 1.0 GB"]),
            (None, Some(200_000_000), "base", ["200 MB of memory are free", "the smallest size"]),
            (gpu(), None, "turbo", ["A GPU computes", "free memory is unknown"]),
        ] {
            let (size, why) = Machine { gpu, free_bytes }.recommend(&sizes).unwrap();
            assert_eq!(size.name, name, "{why}");
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        }
        assert!(Machine { gpu: None, free_bytes: None }.recommend(&[]).is_none());
    }
}
