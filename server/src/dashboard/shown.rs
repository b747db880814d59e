//! Values as the pages show them: durations, languages, icons.

use crate::clock;
use crate::languages;

/// Milliseconds as `1:02:03`, or `2:03`.
pub fn duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// A time, for the reader's script and as it stands without one.
pub struct Time {
    pub iso: String,
    pub utc: String,
}

impl Time {
    pub fn new(ms: i64) -> Self {
        let iso = clock::iso(ms);
        let utc = format!("{} {} UTC", iso.get(..10).unwrap_or_default(), iso.get(11..16).unwrap_or_default());
        Self { iso, utc }
    }
}

/// The English name of a language code, where it is a common one.
pub fn language(code: &str) -> String {
    let primary = code.split(['-', '_']).next().unwrap_or_default();
    match languages::name(primary) {
        Some(name) if primary == code => name.to_owned(),
        Some(name) => format!("{name} ({})", code[primary.len() + 1..].to_uppercase()),
        None => code.to_owned(),
    }
}

/// An icon as SVG: drawn on a square of 24 units, in the colour of the text.
pub fn icon(name: &str) -> &'static str {
    macro_rules! svg {
        ($path:literal) => {
            concat!(
                "<svg class=\"icon\" viewBox=\"0 0 24 24\" width=\"20\" height=\"20\" fill=\"none\" stroke=\"currentColor\" ",
                "stroke-width=\"1.75\" stroke-linecap=\"round\" stroke-linejoin=\"round\" aria-hidden=\"true\">",
                $path,
                "</svg>"
            )
        };
    }
    match name {
        "transcripts" => svg!("<path d=\"M5 5h14M5 10h14M5 15h9M5 20h6\"/>"),
        "playground" => svg!("<path d=\"M4 10v4M8 6v12M12 3v18M16 7v10M20 10v4\"/>"),
        "keys" => svg!("<circle cx=\"8\" cy=\"15\" r=\"4\"/><path d=\"M11 12l8-8M16 7l3 3\"/>"),
        "usage" => svg!("<path d=\"M4 20h16M7 16v-5M12 16V5M17 16V9\"/>"),
        "billing" => svg!("<rect x=\"3\" y=\"6\" width=\"18\" height=\"13\" rx=\"2\"/><path d=\"M3 10.5h18M7 15h3\"/>"),
        "team" => svg!(
            "<circle cx=\"9\" cy=\"8\" r=\"3.5\"/><path d=\"M3 20c0-3.6 2.5-6 6-6s6 2.4 6 6M16 5a3.2 3.2 0 0 1 0 6.2M18 14.6c1.9.9 3 2.9 3 5.4\"/>"
        ),
        "webhooks" => svg!("<path d=\"M4 12h10M10 8l4 4-4 4M14 5h4a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2h-4\"/>"),
        "reference" => svg!("<path d=\"M8 7l-5 5 5 5M16 7l5 5-5 5M13.5 5l-3 14\"/>"),
        "operator" => svg!(
            "<rect x=\"4\" y=\"4\" width=\"16\" height=\"7\" rx=\"1.5\"/><rect x=\"4\" y=\"13\" width=\"16\" height=\"7\" rx=\"1.5\"/><path d=\"M7.5 7.5h.5M7.5 16.5h.5M16 7.5h-3M16 16.5h-3\"/>"
        ),
        "again" => svg!("<path d=\"M19 12a7 7 0 1 1-2.2-5.1L19 9M19 4v5h-5\"/>"),
        "sign-out" => svg!("<path d=\"M10 4H6a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h4M15 8l4 4-4 4M19 12H9\"/>"),
        "plus" => svg!("<path d=\"M12 5v14M5 12h14\"/>"),
        "search" => svg!("<circle cx=\"11\" cy=\"11\" r=\"6\"/><path d=\"M20 20l-4.5-4.5\"/>"),
        "copy" => {
            svg!("<rect x=\"9\" y=\"9\" width=\"11\" height=\"11\" rx=\"2\"/><path d=\"M5 15V6a2 2 0 0 1 2-2h8\"/>")
        }
        "upload" => svg!("<path d=\"M12 16V4M7 9l5-5 5 5M4 17v2a1 1 0 0 0 1 1h14a1 1 0 0 0 1-1v-2\"/>"),
        "download" => svg!("<path d=\"M12 4v12M7 11l5 5 5-5M4 20h16\"/>"),
        "delete" => svg!("<path d=\"M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5\"/>"),
        "play" => svg!("<path d=\"M8 5.5v13l11-6.5z\" fill=\"currentColor\"/>"),
        "pause" => svg!("<path d=\"M8.5 5.5v13M15.5 5.5v13\" stroke-width=\"3\"/>"),
        "back" => svg!("<path d=\"M14 6l-6 6 6 6\"/>"),
        "forward" => svg!("<path d=\"M10 6l6 6-6 6\"/>"),
        "microphone" => {
            svg!("<rect x=\"9\" y=\"3\" width=\"6\" height=\"11\" rx=\"3\"/><path d=\"M5 11a7 7 0 0 0 14 0M12 18v3\"/>")
        }
        "check" => svg!("<path d=\"M5 12.5l4.5 4.5L19 7.5\"/>"),
        "warning" => svg!("<path d=\"M12 4l9 16H3zM12 10v4M12 17v.5\"/>"),
        "more" => svg!("<path d=\"M8 14.5l4-4 4 4\"/>"),
        "menu" => svg!("<path d=\"M4 7h16M4 12h16M4 17h16\"/>"),
        "file" => svg!("<path d=\"M6 3h8l4 4v14H6zM14 3v4h4\"/>"),
        "ask" => svg!("<path d=\"M4 5h16v11H11l-5 4v-4H4zM9 10.5h6\"/>"),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        for (ms, text) in [(0, "0:00"), (61_999, "1:01"), (3_723_000, "1:02:03")] {
            assert_eq!(duration(ms), text);
        }
        for (code, name) in [("en", "English"), ("en_us", "English (US)"), ("pt-BR", "Portuguese (BR)"), ("xx", "xx")] {
            assert_eq!(language(code), name);
        }
        assert_eq!(Time::new(1_772_366_400_123).utc, "2026-03-01 12:00 UTC");
    }
}
