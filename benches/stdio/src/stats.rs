//! Medians and quantiles.
//!
//! Does: sort copies. Does not: weigh or discard samples.
//! Invariant: an empty set has no quantile, which the report shows as a dash.

/// The value below which `share` of the samples lie.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// The middle sample.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// Median of the quotients of samples taken in the same round; of the medians where the rounds do not match.
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
        // A disturbance that hits both servers of a round leaves the ratio alone.
        assert_eq!(ratio(&[2.0, 200.0, 2.0], &[1.0, 100.0, 1.0]), Some(2.0));
        assert_eq!(ratio(&[4.0], &[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
