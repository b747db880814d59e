//! Extractive answers to sets of questions: each names the sentences that answer it, or none.

use auricle_engine::extractive::{NOT_SAID, Passage, answer};
use auricle_tests::fixtures;
use serde_json::Value;

/// What became of the questions of a file.
#[derive(Debug, Default)]
struct Tally {
    answerable: usize,
    /// The answer quotes the sentence that answers.
    hits: usize,
    unanswerable: usize,
    /// The answer quotes something although nothing answers.
    false_answers: usize,
    quotes: usize,
    /// Quotes of sentences that answer or stand beside the answer.
    right_quotes: usize,
}

fn ask(file: &str) -> Tally {
    let text = std::fs::read_to_string(fixtures().join("understanding").join(file)).unwrap();
    let transcripts: Value = serde_json::from_str(&text).unwrap();
    let mut tally = Tally::default();
    for transcript in transcripts.as_array().unwrap() {
        let sentences: Vec<Passage> = transcript["sentences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|sentence| Passage {
                speaker: sentence["speaker"].as_str().map(str::to_owned),
                start_ms: sentence["start_ms"].as_u64().unwrap(),
                text: sentence["text"].as_str().unwrap().to_owned(),
            })
            .collect();
        for asked in transcript["questions"].as_array().unwrap() {
            let question = asked["question"].as_str().unwrap();
            let wanted = asked["sentences"].as_array().unwrap().iter();
            let wanted: Vec<String> = wanted.map(|at| sentences[at.as_u64().unwrap() as usize].quote()).collect();
            let answer = answer(&sentences, transcript["language"].as_str(), question);
            let quotes: Vec<&str> = answer.lines().filter(|line| *line != NOT_SAID).collect();
            for quote in &quotes {
                assert!(sentences.iter().any(|sentence| sentence.quote() == *quote), "invented: {quote}");
            }
            let right = quotes.iter().filter(|quote| wanted.iter().any(|wanted| wanted == *quote)).count();
            tally.quotes += quotes.len();
            tally.right_quotes += right;
            if let Some(best) = wanted.first() {
                tally.answerable += 1;
                let hit = quotes.contains(&best.as_str());
                tally.hits += usize::from(hit);
                if !hit {
                    println!("missed: {question}: {answer}");
                }
            } else {
                tally.unanswerable += 1;
                tally.false_answers += usize::from(!quotes.is_empty());
            }
        }
    }
    println!("{file}: {tally:?}");
    tally
}

#[test]
fn most_questions_get_their_sentence_and_none_an_invented_one() {
    let tally = ask("questions.json");
    assert_eq!((tally.answerable, tally.unanswerable), (30, 10));
    assert!(tally.hits >= 27 && tally.false_answers == 0 && tally.right_quotes * 10 >= tally.quotes * 9, "{tally:?}");
}

#[test]
fn the_questions_of_the_tuning_set_are_answered() {
    let tally = ask("tuning.json");
    assert!(tally.hits == tally.answerable && tally.false_answers == 0, "{tally:?}");
}
