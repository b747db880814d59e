//! The data folder. It holds secrets, transcripts and recordings, so the service's user alone may read it.

use std::path::Path;

/// Creates the folder, and takes the rights of all other users away from it and from new files of this process.
///
/// # Errors
/// One line, if the folder cannot be created.
pub fn prepare(data: &Path) -> Result<(), String> {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    std::fs::create_dir_all(data)
        .map_err(|error| format!("cannot make the data folder {}: {error}", data.display()))?;
    #[cfg(unix)]
    if let Err(error) = make_private(data) {
        tracing::warn!("other users may be able to read the data folder {}: {error}", data.display());
    }
    Ok(())
}

/// Corrects the rights of a folder that an older version or another program has created. What lies in its folders
/// cannot be reached from outside.
#[cfg(unix)]
fn make_private(data: &Path) -> std::io::Result<()> {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    set_permissions(data, Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(data)? {
        let entry = entry?;
        let file_type = entry.file_type()?;
        if file_type.is_dir() {
            set_permissions(entry.path(), Permissions::from_mode(0o700))?;
        } else if file_type.is_file() {
            set_permissions(entry.path(), Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}
