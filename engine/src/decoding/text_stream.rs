//! Tokens to text as it grows: whole characters only, and nothing that a stop text may begin with.

/// The text of a sequence of tokens.
#[derive(Clone, Debug, Default)]
pub struct TextStream {
    stops: Vec<String>,
    /// Bytes of an unfinished character.
    bytes: Vec<u8>,
    /// Text that is held back.
    held: String,
    stopped: bool,
}

impl TextStream {
    /// A text that ends before the first of these texts that it would have. Empty ones are ignored.
    pub fn new(stops: &[String]) -> Self {
        Self { stops: stops.iter().filter(|stop| !stop.is_empty()).cloned().collect(), ..Self::default() }
    }

    /// True if a stop text has come.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Adds a token's bytes and gives the text that is certain now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        if self.stopped {
            return String::new();
        }
        self.bytes.extend_from_slice(bytes);
        let whole = whole_characters(&self.bytes);
        let rest = self.bytes.split_off(whole);
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        self.bytes = rest;
        self.add(&text)
    }

    /// The text that was held back, at the end of the tokens.
    pub fn finish(&mut self) -> String {
        if self.stopped {
            return String::new();
        }
        let rest = std::mem::take(&mut self.bytes);
        let mut text = self.add(&String::from_utf8_lossy(&rest));
        text.push_str(&std::mem::take(&mut self.held));
        text
    }

    fn add(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let first = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(first) = first {
            self.stopped = true;
            self.held.truncate(first);
            return std::mem::take(&mut self.held);
        }
        let certain = self.held.char_indices().map(|(at, _)| at).find(|at| {
            let end = &self.held[*at..];
            self.stops.iter().any(|stop| stop.starts_with(end))
        });
        let rest = self.held.split_off(certain.unwrap_or(self.held.len()));
        std::mem::replace(&mut self.held, rest)
    }
}

/// Length of the bytes without an unfinished character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    for at in (start..bytes.len()).rev() {
        let length = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        // An unfinished character whose bytes so far are valid.
        let unfinished = at + length > bytes.len()
            && std::str::from_utf8(&bytes[at..]).is_err_and(|error| error.error_len().is_none());
        return if unfinished { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(stops: &[&str], bytes: &[&[u8]]) -> (Vec<String>, String, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut stream = TextStream::new(&stops);
        let pieces = bytes.iter().map(|bytes| stream.push(bytes)).collect();
        let rest = stream.finish();
        (pieces, rest, stream.is_stopped())
    }

    #[test]
    fn characters_come_whole() {
        let euro = "€".as_bytes();
        assert_eq!(pieces(&[], &[&euro[..1], &euro[1..2], &euro[2..], b"x"]).0, ["", "", "€", "x"]);
        let smile = "😀".as_bytes();
        assert_eq!(pieces(&[], &[b"a", &smile[..3], &smile[3..]]).0, ["a", "", "😀"]);
        // Bytes that never become a character are replaced, and delay nothing.
        assert_eq!(pieces(&[], &[&[0xff], b"a", &[0xe2, 0x28], &[0x80]]).0, ["\u{fffd}", "a", "\u{fffd}(", "\u{fffd}"]);
        assert_eq!(pieces(&[], &[&euro[..2]]), (vec![String::new()], "\u{fffd}".into(), false));
    }

    #[test]
    fn a_stop_text_is_held_back_while_it_may_begin() {
        let (found, rest, stopped) =
            pieces(&["END", "\n\n"], &[b"a E", b"N", b"T", b" x\n", b"y", b" EN", b"D more", b"z"]);
        assert_eq!(found, ["a ", "", "ENT", " x", "\ny", " ", "", ""]);
        assert!(rest.is_empty() && stopped);
        assert_eq!(pieces(&["END"], &[b"the EN"]), (vec!["the ".into()], "EN".into(), false));
        assert_eq!(pieces(&["", "b"], &[b"abc"]).0, ["a"]);
        // The earlier of two, whichever is named first.
        assert_eq!(pieces(&["c", "b"], &[b"abc"]).0, ["a"]);
        assert!(pieces(&["é"], &["é".as_bytes().split_at(1).0, "é".as_bytes().split_at(1).1]).2);
    }
}
