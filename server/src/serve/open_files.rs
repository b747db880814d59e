//! The limit of open files: each connection is one, and too few would stop the service under load.

/// Open files besides connections: the database, models, recordings at work, outbound requests.
const RESERVED: u64 = 256;

/// A listener with fewer connections is of no use.
pub const LEAST_CONNECTIONS: usize = 16;

/// The open files that `listeners` with so many connections each need.
pub fn needed(listeners: usize, connections: usize) -> u64 {
    RESERVED.saturating_add((listeners as u64).saturating_mul(connections as u64))
}

/// The highest limit of open files that this process may set; none if there is none.
pub fn highest() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    #[cfg(not(unix))]
    None
}

/// Raises the process's limit of open files as far as `listeners` with `max_connections` each need it. Returns the
/// connections that a listener may have.
///
/// # Errors
/// If the system allows too few for any service.
pub fn reserve(listeners: usize, max_connections: usize) -> Result<usize, String> {
    let needed = needed(listeners, max_connections);
    let Some(limit) = raise(needed) else { return Ok(max_connections) };
    if limit >= needed {
        return Ok(max_connections);
    }
    let possible = limit.saturating_sub(RESERVED) / listeners as u64;
    if possible < LEAST_CONNECTIONS as u64 {
        let least = self::needed(listeners, LEAST_CONNECTIONS);
        return Err(format!(
            "the system allows {limit} open files, and the service needs {least} at least; raise the limit \
             (ulimit -n, or LimitNOFILE= of systemd)"
        ));
    }
    tracing::warn!(
        "the system allows {limit} open files: each listener takes {possible} connections instead of {max_connections}. Raise the limit \
         to {needed} (ulimit -n, or LimitNOFILE= of systemd), or lower max_connections"
    );
    Ok(usize::try_from(possible).unwrap_or(max_connections))
}

/// Raises the limit towards `needed`, as far as the system lets. Returns the limit; none if there is none.
#[cfg(unix)]
fn raise(needed: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    if current >= needed {
        return Some(current);
    }
    let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }) {
        Ok(()) => Some(raised.max(current)),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            Some(current)
        }
    }
}

#[cfg(not(unix))]
fn raise(_: u64) -> Option<u64> {
    None
}
