//! Servers of a configuration file, and its reload.
//!
//! # Reload
//! The thread `proxy-reload` waits for SIGHUP. With `--watch` it checks the stamps of the
//! configuration file and of the token file every second. It opens the logs again at SIGHUP, reads
//! the tokens itself, and wakes the thread `proxy-config`, which reads the configuration. A new
//! file is compared with the servers in use, entry by entry.
//!
//! # Invariants
//! - A file that cannot be read changes nothing; an entry with an error changes nothing about the
//!   server with its key.
//! - The thread that reads the tokens never waits for a server, so that a token can be revoked
//!   while servers start or end.
//! - A server whose entry did not change keeps its process and its calls in flight.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tinymcp::{Config, Endpoint, Hub, Upstream};

use super::options::Options;
use super::own_endpoints::{self, OwnEndpoints};
use super::per_client::InUse;
use super::traffic::Traffic;
use super::{START_TIMEOUT, report_start, timeout};
use crate::Result;
use crate::credentials;
use crate::http::Tokens;
use crate::mutex::lock;
use crate::serve::{Hangups, Stamps, Wake, log, open, spawn};

/// Stack of the threads in bytes. Reading a configuration recurses as deep as its values.
const STACK: usize = 512 << 10;

/// The servers of a file, which are the servers of the hub.
pub(super) struct Configured {
    hub: Hub,
    file: PathBuf,
    options: Arc<Options>,
    traffic: Option<Traffic>,
    /// The servers in use, each with the configuration that it was added for.
    used: BTreeMap<String, Arc<Config>>,
    /// Over HTTP: the separate endpoints of the servers.
    pub(super) own_endpoints: Option<OwnEndpoints>,
    /// Copy of `used` for the servers of sessions.
    in_use: InUse,
}

impl Configured {
    pub(super) fn new(
        hub: &Hub,
        file: PathBuf,
        options: &Arc<Options>,
        traffic: Option<&Traffic>,
    ) -> Configured {
        let (options, traffic) = (Arc::clone(options), traffic.cloned());
        Configured {
            hub: hub.clone(),
            file,
            options,
            traffic,
            used: BTreeMap::new(),
            own_endpoints: None,
            in_use: InUse::default(),
        }
    }

    /// Returns the servers in use; the map also shows later reloads.
    pub(super) fn in_use(&self) -> InUse {
        Arc::clone(&self.in_use)
    }

    /// Reads the file and makes the hub's servers equal to it; returns the changes as a text.
    ///
    /// # Errors
    /// The file cannot be read or is not a configuration.
    pub(super) fn load(&mut self) -> Result<String> {
        let refusal = |why: &dyn std::fmt::Display| format!("{}: {why}", self.file.display());
        let text = open(&self.file).and_then(std::io::read_to_string).map_err(|error| refusal(&error))?;
        let config = Config::parse(&text).map_err(|error| refusal(&error))?;
        for warning in config.warnings() {
            log(&refusal(warning));
        }
        Ok(self.apply(config))
    }

    fn apply(&mut self, config: Config) -> String {
        let config = Arc::new(config);
        let mut changes = Vec::new();
        let gone = self.used.keys().filter(|key| !config.keys().any(|other| other == *key));
        let gone: Vec<String> = gone.cloned().collect();
        for key in &gone {
            self.used.remove(key);
            changes.push(format!("removed {key:?}"));
        }
        let (mut added, mut replaced) = (Vec::new(), Vec::new());
        let options = Arc::clone(&self.options);
        let traffic = self.traffic.clone();
        let change = |server: &str, endpoint: Endpoint| {
            if let Some(traffic) = &traffic {
                traffic.hide(credentials::query_values(endpoint.url()));
            }
            options.to_url.network.apply(credentials::add(server, endpoint))
        };
        for (key, upstream) in Config::clone(&config).into_upstreams_with_endpoints(change) {
            if self.used.get(&key).is_some_and(|old| old.has_same_server(&key, &config)) {
                continue;
            }
            let upstream = match upstream {
                Ok(upstream) => upstream,
                Err(error) => {
                    log(&error.to_string());
                    continue;
                }
            };
            let upstream = with_options(upstream, &self.options);
            if let Some(traffic) = &self.traffic {
                traffic.hide(upstream.secrets().iter().map(String::as_str));
            }
            let (change, list) = match self.used.contains_key(&key) {
                true => ("replaced", &mut replaced),
                false => ("added", &mut added),
            };
            changes.push(format!("{change} {key:?}"));
            list.push((key.clone(), upstream));
            self.used.insert(key, Arc::clone(&config));
        }
        end_and_replace(&self.hub, &gone, replaced);
        for (key, upstream) in added {
            if let Err(error) = self.hub.add(&*key, upstream) {
                log(&error.to_string());
                self.used.remove(&key);
                changes.retain(|change| *change != format!("added {key:?}"));
            }
        }
        lock(&self.in_use).clone_from(&self.used);
        if changes.is_empty() { "no server changed".to_owned() } else { changes.join(", ") }
    }

    fn reload(&mut self) {
        match self.load() {
            Ok(changes) => {
                log(&format!("reloaded: {changes}"));
                if let Some(own) = &mut self.own_endpoints {
                    own.remove_old();
                }
                report_start(&self.hub, START_TIMEOUT);
                for key in self.own_endpoints.iter_mut().flat_map(OwnEndpoints::add_new) {
                    log(&format!("{key}: serving {}", own_endpoints::path(&key)));
                }
            }
            Err(error) => log(&format!("{error}; the previous servers stay in use")),
        }
    }
}

/// Ends and replaces servers, all at the same time, because each may take seconds.
fn end_and_replace(hub: &Hub, gone: &[String], replaced: Vec<(String, Upstream)>) {
    let until = Instant::now() + START_TIMEOUT;
    let replaced: Vec<_> = replaced.into_iter().map(|(key, new)| (key, Mutex::new(Some(new)))).collect();
    let replace = |key: &str, new: &Mutex<Option<Upstream>>| {
        let Some(new) = lock(new).take() else { return };
        if let Err(error) = hub.replace(key, new, until) {
            log(&error.to_string());
        }
    };
    std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().stack_size(STACK);
        for key in gone {
            // OK to drop: the hub was closed.
            if thread().spawn_scoped(scope, || drop(hub.remove(key))).is_err() {
                drop(hub.remove(key));
            }
        }
        for (key, new) in &replaced {
            if thread().spawn_scoped(scope, || replace(key, new)).is_err() {
                replace(key, new);
            }
        }
    });
}

/// Applies the options of the command line to a server of the file.
pub(super) fn with_options(upstream: Upstream, options: &Options) -> Upstream {
    let upstream = match &options.prefix {
        Some(_) => upstream.prefix(""),
        None => upstream,
    };
    let upstream = match options.from_aliases.inherit_env {
        Some(true) => upstream.inherit_env(true),
        _ => upstream,
    };
    timeout(upstream, options)
}

/// State of the threads that reload.
pub(super) struct Reload {
    hangups: Hangups,
    /// With `--watch`: the stamps of the files before they were read.
    watched: Option<Stamps>,
    pub(super) configured: Option<Configured>,
    pub(super) tokens: Option<Arc<Tokens>>,
    traffic: Option<Traffic>,
}

impl Reload {
    /// Registers a handler, so that SIGHUP no longer ends the process, even without a file to
    /// reload. Called before the files are read.
    ///
    /// # Errors
    /// The signal handler cannot be registered.
    pub(super) fn new(options: &Options, traffic: Option<&Traffic>) -> Result<Reload> {
        let files: Vec<&PathBuf> = options.config.iter().chain(&options.settings.token_file).collect();
        let hangups = Hangups::register().map_err(|error| format!("SIGHUP: {error}"))?;
        let mut stamps = Stamps::default();
        stamps.extend(&mut files.into_iter().cloned());
        let (watched, traffic) = (options.watch.then_some(stamps), traffic.cloned());
        Ok(Reload { hangups, watched, configured: None, tokens: None, traffic })
    }

    /// Starts the thread that waits for SIGHUP, and a thread that reads the configuration file if
    /// there is one.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(mut self) -> Result<()> {
        let failed = |error: std::io::Error| format!("the thread that reloads cannot be started: {error}");
        let mut config = None;
        if let Some(mut configured) = self.configured.take() {
            // One queued wake-up is enough: the file is read after it.
            let (sender, wakes) = sync_channel(1);
            let run = move || wakes.iter().for_each(|()| configured.reload());
            spawn("proxy-config", STACK, Box::new(run)).map_err(failed)?;
            config = Some(sender);
        }
        let run = move || self.run(config.as_ref());
        spawn("proxy-reload", STACK, Box::new(run)).map_err(failed)
    }

    fn run(&mut self, config: Option<&SyncSender<()>>) {
        while let Some(wake) = self.hangups.wait(self.watched.is_some()) {
            if let Some(traffic) = self.traffic.as_ref().filter(|_| wake == Wake::Hangup) {
                traffic.reopen();
            }
            // Taken before reading, so that a later change is noticed.
            let changed = self.watched.as_mut().is_some_and(|stamps| !stamps.changed().is_empty());
            if wake == Wake::Hangup || changed {
                self.reload(config);
            }
        }
    }

    fn reload(&self, config: Option<&SyncSender<()>>) {
        if let Some(tokens) = &self.tokens {
            tokens.reload();
        }
        match config {
            // OK to ignore: a wake-up is queued already.
            Some(config) => _ = config.try_send(()),
            None if self.tokens.is_some() => log("reloaded"),
            None if self.traffic.is_none() => log("SIGHUP: there is no file to reload"),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_configuration_must_be_a_regular_file() {
        let hub = Hub::builder("test", "1").build().unwrap();
        let options = Arc::new(Options::default());
        let error = Configured::new(&hub, "/dev/null".into(), &options, None).load().unwrap_err();
        assert_eq!(error, "/dev/null: not a regular file");
    }

    #[test]
    fn a_wake_up_does_not_wait_for_the_configuration() {
        let hangups = Hangups::register().unwrap();
        let reload = Reload { hangups, watched: None, configured: None, tokens: None, traffic: None };
        let (sender, wakes) = sync_channel(1);
        for _ in 0..3 {
            reload.reload(Some(&sender));
        }
        assert_eq!(wakes.try_iter().count(), 1);
    }
}
