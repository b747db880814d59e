//! Recordings that tests make up.

/// A WAV file of 8 kHz mono samples of one byte: `seconds` of silence, to the millisecond.
pub fn silence(seconds: f64) -> Vec<u8> {
    let samples = (seconds * 8000.0).round() as usize;
    wav(8000, 8, &vec![0x80; samples])
}

/// A WAV file of 16 kHz mono PCM16: loud noise, which keeps a model busy.
pub fn noise(seconds: f64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let samples = (seconds * 16000.0).round() as usize;
    let mut data = Vec::with_capacity(2 * samples);
    for _ in 0..samples {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&((state >> 48) as i16 / 2).to_le_bytes());
    }
    wav(16000, 16, &data)
}

/// A mono WAV file around its samples.
pub fn wav(rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
    let frame = bits / 8;
    let mut file = Vec::with_capacity(44 + data.len());
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + data.len() as u32).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&rate.to_le_bytes());
    file.extend_from_slice(&(rate * u32::from(frame)).to_le_bytes());
    file.extend_from_slice(&frame.to_le_bytes());
    file.extend_from_slice(&bits.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&(data.len() as u32).to_le_bytes());
    file.extend_from_slice(data);
    file
}
