//! The words of a text as far as they may be in a name.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::super::Source;
use super::super::lists::{Lists, PhraseKind};
use super::super::numbers::small_number;
use super::super::reading::Reading;

/// Words that are in no name.
const STOPS: &str = "a about after again all also am an and any are as at back be because been before but by call called calling \
    can could did do does doing done down for from get got had has have having he her here him his how i i'm i've i'd i'll if in \
    into is it it's its just let like made make me my need needs new no not now of off okay ok on one or our out over please said \
    say says she should so some speaking still than thank thanks that that's the their them then there they this time to today \
    tomorrow too two up us very wants was we well went were what when where which who will with would yeah yes yesterday you your \
    you're sir ma'am madam really going trying not never always only even both each many much more most other such same own \
    and/or calling looking living working born aged years old email phone number address account is won't can't don't doesn't \
    didn't isn't wasn't that'll how's hi hello hey good morning afternoon evening night monday tuesday wednesday thursday friday \
    saturday sunday january february march april june july august september october november december whose while since until \
    during between under against without within through upon across around near every asked told wrote sent left came goes takes \
    took gave knows thinks works lives moved says joined paid owes owns lost won got ordered bought picked signed replied agreed \
    arrived visited returned confirmed mentioned emailed texted and then also plus or nor yet age date dob ssn id";

static STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| STOPS.split_whitespace().collect());

/// The words of a text and what the lists say of them.
pub(super) struct Names<'r, 'a> {
    pub(super) reading: &'r Reading<'a>,
    pub(super) lists: &'static Lists,
}

/// The words of a name, the confidence, the way in which it was found.
pub(super) type Hit = (Range<usize>, f32, Source);

impl Names<'_, '_> {
    pub(super) fn is_stop(&self, at: usize) -> bool {
        STOP_WORDS.contains(self.reading.lower(at))
    }

    /// A word of letters that could be a name.
    pub(super) fn is_wordlike(&self, at: usize) -> bool {
        self.reading.tokens.get(at).is_some_and(|token| {
            !token.masked
                && token.lower.chars().all(|letter| letter.is_alphabetic() || matches!(letter, '\'' | '-' | '.'))
                && token.lower.chars().next().is_some_and(char::is_alphabetic)
                && token.lower.len() > 1
                && !["n't", "'ll", "'ve", "'re", "'d"].iter().any(|ending| token.lower.ends_with(ending))
                // Short words in capitals are abbreviations.
                && (token.lower.len() > 5 || !self.reading.cased || token.core().chars().any(|letter| !letter.is_uppercase()))
                && small_number(&token.lower).is_none()
        })
    }

    /// A term or a country begins here, with a capital of its own.
    pub(super) fn is_other_phrase(&self, at: usize) -> bool {
        self.lists.phrases(self.reading.lower(at)).iter().any(|phrase| {
            let whole =
                phrase.rest.iter().enumerate().all(|(offset, word)| self.reading.lower(at + 1 + offset) == *word);
            whole && (!phrase.rest.is_empty() || !matches!(phrase.kind, PhraseKind::Place))
        })
    }
}
