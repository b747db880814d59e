//! Words that are spelled alike and said in two ways; the words around them decide.

use super::phone::{Phone, phones};
use crate::text::word_list::words;

/// The word classes that a heteronym's two forms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Verb,
    /// Noun, adjective or adverb.
    Other,
}

/// A heteronym: the phones as a verb, the phones as another word, and the class where nothing around it tells.
struct Heteronym(&'static str, &'static str, &'static str, Class);

use Class::{Other, Verb};

const HETERONYMS: &[Heteronym] = &[
    Heteronym("abuse", "AH0 B Y UW1 Z", "AH0 B Y UW1 S", Other),
    Heteronym("attribute", "AH0 T R IH1 B Y UW0 T", "AE1 T R AH0 B Y UW2 T", Other),
    Heteronym("close", "K L OW1 Z", "K L OW1 S", Verb),
    Heteronym("combine", "K AH0 M B AY1 N", "K AA1 M B AY0 N", Verb),
    Heteronym("compound", "K AH0 M P AW1 N D", "K AA1 M P AW0 N D", Other),
    Heteronym("conduct", "K AH0 N D AH1 K T", "K AA1 N D AH0 K T", Verb),
    Heteronym("conflict", "K AH0 N F L IH1 K T", "K AA1 N F L IH0 K T", Other),
    Heteronym("content", "K AH0 N T EH1 N T", "K AA1 N T EH0 N T", Other),
    Heteronym("contest", "K AH0 N T EH1 S T", "K AA1 N T EH0 S T", Other),
    Heteronym("contract", "K AH0 N T R AE1 K T", "K AA1 N T R AE2 K T", Other),
    Heteronym("contrast", "K AH0 N T R AE1 S T", "K AA1 N T R AE0 S T", Other),
    Heteronym("convert", "K AH0 N V ER1 T", "K AA1 N V ER0 T", Verb),
    Heteronym("convict", "K AH0 N V IH1 K T", "K AA1 N V IH0 K T", Verb),
    Heteronym("decrease", "D IH0 K R IY1 S", "D IY1 K R IY2 S", Other),
    Heteronym("desert", "D IH0 Z ER1 T", "D EH1 Z ER0 T", Other),
    Heteronym("discount", "D IH0 S K AW1 N T", "D IH1 S K AW0 N T", Other),
    Heteronym("dove", "D OW1 V", "D AH1 V", Other),
    Heteronym("estimate", "EH1 S T AH0 M EY2 T", "EH1 S T AH0 M AH0 T", Other),
    Heteronym("excuse", "IH0 K S K Y UW1 Z", "IH0 K S K Y UW1 S", Verb),
    Heteronym("export", "IH0 K S P AO1 R T", "EH1 K S P AO0 R T", Other),
    Heteronym("graduate", "G R AE1 JH AH0 W EY2 T", "G R AE1 JH AH0 W AH0 T", Other),
    Heteronym("house", "HH AW1 Z", "HH AW1 S", Other),
    Heteronym("import", "IH2 M P AO1 R T", "IH1 M P AO2 R T", Other),
    Heteronym("increase", "IH0 N K R IY1 S", "IH1 N K R IY2 S", Other),
    Heteronym("insult", "IH2 N S AH1 L T", "IH1 N S AH2 L T", Other),
    Heteronym("lead", "L IY1 D", "L IY1 D", Verb),
    Heteronym("live", "L IH1 V", "L AY1 V", Verb),
    Heteronym("minute", "M IH1 N AH0 T", "M IH1 N AH0 T", Other),
    Heteronym("moderate", "M AA1 D ER0 EY2 T", "M AA1 D ER0 AH0 T", Other),
    Heteronym("object", "AH0 B JH EH1 K T", "AA1 B JH EH0 K T", Other),
    Heteronym("perfect", "P ER0 F EH1 K T", "P ER1 F IH2 K T", Other),
    Heteronym("permit", "P ER0 M IH1 T", "P ER1 M IH2 T", Verb),
    Heteronym("present", "P R IY0 Z EH1 N T", "P R EH1 Z AH0 N T", Other),
    Heteronym("produce", "P R AH0 D UW1 S", "P R OW1 D UW0 S", Verb),
    Heteronym("progress", "P R AH0 G R EH1 S", "P R AA1 G R EH2 S", Other),
    Heteronym("project", "P R AH0 JH EH1 K T", "P R AA1 JH EH0 K T", Other),
    Heteronym("protest", "P R AH0 T EH1 S T", "P R OW1 T EH2 S T", Other),
    Heteronym("rebel", "R IH0 B EH1 L", "R EH1 B AH0 L", Other),
    Heteronym("record", "R AH0 K AO1 R D", "R EH1 K ER0 D", Other),
    Heteronym("refund", "R IH0 F AH1 N D", "R IY1 F AH2 N D", Other),
    Heteronym("refuse", "R AH0 F Y UW1 Z", "R EH1 F Y UW2 Z", Verb),
    Heteronym("reject", "R IH0 JH EH1 K T", "R IY1 JH EH0 K T", Verb),
    Heteronym("research", "R IH0 S ER1 CH", "R IY1 S ER0 CH", Other),
    Heteronym("separate", "S EH1 P ER0 EY2 T", "S EH1 P R AH0 T", Other),
    Heteronym("subject", "S AH0 B JH EH1 K T", "S AH1 B JH IH0 K T", Other),
    Heteronym("survey", "S ER0 V EY1", "S ER1 V EY2", Other),
    Heteronym("suspect", "S AH0 S P EH1 K T", "S AH1 S P EH2 K T", Verb),
    Heteronym("tear", "T EH1 R", "T IH1 R", Other),
    Heteronym("transfer", "T R AE0 N S F ER1", "T R AE1 N S F ER0", Other),
    Heteronym("transport", "T R AE0 N S P AO1 R T", "T R AE1 N S P AO0 R T", Other),
    Heteronym("update", "AH0 P D EY1 T", "AH1 P D EY2 T", Other),
    Heteronym("use", "Y UW1 Z", "Y UW1 S", Verb),
    Heteronym("wind", "W AY1 N D", "W IH1 N D", Other),
    Heteronym("wound", "W AW1 N D", "W UW1 N D", Other),
];

/// Words before a verb.
const BEFORE_VERBS: &[&str] = words!(
    "to will would can could shall should may might must do does did don't doesn't didn't won't wouldn't can't \
     couldn't shouldn't cannot i you we they who let's please i'll you'll we'll they'll he'll she'll it'll i'd you'd \
     we'd they'd help let also often always never not"
);

/// Words before a noun or an adjective.
const BEFORE_OTHERS: &[&str] = words!(
    "the a an this that these those my your his her its our their of in on at for with from by no some any each every \
     is are was were be been very so too as such new old good great last first next one another under without into \
     about than more much strong high cold"
);

/// Words before a participle.
const BEFORE_PARTICIPLES: &[&str] = words!(
    "have has had having been was were is are be being i've you've we've they've he's she's it's got well widely \
     already just haven't hasn't hadn't"
);

/// Words that set a clause in the past.
const PAST: &[&str] = &["yesterday", "ago", "last", "once", "then", "was", "were", "had", "did"];

/// Adverbs between an auxiliary and its verb.
const ADVERBS: &[&str] = &["not", "never", "always", "also", "just", "already", "really", "ever", "still", "often"];

/// The phones of the word at a place of a clause, where its spelling has two ways to say it, or where its neighbour
/// changes it.
pub(super) fn phones_at(words: &[&str], at: usize) -> Option<Vec<Phone>> {
    let word = *words.get(at)?;
    let before = at.checked_sub(1).map_or("", |before| words[before]);
    let after = words.get(at + 1).copied().unwrap_or_default();
    let chosen = match word {
        "read" => {
            let auxiliary = at.checked_sub(2).map_or("", |before| words[before]);
            let participle = BEFORE_PARTICIPLES.contains(&before)
                || ADVERBS.contains(&before) && BEFORE_PARTICIPLES.contains(&auxiliary);
            let past = participle
                || !BEFORE_VERBS.contains(&before) && ["he", "she", "it"].contains(&before)
                || ["i", "you", "we", "they"].contains(&before) && words.iter().any(|other| PAST.contains(other));
            if past { "R EH1 D" } else { "R IY1 D" }
        }
        "lead" if ["poisoning", "pipe", "pipes", "paint", "acid", "pencil", "bullet", "bullets"].contains(&after) => {
            "L EH1 D"
        }
        "lead"
            if ["of", "with", "contain", "contains", "and"].contains(&before)
                && ["", ",", ".", "and"].contains(&after) =>
        {
            "L EH1 D"
        }
        "live"
            if words!(
                "music show shows tv television stream streams broadcast events event concert audience performance \
                 performances chat data updates coverage wire from on"
            )
            .contains(&after)
                && !["i", "you", "we", "they", "to", "who", "people", "and"].contains(&before) =>
        {
            "L AY1 V"
        }
        "live"
            if ["in", "at", "with", "near", "here", "there", "together", "alone", "under", "by"].contains(&after) =>
        {
            "L IH1 V"
        }
        "live" if ["going", "goes", "went", "watch", "now"].contains(&before) => "L AY1 V",
        "wind" if ["up", "down"].contains(&after) && !BEFORE_OTHERS.contains(&before) => "W AY1 N D",
        "bass" if ["fishing", "lake"].contains(&after) => "B AE1 S",
        "bow" if ["tie", "ties", "and"].contains(&after) => "B OW1",
        "minute"
            if ["details", "amounts", "amount", "traces", "quantities", "changes", "particles"].contains(&after) =>
        {
            "M AY0 N UW1 T"
        }
        "close" if ["to", "by", "enough", "friend", "friends", "call", "second", "attention"].contains(&after) => {
            "K L OW1 S"
        }
        "used" if after == "to" => "Y UW1 S T",
        "tear" if ["apart", "down", "up", "off"].contains(&after) => "T EH1 R",
        "wound" if ["up", "down", "around"].contains(&after) => "W AW1 N D",
        "the" if begins_with_vowel(after) => "DH IY0",
        _ => {
            let Heteronym(_, verb, other, default) = HETERONYMS.iter().find(|heteronym| heteronym.0 == word)?;
            match class(before, after).unwrap_or(*default) {
                Verb => verb,
                Other => other,
            }
        }
    };
    Some(phones(chosen))
}

/// The class that the words around a heteronym indicate.
fn class(before: &str, after: &str) -> Option<Class> {
    if BEFORE_VERBS.contains(&before) {
        Some(Verb)
    } else if BEFORE_OTHERS.contains(&before) {
        Some(Other)
    } else if ["the", "a", "an", "my", "your", "his", "her", "their", "our", "its", "it", "them", "him", "us"]
        .contains(&after)
    {
        Some(Verb)
    } else {
        None
    }
}

/// True if a word's sound begins with a vowel.
fn begins_with_vowel(word: &str) -> bool {
    super::lexicon::Lexicon::cmudict()
        .phones(word)
        .and_then(|phones| phones.first().copied())
        .is_some_and(Phone::is_vowel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(clause: &str, word: &str) -> String {
        let words: Vec<&str> = clause.split(' ').collect();
        let at = words.iter().position(|other| *other == word).unwrap();
        let found = phones_at(&words, at).unwrap_or_default();
        found.into_iter().map(Phone::name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn neighbours_decide() {
        assert_eq!(said("i have read the book", "read"), "R EH1 D");
        assert_eq!(said("you should read the book", "read"), "R IY1 D");
        assert_eq!(said("she read it", "read"), "R EH1 D");
        assert_eq!(said("i read it yesterday", "read"), "R EH1 D");
        assert_eq!(said("have you ever read it", "read"), "R IY1 D", "a question's order is not followed");
        assert_eq!(said("we live here", "live"), "L IH1 V");
        assert_eq!(said("a live show", "live"), "L AY1 V");
        assert_eq!(said("they will lead us", "lead"), "L IY1 D");
        assert_eq!(said("a lead pipe", "lead"), "L EH1 D");
        assert_eq!(said("the wind blows", "wind"), "W IH1 N D");
        assert_eq!(said("please wind up the clock", "wind"), "W AY1 N D");
        assert_eq!(said("a new record", "record"), "R EH1 K ER0 D");
        assert_eq!(said("please record this", "record"), "R AH0 K AO1 R D");
        assert_eq!(said("use the door", "use"), "Y UW1 Z");
        assert_eq!(said("of no use", "use"), "Y UW1 S");
        assert_eq!(said("close the door", "close"), "K L OW1 Z");
        assert_eq!(said("it is close to me", "close"), "K L OW1 S");
        assert_eq!(said("the apple", "the"), "DH IY0");
        assert_eq!(said("the pear", "the"), "");
    }

    #[test]
    fn every_phone_of_the_table_exists() {
        for Heteronym(word, verb, other, _) in HETERONYMS {
            for form in [verb, other] {
                assert_eq!(phones(form).len(), form.split(' ').count(), "{word}");
            }
        }
        let words: Vec<&str> = HETERONYMS.iter().map(|heteronym| heteronym.0).collect();
        assert!(words.is_sorted(), "{words:?}");
    }
}
