//! The memory of the machine, or of the control group that the process runs in where that allows less.

use std::fs;
use std::path::Path;

/// Bytes of memory, if the system tells.
pub fn total() -> Option<u64> {
    let machine = meminfo(&read(Path::new("/proc/meminfo"))?, "MemTotal:");
    [machine, group_limit(Path::new("/sys/fs/cgroup"))].into_iter().flatten().min()
}

/// Bytes that can be taken without swapping, if the system tells.
pub fn available() -> Option<u64> {
    let machine = meminfo(&read(Path::new("/proc/meminfo"))?, "MemAvailable:");
    [machine, group_available(Path::new("/sys/fs/cgroup"))].into_iter().flatten().min()
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// A line of `/proc/meminfo`, bytes.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The limit of the control group whose files this folder has; none for `max`.
fn group_limit(folder: &Path) -> Option<u64> {
    read(&folder.join("memory.max"))?.trim().parse().ok()
}

/// Bytes that the group may still take. The system reclaims the files in its cache for it.
fn group_available(folder: &Path) -> Option<u64> {
    let used: u64 = read(&folder.join("memory.current"))?.trim().parse().ok()?;
    let files = read(&folder.join("memory.stat"))
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse::<u64>().ok());
    Some(group_limit(folder)?.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read_in_bytes() {
        let text = "MemTotal:       24 kB\nMemAvailable:   12 kB\n";
        assert_eq!((meminfo(text, "MemTotal:"), meminfo(text, "MemAvailable:")), (Some(24 << 10), Some(12 << 10)));
        assert_eq!(meminfo(text, "MemFree:"), None);
    }

    #[test]
    fn a_control_group_bounds_the_memory() {
        let group = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        assert_eq!(group_available(group.path()), None, "no such group");
        put("memory.max", "max\n");
        put("memory.current", "700\n");
        assert_eq!((group_limit(group.path()), group_available(group.path())), (None, None));
        put("memory.max", "1000\n");
        assert_eq!((group_limit(group.path()), group_available(group.path())), (Some(1000), Some(300)));
        put("memory.stat", "anon 500\ninactive_file 150\n");
        assert_eq!(group_available(group.path()), Some(450), "its files can go");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_memory() {
        let (total, available) = (total().unwrap(), available().unwrap());
        assert!(total > 1 << 28 && (1 << 20..=total).contains(&available), "{available} of {total}");
    }
}
