//! The default devices of a PulseAudio server, or of PipeWire, which speaks its protocol. The server converts rates and formats.

use std::ffi::CStr;
use std::fmt::Display;
use std::os::unix::net::UnixStream;

use pulseaudio::protocol::stream::{BufferAttr, StreamFlags};
use pulseaudio::protocol::{
    ChannelMap, DEFAULT_SINK, DEFAULT_SOURCE, PlaybackStreamParams, RecordStreamParams, SampleFormat, SampleSpec,
};
use pulseaudio::{
    AsPlaybackSource as _, Client, ClientError, PlaybackStream, RecordStream, cookie_path_from_env,
    socket_path_from_env,
};
use tokio::runtime::Runtime;

use super::BUFFER;
use super::player::Source;
use crate::cli::{Failure, Result};

/// The program's name in the server's mixer.
const NAME: &CStr = c"auricle";
/// Length of a server's cookie.
const COOKIE_BYTES: usize = 256;
const SAMPLE_BYTES: usize = size_of::<f32>();
/// Buffers that the server holds ahead.
const BUFFERS_AHEAD: u32 = 3;

/// The default sink, which plays until it is dropped.
pub struct Output {
    runtime: Runtime,
    stream: PlaybackStream,
}

impl Output {
    /// Plays what `source`, made for the device's rate, gives. The rate that is asked for is `rate` hertz.
    ///
    /// # Errors
    /// [`Failure::Service`] if the device cannot be used.
    pub fn open(rate: u32, source: impl FnOnce(u32) -> Source) -> Result<Self> {
        let (runtime, client) = connect("loudspeaker")?;
        let buffer = buffer_bytes(rate);
        let params = PlaybackStreamParams {
            sample_spec: sample_spec(rate),
            channel_map: ChannelMap::mono(),
            sink_name: Some(DEFAULT_SINK.to_owned()),
            buffer_attr: BufferAttr {
                target_length: BUFFERS_AHEAD * buffer,
                minimum_request_length: buffer,
                ..Default::default()
            },
            flags: StreamFlags { adjust_latency: true, ..Default::default() },
            ..Default::default()
        };
        let mut source = source(rate);
        let mut samples = Vec::new();
        let fill = move |bytes: &mut [u8]| {
            samples.resize(bytes.len() / SAMPLE_BYTES, 0.0f32);
            let filled = source.fill(&mut samples);
            for (out, sample) in bytes.chunks_exact_mut(SAMPLE_BYTES).zip(&samples[..filled]) {
                out.copy_from_slice(&sample.to_le_bytes());
            }
            filled * SAMPLE_BYTES
        };
        let stream = runtime.block_on(client.create_playback_stream(params, fill.as_playback_source()));
        Ok(Self { runtime, stream: stream.map_err(|error| failed("loudspeaker", &error))? })
    }

    /// # Errors
    /// None: a stream that ended has dropped its source.
    pub fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Waits until the source has ended and all that it gave is heard.
    ///
    /// # Errors
    /// [`Failure::Service`] if the server ends the stream before.
    pub fn drain(&self) -> Result<()> {
        self.runtime.block_on(self.stream.play_all()).map_err(|error| failed("loudspeaker", &error))
    }
}

/// The default source, which records until it is dropped.
pub struct Input {
    _runtime: Runtime,
    _stream: RecordStream,
}

impl Input {
    /// Gives samples to `take`, those of several channels as their mean, and tells the device's rate. The rate that is asked for is
    /// `rate` hertz.
    ///
    /// # Errors
    /// [`Failure::Service`] if the device cannot be used.
    pub fn open(rate: u32, mut take: impl FnMut(&[f32]) + Send + 'static) -> Result<(Self, u32)> {
        let (runtime, client) = connect("microphone")?;
        let params = RecordStreamParams {
            sample_spec: sample_spec(rate),
            channel_map: ChannelMap::mono(),
            source_name: Some(DEFAULT_SOURCE.to_owned()),
            buffer_attr: BufferAttr { fragment_size: buffer_bytes(rate), ..Default::default() },
            flags: StreamFlags { adjust_latency: true, ..Default::default() },
            ..Default::default()
        };
        let mut samples = Vec::new();
        let sink = move |bytes: &[u8]| {
            let values = bytes.chunks_exact(SAMPLE_BYTES).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            samples.clear();
            samples.extend(values);
            take(&samples);
        };
        let stream = runtime.block_on(client.create_record_stream(params, sink));
        let stream = stream.map_err(|error| failed("microphone", &error))?;
        Ok((Self { _runtime: runtime, _stream: stream }, rate))
    }

    /// # Errors
    /// None: a stream that ended has dropped what it gave its samples to.
    pub fn check(&self) -> Result<()> {
        Ok(())
    }
}

fn sample_spec(rate: u32) -> SampleSpec {
    SampleSpec { format: SampleFormat::Float32Le, channels: 1, sample_rate: rate }
}

fn buffer_bytes(rate: u32) -> u32 {
    rate * BUFFER.as_millis() as u32 / 1_000 * SAMPLE_BYTES as u32
}

/// A connection to the user's server. Its replies are waited for on the runtime.
fn connect(device: &str) -> Result<(Runtime, Client)> {
    let unavailable = || failed(device, &ClientError::ServerUnavailable);
    let socket = socket_path_from_env().ok_or_else(unavailable)?;
    let socket = UnixStream::connect(socket).map_err(|error| failed(device, &error))?;
    // A server that lets everyone in wants a cookie of the right length all the same, and who has played nothing yet has none.
    let cookie = cookie_path_from_env().and_then(|path| std::fs::read(path).ok());
    let cookie = cookie.unwrap_or_else(|| vec![0; COOKIE_BYTES]);
    let client = Client::new_unix(NAME, socket, Some(cookie)).map_err(|error| failed(device, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    Ok((runtime.map_err(|error| Failure::Service(format!("no threads: {error}")))?, client))
}

fn failed(device: &str, error: &dyn Display) -> Failure {
    Failure::Service(format!("the {device} cannot be used: {error}"))
}
