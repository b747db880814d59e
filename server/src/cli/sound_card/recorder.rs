//! Records the default microphone.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};

use auricle_engine::audio::RateConversion;
use tokio::sync::mpsc;

use super::{Input, LONGEST_STALL};
use crate::cli::{Failure, Result};

/// Buffers of the device that wait for the reader. It is later only on an overloaded machine.
const MOST_WAITING: usize = 50;

/// The default microphone.
pub struct Recorder {
    conversion: RateConversion,
    samples: Receiver<Vec<f32>>,
    input: Input,
}

impl Recorder {
    /// Opens the default microphone for samples of `rate` hertz.
    ///
    /// # Errors
    /// [`Failure::Service`] if there is none, or if it cannot be used.
    pub fn open(rate: u32) -> Result<Self> {
        let (give, samples) = sync_channel(MOST_WAITING);
        // The device's thread must not wait: without room the samples are lost.
        let (input, device_rate) = Input::open(rate, move |heard| _ = give.try_send(heard.to_vec()))?;
        Ok(Self { conversion: RateConversion::new(rate, device_rate)?, samples, input })
    }

    /// Records pieces of `piece` samples until nobody takes them. A piece that finds no room is dropped: sound is never late.
    pub fn record(self, piece: usize, to: mpsc::Sender<Vec<i16>>) -> JoinHandle<Result<()>> {
        thread::spawn(move || self.run(piece, &to))
    }

    fn run(mut self, piece: usize, to: &mpsc::Sender<Vec<i16>>) -> Result<()> {
        // Sound that was heard since the device was opened is old.
        let _ = self.samples.try_iter().count();
        let mut waiting = Vec::new();
        while !to.is_closed() {
            let heard = self.samples.recv_timeout(LONGEST_STALL).map_err(|error| {
                self.input.check().err().unwrap_or_else(|| match error {
                    RecvTimeoutError::Timeout => Failure::Service("the microphone gives no sound".into()),
                    RecvTimeoutError::Disconnected => Failure::Service("the microphone is gone".into()),
                })
            })?;
            let heard = self.conversion.push(&heard)?;
            waiting.extend(heard.into_iter().map(|sample| (sample * 32_768.0).round() as i16));
            while waiting.len() >= piece {
                let rest = waiting.split_off(piece);
                let _ = to.try_send(std::mem::replace(&mut waiting, rest));
            }
        }
        Ok(())
    }
}
