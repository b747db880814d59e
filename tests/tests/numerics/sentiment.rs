//! The sentiment of texts, against the package `vaderSentiment` (`tests/oracles/sentiment.py`).

use std::fs;

use auricle_engine::unstable::text::analysis::sentiment::valence;

/// Text, then its compound score with four decimals, and its positive, neutral and negative shares with three.
type Row = (String, f64, f64, f64, f64);

#[test]
fn every_score_equals_that_of_vader_to_every_decimal() {
    let path = auricle_tests::fixtures().join("sentiment/oracle.json");
    let rows: Vec<Row> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(rows.len() > 2000);
    let rounded = |value: f64, decimals: usize| format!("{value:.decimals$}").parse::<f64>().unwrap();
    for (text, compound, positive, neutral, negative) in rows {
        let found = valence(&text);
        let found = (
            rounded(found.compound, 4),
            rounded(found.positive, 3),
            rounded(found.neutral, 3),
            rounded(found.negative, 3),
        );
        assert_eq!(found, (compound, positive, neutral, negative), "{text:?}");
    }
}
