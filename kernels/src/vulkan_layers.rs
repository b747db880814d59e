//! The environment that the Vulkan loader reads when it first looks for adapters.

/// Variables by which a user decides about Mesa's device selection layer.
const USER_CHOICES: [&str; 3] = ["NODEVICE_SELECT", "MESA_VK_DEVICE_SELECT", "DRI_PRIME"];

/// Disables Mesa's device selection layer for this process and the processes that it starts.
///
/// The layer sorts adapters by the display that they drive. It connects to a desktop for that, and on a machine without one
/// libwayland prints `error: XDG_RUNTIME_DIR is invalid` for each connection. The variable of the Vulkan loader is
/// `NODEVICE_SELECT`. A program calls this first in `main`. Nothing changes where the user has set one of the layer's
/// variables, where the process has more than one thread, or where the system is not Linux.
///
/// Returns whether the layer is disabled by this call.
pub fn disable_mesa_device_select() -> bool {
    if USER_CHOICES.iter().any(|name| std::env::var_os(name).is_some()) || !is_single_threaded() {
        return false;
    }
    // SAFETY: writing the environment is a data race if another thread reads it meanwhile. The kernel has just listed one
    // thread of this process, which is this one, and only a running thread starts another.
    unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    true
}

/// True if the kernel lists exactly one thread of this process; false where it lists none, as on systems other than Linux.
fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test runner starts a thread for each test.
    #[test]
    fn the_environment_stays_as_it_is_beside_other_threads() {
        let before = std::env::var_os("NODEVICE_SELECT");
        assert!(!is_single_threaded());
        assert!(!disable_mesa_device_select());
        assert_eq!(std::env::var_os("NODEVICE_SELECT"), before);
    }
}
