//! The default devices of other systems than Linux. They keep their own rates and formats.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cpal::traits::{DeviceTrait as _, HostTrait as _, StreamTrait as _};
use cpal::{
    BufferSize, Error, ErrorKind, FromSample, I24, InputCallbackInfo, OutputCallbackInfo, SampleFormat, SizedSample,
    Stream, StreamConfig, SupportedBufferSize, SupportedStreamConfig,
};

use super::BUFFER;
use super::player::Source;
use crate::cli::{Failure, Result};

/// The default loudspeaker, which plays until it is dropped.
pub struct Output {
    errors: StreamErrors,
    /// From a call of the device until the end of its samples is heard, µs.
    delay_us: Arc<AtomicU64>,
    _stream: Stream,
}

impl Output {
    /// Plays what `source`, made for the device's rate, gives.
    ///
    /// # Errors
    /// [`Failure::Service`] if the device cannot be used.
    pub fn open(_rate: u32, source: impl FnOnce(u32) -> Source) -> Result<Self> {
        let device = cpal::default_host().default_output_device();
        let device = device.ok_or_else(|| Failure::Service("there is no loudspeaker".into()))?;
        let opened = |error: Error| failed("loudspeaker", &error);
        let supported = device.default_output_config().map_err(opened)?;
        let config = stream_config(&supported);
        let (errors, delay_us) = (StreamErrors::default(), Arc::new(AtomicU64::new(0)));
        let (source, delay) = (source(config.sample_rate), delay_us.clone());
        let stream = match supported.sample_format() {
            SampleFormat::F32 => play::<f32>(&device, config, source, delay, &errors),
            SampleFormat::F64 => play::<f64>(&device, config, source, delay, &errors),
            SampleFormat::I16 => play::<i16>(&device, config, source, delay, &errors),
            SampleFormat::I24 => play::<I24>(&device, config, source, delay, &errors),
            SampleFormat::I32 => play::<i32>(&device, config, source, delay, &errors),
            SampleFormat::U8 => play::<u8>(&device, config, source, delay, &errors),
            SampleFormat::U16 => play::<u16>(&device, config, source, delay, &errors),
            format => return Err(Failure::Service(format!("the loudspeaker wants samples of the type {format}"))),
        };
        let stream = stream.map_err(opened)?;
        stream.play().map_err(opened)?;
        Ok(Self { errors, delay_us, _stream: stream })
    }

    /// # Errors
    /// [`Failure::Service`] if the device ended the stream.
    pub fn check(&self) -> Result<()> {
        self.errors.check("loudspeaker")
    }

    /// Waits until all that the source gave, which has ended, is heard.
    ///
    /// # Errors
    /// As [`Output::check`].
    pub fn drain(&self) -> Result<()> {
        thread::sleep(Duration::from_micros(self.delay_us.load(Ordering::Acquire)));
        self.check()
    }
}

/// The default microphone, which records until it is dropped.
pub struct Input {
    errors: StreamErrors,
    _stream: Stream,
}

impl Input {
    /// Gives samples to `take`, those of several channels as their mean, and tells the device's rate.
    ///
    /// # Errors
    /// [`Failure::Service`] if the device cannot be used.
    pub fn open(_rate: u32, take: impl FnMut(&[f32]) + Send + 'static) -> Result<(Self, u32)> {
        let device = cpal::default_host().default_input_device();
        let device = device.ok_or_else(|| Failure::Service("there is no microphone".into()))?;
        let opened = |error: Error| failed("microphone", &error);
        let supported = device.default_input_config().map_err(opened)?;
        let config = stream_config(&supported);
        let errors = StreamErrors::default();
        let stream = match supported.sample_format() {
            SampleFormat::F32 => record::<f32>(&device, config, take, &errors),
            SampleFormat::F64 => record::<f64>(&device, config, take, &errors),
            SampleFormat::I16 => record::<i16>(&device, config, take, &errors),
            SampleFormat::I24 => record::<I24>(&device, config, take, &errors),
            SampleFormat::I32 => record::<i32>(&device, config, take, &errors),
            SampleFormat::U8 => record::<u8>(&device, config, take, &errors),
            SampleFormat::U16 => record::<u16>(&device, config, take, &errors),
            format => return Err(Failure::Service(format!("the microphone gives samples of the type {format}"))),
        };
        let stream = stream.map_err(opened)?;
        stream.play().map_err(opened)?;
        Ok((Self { errors, _stream: stream }, config.sample_rate))
    }

    /// # Errors
    /// [`Failure::Service`] if the device ended the stream.
    pub fn check(&self) -> Result<()> {
        self.errors.check("microphone")
    }
}

fn play<T: SizedSample + FromSample<f32>>(
    device: &cpal::Device,
    config: StreamConfig,
    mut source: Source,
    delay_us: Arc<AtomicU64>,
    errors: &StreamErrors,
) -> Result<Stream, Error> {
    let channels = usize::from(config.channels).max(1);
    let mut samples = Vec::new();
    let fill = move |out: &mut [T], info: &OutputCallbackInfo| {
        samples.clear();
        samples.resize(out.len() / channels, 0.0);
        source.fill(&mut samples);
        for (frame, sample) in out.chunks_mut(channels).zip(&samples) {
            frame.fill(T::from_sample(*sample));
        }
        let until_heard = info.timestamp().playback.duration_since(info.timestamp().callback);
        let length_us = 1_000_000 * samples.len() as u64 / u64::from(config.sample_rate);
        delay_us.store(until_heard.as_micros() as u64 + length_us, Ordering::Release);
    };
    device.build_output_stream(config, fill, errors.handler(), None)
}

fn record<T: SizedSample>(
    device: &cpal::Device,
    config: StreamConfig,
    mut take: impl FnMut(&[f32]) + Send + 'static,
    errors: &StreamErrors,
) -> Result<Stream, Error>
where
    f32: FromSample<T>,
{
    let channels = usize::from(config.channels).max(1);
    let mut samples = Vec::new();
    let give = move |heard: &[T], _: &InputCallbackInfo| {
        let mean = |frame: &[T]| frame.iter().map(|sample| f32::from_sample(*sample)).sum::<f32>() / channels as f32;
        samples.clear();
        samples.extend(heard.chunks(channels).map(mean));
        take(&samples);
    };
    device.build_input_stream(config, give, errors.handler(), None)
}

/// The settings that a device is opened with: its own, with short buffers where it lets us choose.
fn stream_config(supported: &SupportedStreamConfig) -> StreamConfig {
    let mut config = supported.config();
    if let SupportedBufferSize::Range { min, max } = *supported.buffer_size() {
        let frames = config.sample_rate * BUFFER.as_millis() as u32 / 1_000;
        config.buffer_size = BufferSize::Fixed(frames.clamp(min, max.max(min)));
    }
    config
}

/// The error that ended a stream.
#[derive(Clone, Default)]
struct StreamErrors(Arc<Mutex<Option<Error>>>);

impl StreamErrors {
    /// The function that a stream calls with its errors.
    fn handler(&self) -> impl FnMut(Error) + Send + 'static {
        let errors = self.clone();
        move |error: Error| {
            tracing::debug!("sound: {error}");
            // After others the stream goes on.
            use ErrorKind::{DeviceNotAvailable, HostUnavailable, StreamInvalidated};
            if matches!(error.kind(), DeviceNotAvailable | HostUnavailable | StreamInvalidated) {
                errors.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    }

    /// # Errors
    /// The error that ended the stream, as one of `device`.
    fn check(&self, device: &str) -> Result<()> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(failed(device, error)),
            None => Ok(()),
        }
    }
}

fn failed(device: &str, error: &Error) -> Failure {
    Failure::Service(format!("the {device} cannot be used: {error}"))
}
