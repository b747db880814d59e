//! A voice that says a clause at once: Kokoro, with the phones of the text front end.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use super::phrase::{PhonePhrase, Symbols, phrases};
use crate::error::Result;
use crate::models::bert::G2p;
use crate::models::kokoro::{self, Kokoro, Spoken};
use crate::text::speech::{Clause, GraphemeToPhoneme, Phone, Pronouncer};

/// The model.
pub struct ClauseVoice {
    /// Symbols to samples.
    pub model: Kokoro,
    pronouncer: Pronouncer,
}

impl Symbols for Kokoro {
    fn most(&self) -> usize {
        self.most_symbols()
    }

    fn edge(&self) -> usize {
        kokoro::SILENCE
    }

    fn word(&self, word: &str, phones: &[Phone]) -> Vec<usize> {
        self.symbols().word(word, phones)
    }

    fn mark(&self, mark: &str) -> Option<usize> {
        self.symbols().mark(mark)
    }

    fn gap(&self) -> Option<usize> {
        Some(self.symbols().gap())
    }

    fn end(&self) -> Option<usize> {
        Some(kokoro::SILENCE)
    }
}

impl ClauseVoice {
    /// Loads a folder. Words outside the dictionary are read by the G2P model of its folder `g2p`, else by that of another voice; without
    /// either they are spelled.
    ///
    /// # Errors
    /// As [`Kokoro::load`] and [`G2p::load`].
    pub fn load(dir: &Path, device: &Device, precision: Precision, other_g2p: Option<&Path>) -> Result<Self> {
        let own = dir.join("g2p");
        let g2p = if own.is_dir() { Some(own.as_path()) } else { other_g2p };
        let g2p =
            g2p.map(|dir| G2p::load(dir).map(|model| Arc::new(model) as Arc<dyn GraphemeToPhoneme>)).transpose()?;
        Ok(Self { model: Kokoro::load(dir, device, precision)?, pronouncer: Pronouncer::new(g2p) })
    }

    /// The phrases of a clause; `written` gives the text of a range.
    ///
    /// # Errors
    /// As [`Pronouncer::phones`].
    pub fn phrases(&self, clause: &Clause, written: impl Fn(Range<usize>) -> String) -> Result<Vec<PhonePhrase>> {
        Ok(phrases(clause, &self.pronouncer.phones(clause)?, &self.model, written))
    }

    /// All samples of a phrase.
    ///
    /// # Errors
    /// As [`Kokoro::start`].
    pub fn say(&self, phrase: &PhonePhrase, voice: usize) -> Result<Vec<f32>> {
        let mut utterance = self.model.start(voice, &phrase.symbols, 1.0)?;
        loop {
            match self.model.advance(&utterance)? {
                Spoken::Unfinished(next) => utterance = next,
                Spoken::Samples(samples) => return Ok(samples),
            }
        }
    }
}
