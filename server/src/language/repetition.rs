//! Ends answers that only repeat themselves, as small models do until their tokens are spent.

use futures_util::{StreamExt as _, stream};

use super::{FinishReason, Piece, Pieces};

/// Bytes of what is repeated. "No. No. No." is an answer.
const SHORTEST: usize = 24;
const LONGEST: usize = 1_000;
/// Marks that end a sentence.
const ENDS: [char; 7] = ['.', '!', '?', '\n', '。', '！', '？'];

/// The end of the first of three equal passages, one after another, that a text ends with; none if it does not. A passage is one
/// sentence or more.
pub fn end_of_repeated(text: &str) -> Option<usize> {
    let text = text.trim_end();
    let ends = text.char_indices().rev().skip(1).take_while(|(at, _)| at + LONGEST > text.len());
    for (at, mark) in ends.filter(|(_, mark)| ENDS.contains(mark)) {
        let passage = text[at + mark.len_utf8()..].trim_start();
        let before = text[..text.len() - passage.len()].trim_end();
        if passage.len() >= SHORTEST
            && let Some(first) = before.strip_suffix(passage)
            && first.trim_end().ends_with(passage)
        {
            return Some(first.trim_end().len());
        }
    }
    None
}

/// An answer that ends where it says the same for the third time in a row. The model stops writing then.
pub fn until_repeated(pieces: Pieces) -> Pieces {
    enum State {
        Writes(Pieces, String),
        Ends,
        Over,
    }
    let next = |state: State| async move {
        match state {
            State::Writes(mut pieces, mut text) => {
                let piece = pieces.next().await?;
                let mut state = State::Over;
                if let Ok(Piece::Text(more)) = &piece {
                    text.push_str(more);
                    let is_repeated = more.contains(ENDS) && end_of_repeated(&text).is_some();
                    state = if is_repeated { State::Ends } else { State::Writes(pieces, text) };
                } else if let Ok(Piece::ToolCalls(_)) = &piece {
                    state = State::Writes(pieces, text);
                }
                Some((piece, state))
            }
            State::Ends => {
                tracing::debug!("the language model repeated itself, and was stopped");
                Some((Ok(Piece::End { reason: FinishReason::Stop, usage: None }), State::Over))
            }
            State::Over => None,
        }
    };
    stream::unfold(State::Writes(pieces, String::new()), next).boxed()
}

#[cfg(test)]
mod tests {
    use super::super::{Completion, complete};
    use super::*;

    const ONE: &str = "The miller has gone to the village.";
    const TWO: &str = "He will be back by six. Who asks for him?";

    #[test]
    fn three_equal_passages_in_a_row_are_repeated() {
        for (text, first) in [
            (format!("{ONE} {ONE} {ONE}"), Some(ONE.len())),
            (format!("Well. {ONE}\n\n{ONE}\n\n{ONE}\n"), Some(ONE.len() + 6)),
            (format!("{ONE} {TWO} {ONE} {TWO} {ONE} {TWO}"), Some(ONE.len() + 1 + TWO.len())),
            (format!("{ONE} {ONE}"), None),
            (format!("{ONE} {TWO} {ONE} {TWO} {ONE}"), None),
            (format!("{ONE} {ONE} {TWO} {ONE}"), None),
            ("No. No. No. No.".to_owned(), None),
            ("Größe über Maß! Größe über Maß! Größe über Maß!".to_owned(), None),
            (String::new(), None),
            ("磨坊主人去了村子。".repeat(3), Some(27)),
        ] {
            assert_eq!(end_of_repeated(&text), first, "{text:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_repeats_itself_ends() {
        let words =
            |count: usize| std::iter::repeat_n(ONE, count).flat_map(|one| one.split_inclusive(' ').chain([" "]));
        let pieces = |count: usize| {
            let end = Ok(Piece::End { reason: FinishReason::Length, usage: None });
            let text: Vec<_> = words(count).map(|word| Ok(Piece::Text(word.to_owned()))).chain([end]).collect();
            stream::iter(text).boxed()
        };
        let Completion { text, reason, .. } = complete(until_repeated(pieces(50))).await.expect("an answer");
        assert_eq!((text, reason), ([ONE; 3].join(" "), FinishReason::Stop));
        let Completion { text, reason, .. } = complete(until_repeated(pieces(2))).await.expect("an answer");
        assert_eq!((text, reason), (format!("{ONE} {ONE} "), FinishReason::Length));
    }
}
