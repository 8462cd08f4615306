//! Tests of the worker pool.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use std::sync::mpsc;

#[test]
fn a_job_runs() {
    let (sent, got) = mpsc::channel();
    let size = PoolSize { workers: 2, queue: 4, stack: 64 << 10, idle: Duration::from_secs(1) };
    let pool = Pool::new(size, move |n: u32| sent.send(n).unwrap());
    assert_eq!(pool.threads(), 0);
    pool.try_submit(7).unwrap();
    assert_eq!(got.recv_timeout(Duration::from_secs(10)), Ok(7));
    assert!(pool.wait_idle(Instant::now() + Duration::from_secs(10)));
    assert_eq!(pool.threads(), 1);
}
