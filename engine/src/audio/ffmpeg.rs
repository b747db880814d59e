//! Decoding with an `ffmpeg` process, for formats that symphonia lacks.
//!
//! The process is confined, because its input comes from untrusted users and `ffmpeg` is two million lines of C. The
//! demuxer is fixed (no playlist can open other files or addresses), the only protocol is the pipe (or the one file),
//! the environment is empty, there is no terminal and one thread, and on Linux the kernel limits memory and CPU time
//! and forbids writing files. It opens no socket and has no network, where the kernel lets. The process is killed when it
//! stalls and when its decoder is dropped.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::container::Container;
use super::input::InputFile;
use super::mono::Mixer;
use super::timeline::{LEAST_LEAD_S, LONGEST_S};
use super::{Ffmpeg, MAX_CHANNELS, isolation, mpeg};
use crate::error::{Error, Result};

/// Longest time that the process may write nothing while its output is awaited.
const STALL: Duration = Duration::from_secs(60);

/// Bytes in one message from the reading thread: 1.4 s of 48 kHz mono.
const CHUNK: usize = 256 * 1024;

/// Messages that may wait. When they are not read, the process blocks on its full pipe.
const CHUNKS_AHEAD: usize = 4;

/// Lines of standard error that are kept, and how long one may be.
const LINES: usize = 8;
const LINE: usize = 400;

/// A running `ffmpeg`. It writes AU with 32-bit float samples: the simplest format that states rate and channels and
/// needs no length. It neither mixes nor resamples, so its audio is treated like symphonia's and channels are averaged.
pub(super) struct FfmpegDecoder {
    child: Child,
    chunks: Receiver<std::io::Result<Vec<u8>>>,
    messages: Arc<Mutex<ProcessMessages>>,
    /// Reads the messages. It ends with the process.
    reader: Option<thread::JoinHandle<()>>,
    name: String,
    stall: Duration,
    header: Option<AuHeader>,
    /// Output not yet used: an incomplete header or frame.
    carried: Vec<u8>,
    mixer: Mixer,
    frames: u64,
    ended: bool,
    warnings: Vec<String>,
    // Deletes a temporary copy when the process is gone.
    _file: InputFile,
}

/// The header of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AuHeader {
    /// Of the header, in bytes.
    length: usize,
    rate: u32,
    channels: usize,
}

/// Messages from standard error.
#[derive(Debug, Default)]
struct ProcessMessages {
    /// The last error lines.
    errors: VecDeque<String>,
    /// Number of error lines.
    count: u64,
    duration_s: Option<f64>,
}

/// The program to run, if there is one.
pub(super) fn locate(ffmpeg: &Ffmpeg) -> Option<PathBuf> {
    match ffmpeg {
        Ffmpeg::Never => None,
        Ffmpeg::At(program) => Some(program.clone()).filter(|program| program.is_file()),
        Ffmpeg::Find => match std::env::var_os("AURICLE_FFMPEG").filter(|program| !program.is_empty()) {
            // A configured program that does not exist is an error; no other is used instead.
            Some(program) => Some(PathBuf::from(program)).filter(|program| program.is_file()),
            None => {
                let file = format!("ffmpeg{}", std::env::consts::EXE_SUFFIX);
                let path = std::env::var_os("PATH")?;
                std::env::split_paths(&path)
                    .filter(|folder| folder.is_absolute())
                    .map(|folder| folder.join(&file))
                    .find(|program| program.is_file())
            }
        },
    }
}

impl FfmpegDecoder {
    /// # Errors
    /// [`Error::Ffmpeg`] if the process cannot be started.
    pub(super) fn start(
        program: &Path,
        file: InputFile,
        container: Container,
        name: &str,
        track: Option<usize>,
    ) -> Result<Self> {
        Self::start_with(program, file, container, name, track, STALL)
    }

    /// Takes one channel alone, counted from 0. Before the first chunk.
    pub(super) fn with_channel(mut self, only: Option<usize>) -> Self {
        self.mixer = Mixer::of(only);
        self
    }

    /// Number of channels, after the first chunk.
    pub(super) fn channels(&self) -> usize {
        self.mixer.channels()
    }

    fn start_with(
        program: &Path,
        file: InputFile,
        container: Container,
        name: &str,
        track: Option<usize>,
        stall: Duration,
    ) -> Result<Self> {
        let failed = |error: std::io::Error| Error::Ffmpeg(format!("{} cannot be started: {error}", program.display()));
        let mut command = isolation::command(program);
        command.env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+info"]);
        command.args(["-threads", "1", "-f", container.ffmpeg_demuxer()]);
        if container.needs_seek() {
            // A pipe cannot be sought, so ffmpeg opens the file itself. The demuxer is fixed, and that of MP4 follows
            // references to other files only with `-enable_drefs`, so "file" opens this file and no other.
            let mut url = OsString::from("file:");
            url.push(&file.path);
            command.args(["-protocol_whitelist", "file,pipe", "-i"]).arg(url).stdin(Stdio::null());
        } else {
            let stdin = File::open(&file.path).map_err(|error| super::unreadable(name, &error))?;
            command.args(["-protocol_whitelist", "pipe", "-i", "pipe:0"]).stdin(stdin);
        }
        command.args(["-vn", "-sn", "-dn", "-map_metadata", "-1", "-filter_threads", "1"]);
        if let Some(track) = track {
            command.args(["-map", &format!("0:a:{track}")]);
        }
        // Gaps in the timestamps are filled with silence, and so is the time before sound that begins later than the picture. Less is the
        // delay of a decoder, and more is a wrong clock.
        // The time of MPEG streams begins with the sound.
        let late = match mpeg::lead_s(&file.path, container) {
            Some(lead_s) if (LEAST_LEAD_S..=LONGEST_S).contains(&lead_s) => {
                format!("asetpts=PTS-STARTPTS+{lead_s:.6}/TB")
            }
            _ => format!("asetpts=PTS-if(between(STARTT\\,{LEAST_LEAD_S}\\,{LONGEST_S})\\,0\\,STARTPTS)"),
        };
        command.args(["-af", &format!("{late},aresample=async=1:first_pts=0")]);
        command.args(["-c:a", "pcm_f32be", "-f", "au", "pipe:1"]);
        let mut child = isolation::spawn(&mut command).map_err(failed)?;
        if let Err(error) = confine(&child, file.length) {
            stop(&mut child);
            return Err(failed(error));
        }
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        let messages = Arc::new(Mutex::new(ProcessMessages::default()));
        // Threads, because the standard library can wait neither for two pipes at once nor with a timeout. They end
        // with the process, or when the receiver of their chunks is dropped.
        let started = match (child.stdout.take(), child.stderr.take()) {
            (Some(stdout), Some(stderr)) => {
                let messages = Arc::clone(&messages);
                let reads =
                    thread::Builder::new().name("ffmpeg-out".into()).spawn(move || forward_output(stdout, &sender));
                reads.and_then(|_| {
                    thread::Builder::new().name("ffmpeg-err".into()).spawn(move || read_messages(stderr, &messages))
                })
            }
            _ => Err(std::io::Error::other("it has no output")),
        };
        let reader = match started {
            Ok(reader) => Some(reader),
            Err(error) => {
                stop(&mut child);
                return Err(failed(error));
            }
        };
        Ok(Self {
            child,
            chunks,
            messages,
            reader,
            name: name.to_owned(),
            stall,
            header: None,
            carried: Vec::new(),
            mixer: Mixer::default(),
            frames: 0,
            ended: false,
            warnings: Vec::new(),
            _file: file,
        })
    }

    /// Appends mono samples and returns their rate in hertz, or `None` at the end.
    ///
    /// # Errors
    /// [`Error::Ffmpeg`], [`Error::NoAudioTrack`] or [`Error::UnsupportedMedia`], depending on the messages of the
    /// process.
    pub(super) fn next_chunk(&mut self, out: &mut Vec<f32>) -> Result<Option<u32>> {
        let before = out.len();
        while !self.ended {
            self.receive()?;
            let rate = self.take(out)?;
            if out.len() > before {
                return Ok(rate);
            }
        }
        Ok(None)
    }

    /// Waits for output, or for the end.
    fn receive(&mut self) -> Result<()> {
        match self.chunks.recv_timeout(self.stall) {
            Ok(Ok(bytes)) => {
                self.carried.extend_from_slice(&bytes);
                Ok(())
            }
            Ok(Err(error)) => {
                self.abort();
                Err(Error::Ffmpeg(format!("{}: its output cannot be read: {error}", self.name)))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.abort();
                let seconds = self.stall.as_secs();
                Err(Error::Ffmpeg(format!("{}: no progress for {seconds} s, so it was stopped", self.name)))
            }
            Err(RecvTimeoutError::Disconnected) => self.finish(),
        }
    }

    /// Mixes the whole frames of the buffered output. `None` until its header is complete.
    fn take(&mut self, out: &mut Vec<f32>) -> Result<Option<u32>> {
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(header) = AuHeader::read(&self.carried) else {
                    if self.carried.len() >= CHUNK {
                        self.abort();
                        return Err(Error::Ffmpeg(format!(
                            "{}: its output has another format than requested",
                            self.name
                        )));
                    }
                    return Ok(None);
                };
                if header.channels > MAX_CHANNELS {
                    self.abort();
                    return Err(Error::UnsupportedMedia(format!(
                        "{} has {} channels; at most {MAX_CHANNELS} can be mixed",
                        self.name, header.channels
                    )));
                }
                self.carried.drain(..header.length);
                *self.header.insert(header)
            }
        };
        let frame = header.channels * 4;
        let whole = self.carried.len() - self.carried.len() % frame;
        let samples = self.carried[..whole].as_chunks::<4>().0;
        let samples: Vec<f32> = samples.iter().map(|bytes| f32::from_be_bytes(*bytes)).collect();
        self.mixer.mix(&samples, header.channels, header.rate, out);
        self.carried.drain(..whole);
        self.frames += (whole / frame) as u64;
        Ok(Some(header.rate))
    }

    pub(super) fn duration_s(&self) -> Option<f64> {
        self.messages().duration_s
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.iter().cloned().chain(self.mixer.warning()).collect()
    }

    /// Checks, after the end of the output, that the process succeeded.
    fn finish(&mut self) -> Result<()> {
        self.ended = true;
        let status = self.child.wait();
        // The last messages may not have been read yet, and they tell what was wrong.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let failed = match &status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let (last, count) = {
            let messages = self.messages();
            (messages.errors.back().cloned(), messages.count)
        };
        if let Some(header) = self.header.filter(|_| self.frames > 0) {
            let seconds = self.frames as f64 / f64::from(header.rate.max(1));
            // The audio decoded so far is kept.
            if let Some(failed) = failed {
                let reason = last.unwrap_or(failed);
                self.warnings.push(format!("decoding stopped at {seconds:.1} s: {reason}"));
            } else if let Some(last) = last {
                self.warnings.push(format!("{count} decoding errors, the last: {last}"));
            }
            return Ok(());
        }
        let messages = self.messages();
        let all = messages.errors.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        if all.contains("does not contain any stream") || all.contains("matches no streams") {
            return Err(Error::NoAudioTrack(format!("{} holds no sound", self.name)));
        }
        if all.contains("Invalid data found") || (failed.is_none() && last.is_none()) {
            return Err(Error::UnsupportedMedia(format!("{} cannot be decoded: it is damaged or cut off", self.name)));
        }
        let reason = last.or(failed).unwrap_or_default();
        Err(Error::Ffmpeg(format!("{}: {reason}", self.name)))
    }

    fn messages(&self) -> std::sync::MutexGuard<'_, ProcessMessages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abort(&mut self) {
        self.ended = true;
        stop(&mut self.child);
    }
}

impl Drop for FfmpegDecoder {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn stop(child: &mut Child) {
    // Both fail only if the process has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// Sets the limits of the process: 2 GiB of memory, CPU time by the size of the input, no files written, no core dump.
#[cfg(target_os = "linux")]
fn confine(child: &Child, input_bytes: u64) -> std::io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    // Two minutes, and one second for 64 KiB: a low-rate AMR file of that size is 2 minutes long.
    let cpu_s = 120 + input_bytes / 65_536;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let limits = [
        (Resource::As, 2 << 30),
        (Resource::Cpu, cpu_s),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nofile, 64),
    ];
    for (resource, limit) in limits {
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        match prlimit(pid, resource, limit) {
            Ok(_) => {}
            // It has ended already.
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Other systems cannot limit another process; the stall timer and the fixed demuxer remain.
#[cfg(not(target_os = "linux"))]
fn confine(_child: &Child, _input_bytes: u64) -> std::io::Result<()> {
    Ok(())
}

impl AuHeader {
    /// Parses the header. `None` if `bytes` do not hold all of it.
    fn read(bytes: &[u8]) -> Option<Self> {
        let field = |at: usize| bytes.get(at..at + 4)?.first_chunk().map(|field| u32::from_be_bytes(*field));
        let (length, rate, channels) = (field(4)? as usize, field(16)?, field(20)? as usize);
        (bytes.starts_with(b".snd") && channels > 0 && length <= bytes.len()).then_some(Self { length, rate, channels })
    }
}

/// Reads the output in chunks until the pipe ends or the receiver is dropped.
fn forward_output(mut stdout: ChildStdout, chunks: &SyncSender<std::io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        let read = stdout.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
        let done = chunk.is_empty() || read.is_err();
        let message = match read {
            Ok(_) if chunk.is_empty() => return,
            Ok(_) => Ok(chunk),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        if chunks.send(message).is_err() || done {
            return;
        }
    }
}

/// Keeps the last errors and the duration from the messages of `ffmpeg`, in bounded memory.
fn read_messages(stderr: impl Read, messages: &Mutex<ProcessMessages>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match stderr.by_ref().take(LINE as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = error_line(&text) {
            messages.count += 1;
            if messages.errors.len() == LINES {
                messages.errors.pop_front();
            }
            messages.errors.push_back(reason);
        } else if let Some(duration_s) = duration_line(&text) {
            messages.duration_s.get_or_insert(duration_s);
        }
    }
}

/// The message of a line like `[mov,mp4 @ 0x55d] [error] moov atom not found`, without the parts in brackets.
fn error_line(line: &str) -> Option<String> {
    let levels = ["[error] ", "[fatal] ", "[panic] "];
    let message = levels.iter().find_map(|level| line.split_once(level))?.1;
    // Only control characters could break the "one line" of an error message.
    let message: String = message.trim().chars().filter(|c| !c.is_control()).collect();
    (!message.is_empty()).then_some(message)
}

/// Seconds of a line like `[info]   Duration: 00:01:02.50, start: ...`.
fn duration_line(line: &str) -> Option<f64> {
    let time = line.strip_prefix("[info]")?.trim_start().strip_prefix("Duration: ")?.split(',').next()?;
    let mut parts = time.split(':').map(str::parse::<f64>);
    let (Some(Ok(hours)), Some(Ok(minutes)), Some(Ok(seconds)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some(hours * 3_600.0 + minutes * 60.0 + seconds).filter(|seconds| *seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::input::Input;

    fn start(program: &str, stall: Duration) -> Option<FfmpegDecoder> {
        let program = match program {
            "ffmpeg" => locate(&Ffmpeg::Find),
            other => Some(PathBuf::from(other)).filter(|program| program.is_file()),
        };
        let Some(program) = program else {
            println!("skipped: no such program here");
            return None;
        };
        let silence = [b".snd\0\0\0\x18\0\x10\0\0\0\0\0\x03\0\0\x3e\x80\0\0\0\x01".to_vec(), vec![0; 1 << 20]].concat();
        let input = Input::from_source(Box::new(std::io::Cursor::new(silence)), "x").unwrap();
        let file = input.to_file("x").unwrap();
        Some(FfmpegDecoder::start_with(&program, file, Container::Au, "x.au", None, stall).unwrap())
    }

    #[test]
    fn a_process_that_says_nothing_in_time_is_stopped() {
        let Some(mut decoder) = start("ffmpeg", Duration::ZERO) else { return };
        let error = decoder.next_chunk(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no progress") && error.contains("x.au"), "{error}");
        assert!(decoder.child.try_wait().unwrap().is_some(), "still running");
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        let Some(mut decoder) = start("/bin/false", STALL) else { return };
        let error = decoder.next_chunk(&mut Vec::new()).unwrap_err();
        assert!(matches!(&error, Error::Ffmpeg(reason) if reason.contains("exit status: 1")), "{error}");
    }

    #[test]
    fn a_program_that_is_no_ffmpeg_does_no_harm() {
        // It writes text without end, which must not fill memory.
        let Some(mut decoder) = start("/usr/bin/yes", STALL) else { return };
        let error = decoder.next_chunk(&mut Vec::new()).unwrap_err();
        assert!(matches!(&error, Error::Ffmpeg(_)), "{error}");
        assert!(decoder.child.try_wait().unwrap().is_some(), "still running");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_is_confined_and_gone_when_dropped() {
        let Some(mut decoder) = start("ffmpeg", STALL) else { return };
        decoder.next_chunk(&mut Vec::new()).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", decoder.child.id()));
        let limits = std::fs::read_to_string(proc.join("limits")).unwrap();
        let limit = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!(limit("Max address space"), (2_u64 << 30).to_string());
        assert_eq!(limit("Max file size"), "0");
        assert_eq!(limit("Max cpu time"), "136");
        assert!(std::fs::read(proc.join("environ")).unwrap().is_empty());
        if isolation::is_possible() {
            let devices = std::fs::read_to_string(proc.join("net/dev")).unwrap();
            let names: Vec<&str> = devices.lines().skip(2).filter_map(|line| line.split(':').next()).collect();
            assert!(names.iter().all(|name| name.trim() == "lo"), "{names:?}");
        } else {
            println!("skipped: no network namespaces here");
        }
        drop(decoder);
        assert!(!proc.exists());
    }

    #[test]
    fn the_last_error_is_kept_and_the_rest_is_bounded() {
        let messages = Mutex::new(ProcessMessages::default());
        let mut said =
            b"[info]   Duration: 01:02:03.50, start: 0.0\n[mov @ 0x5] [error] moov atom not found\n".to_vec();
        said.extend([b'x'; 100_000]);
        said.extend(b"\n[error] y\n".repeat(100));
        read_messages(&said[..], &messages);
        let messages = messages.into_inner().unwrap();
        assert_eq!((messages.errors.len(), messages.count), (LINES, 101));
        assert_eq!(messages.duration_s, Some(3_723.5));
        assert_eq!(error_line("[mov @ 0x5] [error] moov atom not found\n").unwrap(), "moov atom not found");
    }
}
