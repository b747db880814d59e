//! Parts that a machine may lack: what a test does without them.

use std::path::PathBuf;
use std::sync::OnceLock;

use auricle_engine::device::{self, DeviceChoice};
use burn::tensor::Device;

/// The folder of fixtures. Test programs that are carried to another machine are told where it lies.
pub fn fixtures() -> PathBuf {
    let tests = std::env::var_os("AURICLE_TESTS").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(tests).join("fixtures")
}

/// Says that a test is left out for want of `part`. Where every part is promised, it fails instead.
pub fn skip(part: &str) {
    assert!(std::env::var_os("AURICLE_TESTS_REQUIRE_ALL").is_none(), "missing: {part}");
    println!("skipped: {part}");
}

/// The CPU, and the first Vulkan adapter if there is one; true for the CPU. The tests of a process share them: burn opens an
/// adapter once, and the engine's probe sets the panic hook of the whole process while it runs.
pub fn devices() -> Vec<(Device, bool)> {
    static DEVICES: OnceLock<Vec<(Device, bool)>> = OnceLock::new();
    let found = DEVICES.get_or_init(|| {
        let mut devices = vec![(Device::flex(), true)];
        if device::devices().len() > 1 {
            devices.push((device::open(DeviceChoice::Vulkan(0)).unwrap().device, false));
        }
        devices
    });
    if found.len() == 1 {
        skip("no Vulkan driver found (Debian: apt-get install libvulkan1 mesa-vulkan-drivers)");
    }
    found.clone()
}
