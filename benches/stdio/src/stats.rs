//! Medians and quantiles.
//!
//! Sorts copies and discards no samples.
//!
//! # Invariants
//! - An empty set has no quantile; the report shows a dash.

/// Returns the value below which `share` of the samples lie.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// Returns the median of the samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// Returns the median of the quotients of samples of the same round, or the quotient of the medians
/// if the rounds do not match.
pub fn ratio(over: &[f64], under: &[f64]) -> Option<f64> {
    if over.len() != under.len() {
        return Some(median(over)? / median(under)?);
    }
    let quotients: Vec<f64> = over.iter().zip(under).map(|(a, b)| a / b).collect();
    median(&quotients).filter(|quotient| quotient.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples = [5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(median(&samples), Some(3.0));
        assert_eq!(quantile(&samples, 0.99), Some(5.0));
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios_pair_the_rounds() {
        // A disturbance of both servers in one round does not change the ratio.
        assert_eq!(ratio(&[2.0, 200.0, 2.0], &[1.0, 100.0, 1.0]), Some(2.0));
        assert_eq!(ratio(&[4.0], &[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
