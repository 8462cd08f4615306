//! Counting of restarts.

use super::*;

#[test]
fn uptime_reduces_the_count_of_restarts() {
    for (tries, millis, left) in [(1, 0, 1), (1, 1999, 1), (1, 2000, 0), (5, 4100, 3), (0, 9000, 0)] {
        assert_eq!(restarts_after(tries, Duration::from_millis(millis)), left, "{tries} {millis}");
    }
    assert_eq!(restarts_after(5, Duration::MAX), 0);
}
