//! Processor time and memory of a process, as Linux reports them. On other systems every figure is 0 or absent.

use std::fs::read_to_string;

/// Processor time that process `id` has used, user and system, in seconds.
pub fn cpu_seconds(id: u32) -> f64 {
    let stat = read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses, which may hold spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    // utime and stime, in hundredths of a second.
    (ticks(11) + ticks(12)) / 100.0
}

/// Resident memory of process `id`, in MB.
pub fn resident_mb(id: u32) -> f64 {
    kilobytes(&format!("/proc/{id}/status"), "VmRSS:").map_or(0.0, |kb| kb as f64 / 1024.0)
}

/// Largest resident memory that this process has had, in MB.
pub fn own_peak_mb() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM:").map(|kb| kb / 1024)
}

fn kilobytes(path: &str, field: &str) -> Option<u64> {
    let status = read_to_string(path).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}
