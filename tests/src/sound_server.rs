//! A sound server with an imaginary loudspeaker and an imaginary microphone, both in real time.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::service::eventually;

/// A running PulseAudio. Its sink `ear` is the default loudspeaker; what is played to its sink `mouth` is the default microphone.
pub struct SoundServer {
    folder: TempDir,
    server: Child,
}

/// A recording of the loudspeaker that is going on.
pub struct Recording(Child);

impl SoundServer {
    /// Starts one; none if PulseAudio is not installed.
    pub fn start() -> Option<Self> {
        let folder = TempDir::new().expect("a folder");
        let mut command = Command::new("pulseaudio");
        command.args(["-n", "--daemonize=no", "--exit-idle-time=-1", "--log-target=stderr"]);
        let socket = folder.path().join("socket");
        for module in [
            &format!("module-native-protocol-unix auth-anonymous=1 socket={}", socket.display()),
            "module-null-sink sink_name=ear",
            "module-null-sink sink_name=mouth",
        ] {
            command.args(["-L", module]);
        }
        // Its files are its own, for every user who runs the tests.
        command.env("XDG_RUNTIME_DIR", folder.path()).env("HOME", folder.path()).env_remove("PULSE_SERVER");
        let server = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().ok()?;
        let server = Self { folder, server };
        eventually("the sound server answers", || {
            server.client("pactl", &["info"]).status().is_ok_and(|status| status.success()).then_some(())
        });
        for default in [["set-default-sink", "ear"], ["set-default-source", "mouth.monitor"]] {
            assert!(server.client("pactl", &default).status().is_ok_and(|status| status.success()), "{default:?}");
        }
        Some(server)
    }

    /// The socket that clients find by `PULSE_SERVER`.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("PULSE_SERVER", self.address()).env("HOME", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Records what the loudspeaker plays into the file.
    pub fn record(&self, file: &Path) -> Recording {
        let args = ["-d", "ear.monitor", "--rate=16000", "--channels=1", "--file-format=wav", "--latency-msec=20"];
        let recorder = self.client("parecord", &args).arg(file).spawn().expect("parecord starts");
        // It is written in blocks: the first shows that it runs.
        eventually("the recording begins", || std::fs::metadata(file).ok().filter(|file| file.len() > 44));
        Recording(recorder)
    }

    /// Plays samples of 16 kHz to the microphone, in real time; returns at their end.
    pub fn speak(&self, samples: &[i16]) {
        let file = self.folder.path().join("spoken.raw");
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        std::fs::write(&file, bytes).expect("the samples are written");
        let args = ["-d", "mouth", "--raw", "--rate=16000", "--channels=1", "--format=s16le"];
        assert!(self.client("paplay", &args).arg(&file).status().is_ok_and(|status| status.success()));
    }

    /// Ends the server, as if it crashed.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Drop for SoundServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Recording {
    /// Ends the recording.
    pub fn stop(mut self) {
        // SIGTERM: the file's header is written.
        let ended = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(ended.is_ok_and(|status| status.success()));
        let _ = self.0.wait();
    }
}
