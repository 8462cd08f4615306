//! Token checks that wait for another machine: worker threads and a cache of results.
//!
//! The event loop reads the cached result. If the cache has none, a worker checks the token, the
//! request waits, and the loop reads the result when the check has ended.
//!
//! # Invariants
//! - Only hashes of tokens are stored.
//! - The number of results, workers and queued checks is bounded. A token is checked once at a
//!   time.
//! - No lock is held while a token is checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use hmac_sha256::Hash;

use crate::pool::{Pool, PoolSize, guard};
use crate::server::http::mounts::MountTable;
use crate::sync::lock;

use super::{Principal, TokenRefusal};

/// Maximum number of stored results. For a further one, the result that expires first is dropped.
const MAX_RESULTS: usize = 1024;
const WORKERS: usize = 4;
/// Maximum number of queued checks. A further request gets 503.
const MAX_QUEUED: usize = 64;
/// Stack of a worker: more than signatures and TLS need.
const STACK: usize = 512 << 10;
const IDLE_WORKER: Duration = Duration::from_secs(5);
/// Shortest time for which a result is used: the request that waits for it must find it.
const MIN_CACHE_TIME: Duration = Duration::from_secs(1);

/// Check of bearer tokens that may wait for another machine, for
/// [`HttpServer::token_verifier`](crate::HttpServer::token_verifier).
///
/// A function is a verifier. Implement the trait to set the time for which a result is used again:
///
/// ```
/// use std::time::Duration;
/// use tinymcp::{Principal, Server, TokenRefusal, TokenVerifier};
///
/// struct Introspection;
///
/// impl TokenVerifier for Introspection {
///     fn verify(&self, token: &str) -> Result<Principal, TokenRefusal> {
///         // Sends the token to the authorization server (RFC 7662) and reads its response.
///         let owner = token.strip_prefix("token-of-").ok_or(TokenRefusal::Invalid)?;
///         Ok(Principal::new(owner).scopes("pins:read"))
///     }
///     fn cache_time(&self) -> Duration {
///         Duration::from_secs(60)
///     }
/// }
///
/// let http = Server::new("board", "1.0.0").http().token_verifier(Introspection);
/// ```
pub trait TokenVerifier: Send + Sync {
    /// Checks a token. It must accept only tokens that were issued for this server, and must return
    /// within some seconds.
    ///
    /// # Errors
    /// The request must be rejected.
    fn verify(&self, token: &str) -> Result<Principal, TokenRefusal>;

    /// Returns the time for which a result is used again, at least one second. A token that is
    /// revoked is accepted for this time. The default is 10 s.
    fn cache_time(&self) -> Duration {
        Duration::from_secs(10)
    }
}

impl<F: Fn(&str) -> Result<Principal, TokenRefusal> + Send + Sync> TokenVerifier for F {
    fn verify(&self, token: &str) -> Result<Principal, TokenRefusal> {
        self(token)
    }
}

type Verified = Result<Arc<Principal>, TokenRefusal>;

enum Entry {
    Pending,
    Done { result: Verified, until: Instant },
}

/// Results of a verifier by the hash of the token.
struct Cache {
    verifier: Box<dyn TokenVerifier>,
    entries: Mutex<HashMap<[u8; 32], Entry>>,
    /// Wakes the event loop.
    mounts: Arc<MountTable>,
}

struct Job {
    hash: [u8; 32],
    token: String,
}

/// Returns the token check of a verifier. Its result is `None` while the token is being checked.
pub(in crate::server::http) fn check(
    verifier: Box<dyn TokenVerifier>,
    mounts: Arc<MountTable>,
) -> Box<super::TokenCheck> {
    let cache = Arc::new(Cache { verifier, entries: Mutex::default(), mounts });
    let worker = Arc::clone(&cache);
    let size = PoolSize { workers: WORKERS, queue: MAX_QUEUED, stack: STACK, idle: IDLE_WORKER };
    let pool = Pool::new(size, move |job: Job| worker.run(&job));
    Box::new(move |token| {
        let hash = Hash::hash(token.as_bytes());
        let now = Instant::now();
        {
            let mut entries = lock(&cache.entries);
            match entries.get(&hash) {
                Some(Entry::Pending) => return None,
                Some(Entry::Done { result, until }) if *until > now => return Some(result.clone()),
                _ => {}
            }
            make_room(&mut entries, now);
            entries.insert(hash, Entry::Pending);
        }
        if pool.try_submit(Job { hash, token: token.to_owned() }).is_ok() {
            return None;
        }
        lock(&cache.entries).remove(&hash);
        Some(Err(TokenRefusal::Unavailable))
    })
}

impl Cache {
    fn run(&self, job: &Job) {
        let result = guard(|| self.verifier.verify(&job.token));
        let result = result.unwrap_or(Err(TokenRefusal::Unavailable)).and_then(unexpired).map(Arc::new);
        let max = match &result {
            Ok(principal) => principal.lifetime().min(self.verifier.cache_time()),
            Err(TokenRefusal::Unavailable) => MIN_CACHE_TIME,
            Err(_) => self.verifier.cache_time(),
        };
        // A cache time beyond the range of the clock is shortened.
        let until = Instant::now() + max.clamp(MIN_CACHE_TIME, crate::limits::MAX_DURATION);
        lock(&self.entries).insert(job.hash, Entry::Done { result, until });
        self.mounts.wake();
    }
}

fn unexpired(principal: Principal) -> Result<Principal, TokenRefusal> {
    if principal.lifetime().is_zero() { Err(TokenRefusal::Invalid) } else { Ok(principal) }
}

/// Makes room for an entry. The number of pending entries is at most that of workers and queued
/// checks.
fn make_room(entries: &mut HashMap<[u8; 32], Entry>, now: Instant) {
    if entries.len() < MAX_RESULTS {
        return;
    }
    entries.retain(|_, entry| !matches!(entry, Entry::Done { until, .. } if *until <= now));
    if entries.len() < MAX_RESULTS {
        return;
    }
    let expiry = |(hash, entry): (&[u8; 32], &Entry)| match entry {
        Entry::Pending => None,
        Entry::Done { until, .. } => Some((*until, *hash)),
    };
    if let Some((_, hash)) = entries.iter().filter_map(expiry).min() {
        entries.remove(&hash);
    }
}

impl Principal {
    /// Returns the time until the token expires.
    fn lifetime(&self) -> Duration {
        let Some(expiry) = self.expiry else { return Duration::MAX };
        expiry.duration_since(SystemTime::now()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used)]

    use std::sync::mpsc;

    use super::*;

    /// Repeats the check until its result is known.
    fn result(check: &super::super::TokenCheck, token: &str) -> Result<String, TokenRefusal> {
        loop {
            match check(token) {
                Some(result) => return result.map(|principal| principal.name.to_string()),
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_token_is_checked_once_and_its_result_is_used_again() {
        let (checked, checks) = mpsc::channel();
        let verifier = move |token: &str| {
            checked.send(token.to_owned()).unwrap();
            match token {
                "a" => Ok(Principal::new("alice")),
                "old" => Ok(Principal::new("alice").expires_at(SystemTime::UNIX_EPOCH)),
                "panic" => panic!("verifier"),
                _ => Err(TokenRefusal::Invalid),
            }
        };
        let check = check(Box::new(verifier), Arc::default());
        for _ in 0..3 {
            assert_eq!(result(&*check, "a"), Ok("alice".to_owned()));
            assert_eq!(result(&*check, "b"), Err(TokenRefusal::Invalid));
            assert_eq!(result(&*check, "old"), Err(TokenRefusal::Invalid));
        }
        assert_eq!(result(&*check, "panic"), Err(TokenRefusal::Unavailable));
        let mut all: Vec<String> = checks.try_iter().collect();
        all.sort();
        assert_eq!(all, ["a", "b", "old", "panic"]);
    }

    #[test]
    fn checks_beyond_the_queue_are_rejected_at_once() {
        let (go, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let verifier = move |_: &str| {
            let _ = lock(&gate).recv();
            Ok(Principal::new("x"))
        };
        let check = check(Box::new(verifier), Arc::default());
        let refused = (0..WORKERS + MAX_QUEUED + 8).filter(|n| check(&n.to_string()).is_some()).count();
        assert!((8..=WORKERS + 8).contains(&refused), "{refused}");
        drop(go);
        assert_eq!(result(&*check, "0"), Ok("x".to_owned()));
    }

    #[test]
    fn the_result_that_expires_first_makes_room() {
        let (now, mut entries) = (Instant::now(), HashMap::new());
        for n in 0..MAX_RESULTS {
            let until = now + Duration::from_secs(1 + n as u64);
            let result = Err(TokenRefusal::Invalid);
            entries.insert(Hash::hash(n.to_string().as_bytes()), Entry::Done { result, until });
        }
        make_room(&mut entries, now);
        assert_eq!((entries.len(), entries.contains_key(&Hash::hash(b"0"))), (MAX_RESULTS - 1, false));
        entries.insert([0; 32], Entry::Pending);
        make_room(&mut entries, now + Duration::from_secs(10));
        assert_eq!((entries.len(), entries.contains_key(&[0; 32])), (MAX_RESULTS - 9, true));
    }
}
