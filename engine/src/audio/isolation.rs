//! Starts a program without network where the kernel lets, in two ways that do not need each other:
//!
//! - In a network namespace of its own, which has no way out. The namespace is made by the program `unshare` of util-linux, because
//!   a safe call for it does not exist. Default rules of some containers forbid it.
//! - Without the right to open a socket: a seccomp filter has the kernel refuse the system calls. Any user may set it.

use std::path::Path;
use std::process::{Child, Command};

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

/// Starts a command that can open no socket where that is possible, nor can the programs that it starts.
///
/// # Errors
/// Those of [`Command::spawn`], and of starting a thread.
pub(super) fn spawn(command: &mut Command) -> std::io::Result<Child> {
    #[cfg(target_os = "linux")]
    if let Some(filter) = linux::filter() {
        return linux::spawn_with(filter, command);
    }
    command.spawn()
}

/// True if programs are started without network.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn is_possible() -> bool {
    linux::isolation().is_some()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{Error, Result};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::sync::OnceLock;
    use std::thread;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

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
    /// The system calls that open a socket. A ring of io_uring opens sockets past the filter.
    const SOCKET_CALLS: [i64; 2] = [libc::SYS_socket, libc::SYS_io_uring_setup];
    /// The same calls by the numbers of programs with 32-bit addresses on x86-64, which some kernels know.
    #[cfg(target_arch = "x86_64")]
    const X32_BIT: i64 = 0x4000_0000;
    #[cfg(not(target_arch = "x86_64"))]
    const X32_BIT: i64 = 0;

    /// The filter under which a program opens no socket. None if the kernel or the processor has no filters.
    pub(super) fn filter() -> Option<&'static BpfProgram> {
        static FOUND: OnceLock<Option<BpfProgram>> = OnceLock::new();
        let works = |filter: &BpfProgram| {
            thread::scope(|threads| {
                let attempt = thread::Builder::new().spawn_scoped(threads, || apply_filter(filter).is_ok());
                attempt.is_ok_and(|attempt| attempt.join().unwrap_or(false))
            })
        };
        FOUND.get_or_init(|| build_filter().filter(works)).as_ref()
    }

    fn build_filter() -> Option<BpfProgram> {
        let numbers = SOCKET_CALLS.iter().flat_map(|number| [*number, *number | X32_BIT]);
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
        let rules = numbers.map(|number| (number, Vec::new())).collect();
        SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).ok()?.try_into().ok()
    }

    /// Starts the command on a thread of its own: a filter holds for its thread until that ends, and for the processes that it starts.
    pub(super) fn spawn_with(filter: &BpfProgram, command: &mut Command) -> Result<Child> {
        let start = || apply_filter(filter).map_err(Error::other).and_then(|()| command.spawn());
        thread::scope(|threads| {
            let started = thread::Builder::new().name("spawn".into()).spawn_scoped(threads, start)?;
            started.join().unwrap_or_else(|_| Err(Error::other("the thread that starts it has failed")))
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;
    use std::process::Stdio;

    use super::*;

    /// What a command has written, as text, or none if it is not there.
    fn said(command: &mut Command) -> Option<String> {
        let child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let Ok(child) = child else {
            println!("skipped: no such program here");
            return None;
        };
        Some(child.wait_with_output().map_or_else(
            |error| format!("it cannot be read: {error}"),
            |output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        ))
    }

    #[test]
    fn a_program_opens_no_socket() {
        if linux::filter().is_none() {
            println!("skipped: the kernel has no seccomp filters");
            return;
        }
        // A socket of each family, a ring, and the number of socket(2) for 32-bit addresses.
        let program = "print socket(my $a, 2, 1, 0) ? 0 : $! + 0, ' ', socket(my $b, 10, 2, 0) ? 0 : $! + 0, ' ';
            my $ring = \"\\0\" x 120; print syscall(425, 8, $ring) < 0 ? $! + 0 : 0;
            print ' ', syscall(0x40000029, 2, 1, 0) < 0 ? $! + 0 : 0 if $ARGV[0] eq 'x86_64';";
        let expected = if cfg!(target_arch = "x86_64") { "1 1 1 1" } else { "1 1 1" };
        // In the namespace and, as where that is forbidden, without.
        for mut command in [command(Path::new("/usr/bin/perl")), Command::new("/usr/bin/perl")] {
            let Some(said) = said(command.args(["-e", program, std::env::consts::ARCH]).env_clear()) else { return };
            assert_eq!(said, expected, "EPERM is 1");
        }
        // The thread that calls may still open sockets.
        TcpListener::bind("127.0.0.1:0").unwrap();
    }

    /// The playlist names an address, and `ffmpeg` may open playlists and addresses, as if the bounds of its command line had failed.
    #[test]
    fn a_playlist_reaches_no_address() {
        if linux::filter().is_none() {
            println!("skipped: the kernel has no seccomp filters");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let reached = || listener.accept().is_ok();
        let folder = tempfile::tempdir().unwrap();
        let playlist = folder.path().join("a.m3u8");
        let address = listener.local_addr().unwrap();
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nhttp://{address}/a.ts\n#EXT-X-ENDLIST\n");
        std::fs::write(&playlist, text).unwrap();
        let arguments = |command: &mut Command| {
            command.args(["-nostdin", "-rw_timeout", "500000", "-protocol_whitelist", "file,http,tcp,pipe"]);
            command.args(["-allowed_extensions", "ALL", "-i"]).arg(&playlist).args(["-f", "null", "-"]);
        };
        let mut free = Command::new("ffmpeg");
        arguments(&mut free);
        if free.stdin(Stdio::null()).output().is_err() {
            println!("skipped: no ffmpeg here");
            return;
        }
        assert!(reached(), "without bounds it connects");
        while reached() {}
        for mut command in [command(Path::new("ffmpeg")), Command::new("ffmpeg")] {
            arguments(&mut command);
            let said = said(&mut command).unwrap();
            assert!(said.contains("Operation not permitted") && !reached(), "{said}");
        }
    }
}
