//! A chart of costs by day and model, as SVG. Its colours are classes of the style sheet.

use std::collections::BTreeMap;

use crate::billing::dollars;
use crate::clock;
use crate::store::DailyCost;

/// The size of the drawing, in units of its view box.
const WIDTH: i64 = 720;
const HEIGHT: i64 = 200;
/// The places of the axes: left of the bars, and below them.
const LEFT: i64 = 52;
const BOTTOM: i64 = 24;
const TOP: i64 = 10;

const DAY_MS: i64 = 24 * 3_600_000;

/// A bar, or a part of one.
pub struct Bar {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
    /// The number of the model's colour.
    pub colour: usize,
    /// Day, model and cost.
    pub label: String,
}

/// A line across the chart.
pub struct Line {
    pub y: i64,
    pub label: String,
}

/// A day below the chart.
pub struct Tick {
    pub x: i64,
    pub label: String,
}

/// The chart.
pub struct Chart {
    pub width: i64,
    pub height: i64,
    pub left: i64,
    pub right: i64,
    pub bars: Vec<Bar>,
    pub lines: Vec<Line>,
    pub ticks: Vec<Tick>,
    /// Models and their sums, in the order of their colours.
    pub models: Vec<(String, String)>,
    pub total: String,
}

/// The day of a time.
fn date(day: i64) -> String {
    clock::iso(day * DAY_MS).get(..10).unwrap_or_default().to_owned()
}

/// A round number of cents, at least as large, of which a quarter is round, too.
fn round_up(cents: i64) -> i64 {
    let mut step = 4;
    loop {
        for factor in [1, 2, 5] {
            if step * factor >= cents {
                return step * factor;
            }
        }
        step *= 10;
    }
}

impl Chart {
    /// The chart of so many days that end with `today`, a number of days since 1970.
    pub fn new(costs: &[DailyCost], today: i64, days: i64) -> Self {
        let mut by_model: BTreeMap<&str, i64> = BTreeMap::new();
        let mut by_day: BTreeMap<i64, Vec<&DailyCost>> = BTreeMap::new();
        let first = today - days + 1;
        for cost in costs.iter().filter(|cost| (first..=today).contains(&cost.day)) {
            *by_model.entry(&cost.sku).or_default() += cost.retail_cost_cents;
            by_day.entry(cost.day).or_default().push(cost);
        }
        let day_sum = |costs: &Vec<&DailyCost>| costs.iter().map(|cost| cost.retail_cost_cents).sum::<i64>();
        let most = round_up(by_day.values().map(day_sum).max().unwrap_or(0).max(4));
        let (floor, room) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP);
        let step = (WIDTH - LEFT) / days;
        let models: Vec<&str> = by_model.keys().copied().collect();
        let mut bars = Vec::new();
        for (day, costs) in &by_day {
            let mut below = 0;
            for cost in costs {
                let top = floor - (below + cost.retail_cost_cents) * room / most;
                let bottom = floor - below * room / most;
                below += cost.retail_cost_cents;
                bars.push(Bar {
                    x: LEFT + (day - first) * step + 2,
                    y: top,
                    width: (step - 4).max(1),
                    // A cost is seen, however small.
                    height: (bottom - top).max(i64::from(cost.retail_cost_cents > 0)),
                    colour: models.iter().position(|model| *model == cost.sku).unwrap_or(0) % 6,
                    label: format!("{}: {}, {}", date(*day), cost.sku, dollars(cost.retail_cost_cents)),
                });
            }
        }
        let lines = (0..=4).map(|part| Line { y: floor - room * part / 4, label: dollars(most * part / 4) });
        let tick = |day: i64| Tick {
            x: LEFT + (day - first) * step + step / 2,
            label: date(day).get(5..).unwrap_or_default().to_owned(),
        };
        Self {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            right: LEFT + step * days,
            bars,
            lines: lines.collect(),
            ticks: (first..=today).rev().step_by(7).map(tick).collect(),
            total: dollars(by_model.values().sum()),
            models: by_model.iter().map(|(model, cents)| ((*model).to_owned(), dollars(*cents))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_each_other_and_show_their_costs() {
        let cost = |day, sku: &str, cents| DailyCost { day, sku: sku.into(), retail_cost_cents: cents };
        let costs = [cost(100, "a", 30), cost(100, "b", 10), cost(98, "b", 1), cost(60, "b", 1000)];
        let chart = Chart::new(&costs, 100, 30);
        assert_eq!(chart.models, [("a".into(), "$0.30".into()), ("b".into(), "$0.11".into())]);
        assert_eq!(chart.lines.last().unwrap().label, "$0.40");
        let [early, lower, upper] = chart.bars.as_slice() else { panic!("three bars") };
        assert_eq!(lower.y, upper.y + upper.height);
        assert_eq!((upper.y, lower.y + lower.height), (TOP, HEIGHT - BOTTOM));
        assert!(early.height >= 1 && early.x < lower.x && lower.x == upper.x);
        assert_eq!(upper.label, "1970-04-11: b, $0.10");
    }

    #[test]
    fn no_costs_are_a_chart_without_bars() {
        let chart = Chart::new(&[], 100, 30);
        assert!(chart.bars.is_empty() && chart.models.is_empty());
        assert_eq!((chart.total.as_str(), round_up(41), round_up(4)), ("$0.00", 80, 4));
    }
}
