//! Figures of a measurement: percentiles, errors, and a histogram.

use std::time::Duration;

use hdrhistogram::Histogram;
use tinymcp::json::{Json, Writer};

use crate::cli::failure::Failure;
use crate::escape::one_line;

/// Largest latency that is measured exactly, in microseconds: an hour.
const MAX_LATENCY: u64 = 3_600_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;
/// Rows of the histogram.
const ROWS: i32 = 12;
/// Columns of a row beside its bar.
const LABELS: usize = 26;
const MAX_BAR: usize = 60;

/// Latencies in microseconds, and failures.
pub(super) struct Figures {
    latencies: Histogram<u64>,
    /// Time from the start to the latest result.
    pub(super) seconds: f64,
    errors: u64,
    first: Option<Failure>,
}

impl Default for Figures {
    fn default() -> Figures {
        #[allow(clippy::expect_used)]
        // OK because the bounds are constants and valid.
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY, DIGITS).expect("valid bounds");
        Figures { latencies, seconds: 0.0, errors: 0, first: None }
    }
}

impl Figures {
    pub(super) fn add(&mut self, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_LATENCY));
    }

    pub(super) fn add_error(&mut self, failure: Failure) {
        self.errors += 1;
        self.first.get_or_insert(failure);
    }

    /// Returns the number of calls that ended.
    pub(super) fn count(&self) -> u64 {
        self.latencies.len() + self.errors
    }

    /// Returns the first failure, with the number of failures.
    pub(super) fn first_error(&self) -> Option<Failure> {
        let first = self.first.as_ref()?;
        let message =
            format!("{} of {} calls failed; the first: {}", self.errors, self.count(), first.message);
        Some(Failure::new(first.status, message))
    }

    fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.latencies.len() as f64 / self.seconds } else { 0.0 }
    }

    /// Returns names and values in milliseconds.
    fn latencies(&self) -> [(&'static str, f64); 6] {
        let of = |share: f64| self.latencies.value_at_quantile(share) as f64 / 1e3;
        let (least, most) = (self.latencies.min() as f64 / 1e3, self.latencies.max() as f64 / 1e3);
        let mean = self.latencies.mean() / 1e3;
        [("min", least), ("mean", mean), ("p50", of(0.5)), ("p90", of(0.9)), ("p99", of(0.99)), ("max", most)]
    }

    /// Returns the figures as one object.
    pub(super) fn json(&self, clients: u32, unsent: u64) -> Json {
        let mut w = Writer::new();
        w.begin_object().key("clients").u64(clients.into()).key("seconds").f64(self.seconds);
        w.key("calls").u64(self.latencies.len()).key("errors").u64(self.errors).key("unsent").u64(unsent);
        w.key("callsPerSecond").f64(self.per_second());
        w.key("milliseconds").begin_object();
        for (name, value) in self.latencies() {
            w.key(name).f64(value);
        }
        w.end_object().end_object();
        w.into_json()
    }

    /// Returns the figures for people, with lines of at most `columns`.
    pub(super) fn text(&self, unsent: u64, columns: usize) -> String {
        let calls = self.latencies.len();
        let mut text =
            format!("calls     {calls} in {:.1} s, {:.0} per second\n", self.seconds, self.per_second());
        if unsent > 0 {
            text.push_str(&format!("unsent    {unsent}: the server is slower than the rate\n"));
        }
        if let Some(first) = &self.first {
            text.push_str(&format!("errors    {}; the first: {}\n", self.errors, one_line(&first.message)));
        }
        if calls > 0 {
            for (name, value) in self.latencies() {
                text.push_str(&format!("{name:4} {value:>12.3} ms\n"));
            }
            text.push('\n');
            text.push_str(&self.histogram(columns));
        }
        text
    }

    /// Returns bars for ranges of latency, whose bounds grow by a constant factor.
    fn histogram(&self, columns: usize) -> String {
        let (least, most) = (self.latencies.min().max(1) as f64, self.latencies.max().max(1) as f64);
        let step = (most / least).powf(f64::from(ROWS).recip()).max(1.05);
        let width = columns.saturating_sub(LABELS).clamp(1, MAX_BAR);
        let mut rows = Vec::new();
        let (mut low, mut counted) = (0, 0);
        for row in 1..=ROWS {
            let high = if row == ROWS { most } else { least * step.powi(row) };
            let high = (high.ceil() as u64).max(low);
            let below = self.latencies.count_between(0, high);
            rows.push((high, below.saturating_sub(counted)));
            (low, counted) = (high + 1, below);
            if counted == self.latencies.len() {
                break;
            }
        }
        let largest = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
        let bar = |count: u64| (count as f64 / largest as f64 * width as f64).ceil() as usize;
        let line = |(high, count): &(u64, u64)| {
            let milliseconds = *high as f64 / 1e3;
            let line = format!("<= {milliseconds:>9.3} ms {count:>9} {}", "#".repeat(bar(*count)));
            format!("{}\n", line.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_once() {
        let mut figures = Figures { seconds: 2.0, ..Figures::default() };
        (1..=100).for_each(|n| figures.add(Duration::from_millis(n)));
        figures.add_error(Failure::new(1, "no\u{1b}".to_owned()));
        figures.add_error(Failure::new(4, "gone".to_owned()));
        let text = figures.text(3, 60);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("calls     100 in 2.0 s, 50 per second"));
        assert_eq!(lines.next(), Some("unsent    3: the server is slower than the rate"));
        assert_eq!(lines.next(), Some("errors    2; the first: no\u{fffd}"));
        assert!(lines.nth(2).is_some_and(|line| line.starts_with("p50        50.0")), "{text}");
        let counts = lines
            .skip_while(|line| !line.is_empty())
            .skip(1)
            .map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
        assert_eq!(counts.map(Option::unwrap_or_default).sum::<u64>(), 100, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let json = figures.json(8, 3);
        let start = r#"{"clients":8,"seconds":2.0,"calls":100,"errors":2,"unsent":3,"callsPerSecond":50.0,"#;
        assert!(json.as_str().starts_with(start), "{}", json.as_str());
        let first = figures.first_error().map(|failure| (failure.status, failure.message));
        assert_eq!(first, Some((1, "2 of 102 calls failed; the first: no\u{1b}".to_owned())));
    }

    #[test]
    fn equal_latencies_are_one_row() {
        let mut figures = Figures::default();
        (0..5).for_each(|_| figures.add(Duration::from_micros(40)));
        assert_eq!(figures.histogram(30).lines().count(), 1, "{}", figures.histogram(30));
    }
}
