//! The part of each recording that is transcribed.

use auricle_engine::audio::Excerpt;
use clap::Args;

#[derive(Args)]
pub struct ExcerptArgs {
    /// Begin here in the recording: seconds, or a time such as 1:02:03.5
    ///
    /// The times of the transcript stay those of the recording.
    #[arg(long, value_name = "TIME", value_parser = time_ms)]
    start: Option<u64>,
    /// Transcribe so much: seconds, or a time such as 1:30
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    duration: Option<u64>,
}

impl ExcerptArgs {
    pub fn excerpt(&self) -> Excerpt {
        Excerpt { start_ms: self.start.unwrap_or(0), duration_ms: self.duration }
    }
}

/// Reads seconds, minutes and seconds, or hours too, into ms.
fn time_ms(text: &str) -> Result<u64, String> {
    let wrong = || "a time is seconds, such as 90 or 12.5, or a clock's, such as 1:30 or 1:02:03".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let (Some((seconds, before)), true) = (parts.split_last(), parts.len() <= 3) else { return Err(wrong()) };
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !before.iter().chain([&whole, &fraction]).all(|part| is_digits(part)) {
        return Err(wrong());
    }
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| wrong());
    let mut total = 0;
    for (index, part) in before.iter().chain([&whole]).enumerate() {
        let value = number(part)?;
        // Only the first part may be longer than its unit.
        if index > 0 && value >= 60 {
            return Err(wrong());
        }
        total = total * 60 + value;
    }
    let thousandths: String = fraction.chars().chain("00".chars()).take(3).collect();
    Ok(total * 1_000 + number(&thousandths)?)
}

fn duration_ms(text: &str) -> Result<u64, String> {
    match time_ms(text)? {
        0 => Err("a duration is longer than 0".into()),
        ms => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_a_clocks() {
        for (text, ms) in [
            ("0", 0),
            ("90", 90_000),
            ("12.5", 12_500),
            ("1:30", 90_000),
            ("90:00.04", 5_400_040),
            ("1:02:03.1239", 3_723_123),
            ("999999999", 999_999_999_000),
        ] {
            assert_eq!(time_ms(text), Ok(ms), "{text}");
        }
        for text in
            ["", "-1", "1:60", "1:2:3:4", "1:", ":5", "1e3", "5s", "nan", "1.", ".5", "9999999999", "1.5:00", " 5"]
        {
            assert!(time_ms(text).is_err(), "{text}");
        }
        assert!(duration_ms("0:00").is_err());
    }
}
