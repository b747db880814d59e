//! The transcript of a turn, and the deltas that it is sent in.

use auricle_engine::{Caption, Word};

use crate::ids;

/// A turn: an item of the conversation.
pub struct Item {
    pub id: String,
    /// The beginning of its speech, ms by the clock of the session; none if no detector has found any.
    pub starts_ms: Option<u64>,
    /// Words that end before are none of it, ms by the clock of the recogniser.
    pub words_from_ms: u64,
    /// Length of its audio, ms.
    pub audio_ms: u64,
    /// The formatted text.
    pub transcript: String,
    /// Its words.
    pub words: Vec<Word>,
    /// The last partial, in words.
    partial: Vec<String>,
    /// The first words of it that were sent.
    sent: Vec<String>,
    has_sent: bool,
}

/// Words of a partial that can be sent.
pub struct Delta {
    pub text: String,
    words: Vec<String>,
}

impl Item {
    pub fn new() -> Self {
        Self {
            id: ids::fresh("item"),
            starts_ms: None,
            words_from_ms: 0,
            audio_ms: 0,
            transcript: String::new(),
            words: Vec::new(),
            partial: Vec::new(),
            sent: Vec::new(),
            has_sent: false,
        }
    }

    /// True if a caption has words of this turn.
    pub fn has(&self, caption: &Caption) -> bool {
        caption.words.last().is_none_or(|word| word.end > self.words_from_ms)
    }

    /// Takes a partial. Returns the words on which it agrees with the one before and that were not sent: what was sent cannot be taken back.
    pub fn partial(&mut self, text: &str) -> Option<Delta> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            // The words are withdrawn, and no formatted text replaces them.
            self.sent.clear();
        }
        let agreed = words.iter().zip(&self.partial).take_while(|(new, old)| new == old).count();
        self.partial = words;
        let agreed = &self.partial[..agreed];
        let new = agreed.strip_prefix(self.sent.as_slice()).filter(|new| !new.is_empty())?;
        Some(Delta { text: self.spaced(&new.join(" ")), words: new.to_vec() })
    }

    /// Notes that a delta was sent.
    pub fn sent(&mut self, delta: Delta) {
        self.sent.extend(delta.words);
        self.has_sent = true;
    }

    /// Takes the formatted text of the partials before it. Returns the rest of it, if it begins with what was sent.
    pub fn formatted(&mut self, caption: Caption) -> Option<String> {
        let rest = caption.text.strip_prefix(&self.sent.join(" ")).filter(|rest| !rest.is_empty());
        let rest = rest.map(|rest| if self.sent.is_empty() { self.spaced(rest) } else { rest.to_owned() });
        if !self.transcript.is_empty() && !caption.text.is_empty() {
            self.transcript.push(' ');
        }
        self.transcript.push_str(&caption.text);
        self.words.extend(caption.words);
        self.sent.clear();
        self.partial.clear();
        self.has_sent |= rest.is_some();
        rest
    }

    /// With a space between it and what was sent.
    fn spaced(&self, text: &str) -> String {
        if self.has_sent { format!(" {text}") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(item: &mut Item, text: &str) -> Option<String> {
        item.formatted(Caption { text: text.into(), words: Vec::new() })
    }

    fn partial(item: &mut Item, text: &str) -> Option<String> {
        let delta = item.partial(text)?;
        let text = delta.text.clone();
        item.sent(delta);
        Some(text)
    }

    #[test]
    fn deltas_are_agreed_words_and_add_up_to_a_text_that_confirms_them() {
        let mut item = Item::new();
        let mut deltas = vec![
            partial(&mut item, "Ask"),
            partial(&mut item, "Ask not"),
            partial(&mut item, "Ask not what"),
            partial(&mut item, "Ask note"),
            partial(&mut item, "Ask not what your"),
            partial(&mut item, "Ask not what your country"),
            formatted(&mut item, "Ask not what your country can do."),
        ];
        assert_eq!(deltas.iter().flatten().collect::<Vec<_>>(), ["Ask", " not", " what your", " country can do."]);
        deltas.push(partial(&mut item, "For"));
        deltas.push(partial(&mut item, "For you"));
        deltas.push(formatted(&mut item, "For you!"));
        assert_eq!(deltas.into_iter().flatten().collect::<String>(), item.transcript);
        assert_eq!(item.transcript, "Ask not what your country can do. For you!");
    }

    #[test]
    fn a_text_that_differs_from_what_was_sent_has_no_delta() {
        let mut item = Item::new();
        partial(&mut item, "as not");
        partial(&mut item, "as not what");
        assert_eq!(formatted(&mut item, "Ask not what."), None);
        assert_eq!(formatted(&mut item, "Yes."), Some(" Yes.".into()));
        assert_eq!(item.transcript, "Ask not what. Yes.");
    }

    #[test]
    fn a_delta_that_was_not_sent_comes_with_the_next() {
        let mut item = Item::new();
        item.partial("one");
        assert!(item.partial("one two").is_some_and(|delta| delta.text == "one"));
        assert_eq!(partial(&mut item, "one two three"), Some("one two".into()));
        assert_eq!(partial(&mut item, ""), None);
        assert_eq!(formatted(&mut item, "Four."), Some(" Four.".into()));
    }
}
