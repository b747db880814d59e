//! The windows of a recording, cut at silence as the audio is decoded.

use crate::audio::AudioStream;
use crate::error::Result;
use crate::vad::chunker::Chunker;
use crate::vad::window::Window;

/// Reads a recording and cuts it into windows.
pub struct WindowReader<'a> {
    audio: &'a mut AudioStream,
    chunker: Chunker,
    ended: bool,
}

impl<'a> WindowReader<'a> {
    pub fn new(audio: &'a mut AudioStream, chunker: Chunker) -> Self {
        Self { audio, chunker, ended: false }
    }

    /// True when the last windows have been read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Decodes one block of audio: the windows that end in it, often none.
    ///
    /// # Errors
    /// Errors of decoding and of the detector.
    pub fn read(&mut self) -> Result<Vec<Window>> {
        match self.audio.next_block()? {
            Some(block) => self.chunker.push(&block),
            None => {
                self.ended = true;
                self.chunker.finish()
            }
        }
    }
}
