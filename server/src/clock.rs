//! The clock of the service: milliseconds since 1970, UTC.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// The current time. A clock set before 1970 reads as 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Notices when the clock is set.
pub struct ClockWatch {
    now_ms: i64,
    at: Instant,
}

impl ClockWatch {
    pub fn new() -> Self {
        Self { now_ms: now_ms(), at: Instant::now() }
    }

    /// Tells if the clock was set since the last look, by more than a second.
    pub fn was_set(&mut self) -> bool {
        let before = std::mem::replace(self, Self::new());
        let passed = self.at.duration_since(before.at).as_millis() as i64;
        (self.now_ms - before.now_ms - passed).abs() > 1000
    }
}

fn utc(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}

/// ISO 8601 with milliseconds: `2026-03-01T12:00:00.000Z`.
pub fn iso(ms: i64) -> String {
    utc(ms).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The time of a calendar day, UTC, `2026-03-01` say; none for other text.
pub fn day(text: &str) -> Option<std::ops::Range<i64>> {
    let day: chrono::NaiveDate = text.parse().ok()?;
    let starts = day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis();
    Some(starts..starts + 86_400_000)
}

/// A calendar month and its start.
pub struct Period {
    /// `YYYYMM`.
    pub name: String,
    pub start_ms: i64,
}

/// The calendar month, UTC, of a time.
pub fn period(ms: i64) -> Period {
    use chrono::{Datelike as _, NaiveDate};
    let date = utc(ms).date_naive();
    let first = NaiveDate::from_ymd_opt(date.year(), date.month(), 1).unwrap_or(date);
    Period {
        name: date.format("%Y%m").to_string(),
        start_ms: first.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(iso(1_772_366_400_123), "2026-03-01T12:00:00.123Z");
        let march = period(1_772_366_400_123);
        assert_eq!((march.name.as_str(), iso(march.start_ms).as_str()), ("202603", "2026-03-01T00:00:00.000Z"));
    }
}
