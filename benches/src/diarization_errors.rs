//! The diarization error rate between two labellings of a recording, as `pyannote.metrics` counts it: overlap counts, no collar.

/// A stretch of one speaker, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its start.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// The speaker's name.
    pub speaker: String,
}

/// Seconds of speech of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiarizationErrors {
    /// Of the reference's speakers, one after another.
    pub total: f64,
    /// That has no label.
    pub missed: f64,
    /// Labels where nobody speaks.
    pub false_alarm: f64,
    /// With another speaker's label.
    pub confusion: f64,
}

impl DiarizationErrors {
    /// Errors between a reference and a hypothesis, whose speakers are matched so that most time agrees.
    pub fn between(reference: &[Turn], hypothesis: &[Turn]) -> Self {
        let (own, other) = (names(reference), names(hypothesis));
        let mut cuts: Vec<f64> = reference.iter().chain(hypothesis).flat_map(|turn| [turn.start, turn.end]).collect();
        cuts.sort_by(f64::total_cmp);
        cuts.dedup();
        let mut agreeing = vec![vec![0.0; other.len()]; own.len()];
        let mut found = Self::default();
        for pair in cuts.windows(2) {
            let (length, middle) = (pair[1] - pair[0], (pair[0] + pair[1]) / 2.0);
            let (speaking, labelled) = (active(reference, &own, middle), active(hypothesis, &other, middle));
            speaking.iter().for_each(|a| labelled.iter().for_each(|b| agreeing[*a][*b] += length));
            let (both, most) = (speaking.len().min(labelled.len()), speaking.len().max(labelled.len()));
            found.total += length * speaking.len() as f64;
            found.missed += length * (speaking.len() - both) as f64;
            found.false_alarm += length * (most - speaking.len()) as f64;
            found.confusion += length * both as f64;
        }
        found.confusion -= best_matching(&agreeing);
        found
    }

    /// Errors in percent of the reference's speech.
    pub fn percent(&self) -> f64 {
        100.0 * (self.missed + self.false_alarm + self.confusion) / self.total.max(f64::MIN_POSITIVE)
    }
}

impl std::ops::AddAssign for DiarizationErrors {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.missed += other.missed;
        self.false_alarm += other.false_alarm;
        self.confusion += other.confusion;
    }
}

/// Reads the turns of an RTTM file.
///
/// # Errors
/// Says which line is no turn.
pub fn read_rttm(text: &str) -> Result<Vec<Turn>, String> {
    let turn = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, length) = (fields.get(3)?.parse::<f64>().ok()?, fields.get(4)?.parse::<f64>().ok()?);
        Some(Turn { start, end: start + length, speaker: (*fields.get(7)?).to_owned() })
    };
    let lines = text.lines().filter(|line| line.starts_with("SPEAKER "));
    lines.map(|line| turn(line).ok_or_else(|| format!("no turn: {line}"))).collect()
}

fn names(turns: &[Turn]) -> Vec<&str> {
    let mut names: Vec<&str> = turns.iter().map(|turn| turn.speaker.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Numbers of the speakers who are active at a moment.
fn active(turns: &[Turn], names: &[&str], at: f64) -> Vec<usize> {
    let speaks = |name: &str| turns.iter().any(|turn| turn.speaker == name && turn.start <= at && at < turn.end);
    (0..names.len()).filter(|number| speaks(names[*number])).collect()
}

/// The largest sum of entries of which no two share a row or a column: the Hungarian method with potentials.
fn best_matching(gains: &[Vec<f64>]) -> f64 {
    let size = gains.len().max(gains.first().map_or(0, Vec::len));
    let cost = |row: usize, column: usize| -gains.get(row).and_then(|row| row.get(column)).copied().unwrap_or_default();
    let (mut rows, mut columns) = (vec![0.0; size + 1], vec![0.0; size + 1]);
    // The row of each column, from 1; column 0 stands for the row that is being placed.
    let mut row_of = vec![0; size + 1];
    for row in 1..=size {
        row_of[0] = row;
        let (mut least, mut from, mut done) = (vec![f64::INFINITY; size + 1], vec![0; size + 1], vec![false; size + 1]);
        let mut at = 0;
        while row_of[at] != 0 {
            done[at] = true;
            let (here, mut step, mut next) = (row_of[at], f64::INFINITY, 0);
            for column in 1..=size {
                if done[column] {
                    continue;
                }
                let reduced = cost(here - 1, column - 1) - rows[here] - columns[column];
                if reduced < least[column] {
                    (least[column], from[column]) = (reduced, at);
                }
                if least[column] < step {
                    (step, next) = (least[column], column);
                }
            }
            for column in 0..=size {
                if done[column] {
                    rows[row_of[column]] += step;
                    columns[column] -= step;
                } else {
                    least[column] -= step;
                }
            }
            at = next;
        }
        while at != 0 {
            row_of[at] = row_of[from[at]];
            at = from[at];
        }
    }
    (1..=size).filter(|column| row_of[*column] != 0).map(|column| -cost(row_of[column] - 1, column - 1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 80 random pairs with the values of `pyannote.metrics` 4.2, made by `diarization_pairs.py`.
    #[test]
    fn rates_are_those_of_a_published_scorer() {
        let pairs: serde_json::Value = serde_json::from_str(include_str!("../diarization_pairs.json")).unwrap();
        let turns = |list: &serde_json::Value| {
            let turn = |one: &serde_json::Value| Turn {
                start: one[0].as_f64().unwrap(),
                end: one[1].as_f64().unwrap(),
                speaker: one[2].as_str().unwrap().to_owned(),
            };
            list.as_array().unwrap().iter().map(turn).collect::<Vec<_>>()
        };
        let pairs = pairs.as_array().unwrap();
        assert_eq!(pairs.len(), 80);
        for (number, pair) in pairs.iter().enumerate() {
            let found = DiarizationErrors::between(&turns(&pair["reference"]), &turns(&pair["hypothesis"])).percent();
            let published = pair["percent"].as_f64().unwrap();
            assert!((found - published).abs() < 0.1, "pair {number}: {found} against {published}");
        }
    }
}
