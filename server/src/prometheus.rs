//! The metrics of this process in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SetRecorderError, SharedString, Unit,
};

/// Upper bounds of the buckets of every histogram, most of which count seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// All metrics. Clones share them.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Families>);

#[derive(Default)]
struct Families {
    counters: Family<AtomicU64>,
    /// The bits of floating-point numbers.
    gauges: Family<AtomicU64>,
    histograms: Family<Buckets>,
}

/// Metrics of one kind, in the order of their names.
struct Family<T>(RwLock<BTreeMap<Key, Arc<T>>>);

impl<T> Default for Family<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Default> Family<T> {
    fn get(&self, key: &Key) -> Arc<T> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return known.clone();
        }
        self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default().clone()
    }

    /// Writes each metric by `write`, and the type before the first of a name.
    fn render(&self, kind: &str, out: &mut String, write: impl Fn(&mut String, &Key, &T)) {
        let mut last = String::new();
        for (key, metric) in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if last != key.name() {
                key.name().clone_into(&mut last);
                line(out, &format!("# TYPE {last} {kind}"));
            }
            write(out, key, metric);
        }
    }
}

/// A histogram: the observations in each bucket, those above all bounds last, and the bits of their sum.
#[derive(Default)]
struct Buckets {
    counts: [AtomicU64; BUCKETS.len() + 1],
    sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        if let Some(count) = self.counts.get(BUCKETS.partition_point(|bound| *bound < value)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // Never an error: there is always a next value.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Metrics {
    /// The recorder of this process. This is possible once.
    ///
    /// # Errors
    /// If there is one.
    pub fn install() -> Result<Self, SetRecorderError<Self>> {
        let metrics = Self::default();
        metrics::set_global_recorder(metrics.clone())?;
        Ok(metrics)
    }

    /// The text, with the metrics in the order of their names.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let Families { counters, gauges, histograms } = &*self.0;
        counters.render("counter", &mut out, |out, key, count| {
            sample(out, key, "", None, count.load(Ordering::Relaxed));
        });
        gauges.render("gauge", &mut out, |out, key, value| {
            sample(out, key, "", None, f64::from_bits(value.load(Ordering::Relaxed)));
        });
        histograms.render("histogram", &mut out, |out, key, Buckets { counts, sum }| {
            let mut total = 0;
            let bounds = BUCKETS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (bound, count) in bounds.zip(counts) {
                total += count.load(Ordering::Relaxed);
                sample(out, key, "_bucket", Some(&bound), total);
            }
            sample(out, key, "_sum", None, f64::from_bits(sum.load(Ordering::Relaxed)));
            sample(out, key, "_count", None, total);
        });
        out
    }
}

fn line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// One line: a name, labels and a value.
fn sample(out: &mut String, key: &Key, suffix: &str, bound: Option<&str>, value: impl std::fmt::Display) {
    let labels = key.labels().map(|label| (label.key(), label.value())).chain(bound.map(|bound| ("le", bound)));
    let mut written = String::new();
    for (name, value) in labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if written.is_empty() { "" } else { "," };
        let _ = write!(written, "{comma}{name}=\"{value}\"");
    }
    let labels = if written.is_empty() { written } else { format!("{{{written}}}") };
    line(out, &format!("{}{suffix}{labels} {value}", key.name()));
}

impl Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.0.counters.get(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.0.gauges.get(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.0.histograms.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics::with_local_recorder(&metrics, || {
            metrics::counter!("b_total", "status" => "2xx").increment(2);
            metrics::counter!("b_total", "status" => "4xx").increment(1);
            metrics::counter!("a_total", "name" => "a \"b\"\\\n").increment(1);
            metrics::gauge!("depth").increment(3);
            metrics::gauge!("depth").decrement(0.5);
            for seconds in [0.001, 0.0011, 0.4, 1000.0] {
                metrics::histogram!("seconds", "step" => "live").record(seconds);
            }
        });
        let text = metrics.render();
        let head = "# TYPE a_total counter\na_total{name=\"a \\\"b\\\"\\\\\\n\"} 1\n\
                    # TYPE b_total counter\nb_total{status=\"2xx\"} 2\nb_total{status=\"4xx\"} 1\n\
                    # TYPE depth gauge\ndepth 2.5\n# TYPE seconds histogram\n";
        assert!(text.starts_with(head), "{text}");
        // A bound is part of its bucket, and each bucket has those below it.
        for (bound, count) in [("0.001", 1), ("0.0025", 2), ("0.1", 2), ("0.5", 3), ("1", 3), ("600", 3), ("+Inf", 4)] {
            let bucket = format!("\nseconds_bucket{{step=\"live\",le=\"{bound}\"}} {count}\n");
            assert!(text.contains(&bucket), "{bucket} {text}");
        }
        assert!(text.ends_with("\nseconds_sum{step=\"live\"} 1000.4021\nseconds_count{step=\"live\"} 4\n"), "{text}");
    }

    #[test]
    fn threads_count_together() {
        let buckets = Buckets::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| buckets.record(0.25)));
            }
        });
        assert_eq!(buckets.counts[6].load(Ordering::Relaxed), 4000);
        assert_eq!(f64::from_bits(buckets.sum.load(Ordering::Relaxed)), 1000.0);
    }
}
