//! Optional parts of a machine. A test without its part prints a note and passes, or fails where every part is required.

use std::path::PathBuf;
use std::sync::OnceLock;

use auricle_engine::unstable::device::{self, DeviceChoice};
use burn::tensor::Device;

/// The folder of tests. `AURICLE_TESTS` names it for test programs that run on another machine. Else it is beside the package
/// that runs, as cargo tells when it starts a test: a program may have been compiled in another checkout that shares its
/// target folder.
fn tests() -> PathBuf {
    let beside = || {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        PathBuf::from(package).join("../tests")
    };
    std::env::var_os("AURICLE_TESTS").map_or_else(beside, PathBuf::from)
}

/// The folder of fixtures.
pub fn fixtures() -> PathBuf {
    tests().join("fixtures")
}

/// The folder of the whole repository.
pub fn repository() -> PathBuf {
    let folder = tests().join("..");
    folder.canonicalize().unwrap_or(folder)
}

/// Prints that a test is skipped because `part` is missing. Fails if `AURICLE_TESTS_REQUIRE_ALL` is set.
pub fn skip(part: &str) {
    assert!(std::env::var_os("AURICLE_TESTS_REQUIRE_ALL").is_none(), "missing: {part}");
    println!("skipped: {part}");
}

/// The CPU, and the first Vulkan adapter if there is one, or the GPU that `AURICLE_TESTS_GPU` names; true for the CPU. The tests of a process share them: burn opens an
/// adapter once, and the engine's probe sets the panic hook of the whole process while it runs.
pub fn devices() -> Vec<(Device, bool)> {
    static DEVICES: OnceLock<Vec<(Device, bool)>> = OnceLock::new();
    let found = DEVICES.get_or_init(|| {
        let mut devices = vec![(Device::flex(), true)];
        if device::devices().len() > 1 {
            let gpu = std::env::var("AURICLE_TESTS_GPU").map_or(DeviceChoice::Vulkan(0), |gpu| gpu.parse().unwrap());
            devices.push((device::open(gpu).unwrap().device, false));
        }
        devices
    });
    if found.len() == 1 {
        skip("no Vulkan driver found (Debian: apt-get install libvulkan1 mesa-vulkan-drivers)");
    }
    found.clone()
}
