//! Starts a program without network where the kernel lets: in a network namespace of its own, which has no way out. The
//! namespace is made by the program `unshare` of util-linux, because a safe call for it does not exist.

use std::path::Path;
use std::process::Command;

/// The command of a program, without network where that is possible.
pub(super) fn command(program: &Path) -> Command {
    #[cfg(target_os = "linux")]
    if let Some(isolation) = linux::isolation() {
        let mut command = Command::new(&isolation.unshare);
        command.args(isolation.flags).arg("--").arg(program);
        return command;
    }
    Command::new(program)
}

/// True if programs are started without network.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn is_possible() -> bool {
    linux::isolation().is_some()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::sync::OnceLock;

    pub(super) struct Isolation {
        pub(super) unshare: PathBuf,
        pub(super) flags: &'static [&'static str],
    }

    /// A user namespace lets other users than root make a network namespace, and takes root's rights from the program.
    /// Root may do without it, if it is forbidden.
    const FLAGS: [&[&str]; 2] = [&["--user", "--map-current-user", "--net"], &["--net"]];

    /// How to start a program without network. None if the kernel or the system does not let.
    pub(super) fn isolation() -> Option<&'static Isolation> {
        static FOUND: OnceLock<Option<Isolation>> = OnceLock::new();
        FOUND.get_or_init(find).as_ref()
    }

    fn find() -> Option<Isolation> {
        let path = std::env::var_os("PATH")?;
        let unshare = std::env::split_paths(&path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("unshare"))
            .find(|program| program.is_file())?;
        let works = |flags: &&&[&str]| {
            let mut attempt = Command::new(&unshare);
            attempt.args(**flags).arg("--").arg(&unshare).arg("--version").env_clear();
            attempt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            attempt.status().is_ok_and(|status| status.success())
        };
        let flags = FLAGS.iter().find(works)?;
        Some(Isolation { unshare, flags })
    }
}
