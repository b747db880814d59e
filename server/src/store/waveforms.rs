//! How loud recordings are over time, for the player of their transcript's page.

use sqlx::Row as _;

use super::{Result, Store, Tx};
use crate::ids::TranscriptId;

/// The loudness of a recording over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waveform {
    /// The length of a level, ms.
    pub level_ms: i64,
    /// From 0 to [`LOUDEST`].
    pub levels: Vec<u8>,
}

/// The highest level.
pub const LOUDEST: u8 = 63;

/// The character of level 0. Those of the others follow in ASCII.
const SILENCE: u8 = b'0';

impl Store {
    /// The waveform of a transcript, if it has one.
    pub async fn waveform(&self, transcript: &TranscriptId) -> Result<Option<Waveform>> {
        let row = sqlx::query("SELECT level_ms, levels FROM waveforms WHERE transcript_id = $1")
            .bind(transcript.as_str())
            .fetch_optional(&self.read)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let levels: String = row.try_get("levels")?;
        let levels = levels.bytes().map(|level| level.saturating_sub(SILENCE).min(LOUDEST)).collect();
        Ok(Some(Waveform { level_ms: row.try_get("level_ms")?, levels }))
    }
}

/// Keeps the waveform of a transcript that ends.
pub(super) async fn keep(tx: &mut Tx, transcript: &TranscriptId, waveform: &Waveform) -> Result<()> {
    let levels: String = waveform.levels.iter().map(|level| char::from(SILENCE + level.min(&LOUDEST))).collect();
    sqlx::query("INSERT INTO waveforms (transcript_id, level_ms, levels) VALUES ($1, $2, $3)")
        .bind(transcript.as_str())
        .bind(waveform.level_ms)
        .bind(levels)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
