use super::*;
use crate::text::Word;
use crate::text::segments::sentences;

/// Words of a text at an even pace.
fn words(text: &str) -> Vec<Word> {
    text.split_whitespace()
        .enumerate()
        .map(|(at, text)| Word {
            text: text.into(),
            start: at as u64 * 300,
            end: at as u64 * 300 + 250,
            confidence: 0.9,
            speaker: None,
            speaker_name: None,
            channel: None,
        })
        .collect()
}

/// `count` sentences of a topic's nouns, none twice the same.
fn talk(nouns: [&str; 6], count: usize) -> String {
    let sentence = |at: usize| {
        let noun = |shift: usize| nouns[(at * (shift + 1) + shift) % 6];
        format!("The {} of the {} was near a {} in the {}.", noun(0), noun(1), noun(2), noun(3))
    };
    (0..count).map(sentence).collect::<Vec<_>>().join(" ")
}

const GARDEN: [&str; 6] = ["garden", "rose", "soil", "compost", "orchard", "gardener"];
const ORBIT: [&str; 6] = ["rocket", "orbit", "satellite", "telescope", "astronaut", "capsule"];

#[test]
fn a_change_of_topic_begins_a_chapter() {
    let text = format!("{} {}", talk(GARDEN, 250), talk(ORBIT, 250));
    let words = words(&text);
    let found = chapters(&sentences(&words), "en");
    assert_eq!(found.len(), 2, "{found:#?}");
    let change = words.iter().position(|word| ORBIT.contains(&word.text.as_str())).unwrap() as u64 * 300;
    assert!(found[1].start.abs_diff(change) < 300 * 100, "{} {change}", found[1].start);
    let names =
        |chapter: &Chapter, nouns: [&str; 6]| nouns.iter().any(|noun| chapter.gist.to_lowercase().contains(noun));
    assert!(names(&found[0], GARDEN) && names(&found[1], ORBIT), "{found:#?}");
    assert!(found[0].summary.contains("The") && found[0].headline.starts_with(&found[0].gist));
}

#[test]
fn chapters_follow_each_other_and_reach_from_start_to_end() {
    let text: String = (0..6).map(|at| talk(if at % 2 == 0 { GARDEN } else { ORBIT }, 300) + " ").collect();
    let words = words(&text);
    let found = chapters(&sentences(&words), "en");
    assert!(found.len() > 2);
    assert_eq!((found[0].start, found[found.len() - 1].end), (0, words[words.len() - 1].end));
    assert!(found.windows(2).all(|pair| pair[0].end <= pair[1].start));
}

#[test]
fn one_topic_is_one_chapter_and_nothing_is_none() {
    assert_eq!(chapters(&sentences(&words(&talk(GARDEN, 40))), "en").len(), 1);
    assert!(chapters(&[], "en").is_empty());
    assert!(chapters(&sentences(&words("um yeah okay")), "en").is_empty());
    assert_eq!(chapters(&sentences(&words("Satellite.")), "en")[0].gist, "Satellite");
}

#[test]
fn scripts_without_spaces_and_unknown_languages_have_chapters() {
    let of = |text: &str, language: &str| chapters(&sentences(&words(text)), language);
    assert_eq!(of("今日 は とても 良い 天気 です。 天気 が 良い です。", "ja").len(), 1);
    assert_eq!(of("הגן היה יפה מאוד.", "he").len(), 1);
    let long = format!("{} {}", talk(GARDEN, 250), talk(ORBIT, 250));
    assert!(!of(&long, "xx").is_empty());
}
