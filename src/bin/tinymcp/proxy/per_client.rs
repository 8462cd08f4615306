//! `--per-client`: each session over HTTP has its own process of each server.
//!
//! | client | processes |
//! |---|---|
//! | session protocol over HTTP | its own, from the first request until its session ends |
//! | stateless protocol over HTTP | those that all such clients share |
//! | standard input and output | one per server: there is only one client |
//!
//! A session keeps its servers when the configuration file is read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tinymcp::{Config, Error, Hub, Server, ServerStatus, Upstream};

use super::options::Options;
use super::traffic::Traffic;
use super::{START_TIMEOUT, configured, description};
use crate::credentials;
use crate::mutex::lock;
use crate::serve::log;

/// The servers of a configuration file in use, each with the configuration that has it.
pub(super) type InUse = Arc<Mutex<BTreeMap<String, Arc<Config>>>>;

/// Creates the servers of sessions.
pub(super) struct PerClient {
    options: Arc<Options>,
    traffic: Option<Traffic>,
    /// The hub of the clients without a session.
    shared: Hub,
    /// `None` without a configuration file.
    in_use: Option<InUse>,
    report: Arc<dyn Fn(&ServerStatus) + Send + Sync>,
}

impl PerClient {
    pub(super) fn new(
        options: &Arc<Options>,
        traffic: Option<&Traffic>,
        shared: &Hub,
        in_use: Option<InUse>,
    ) -> PerClient {
        let (options, traffic, shared) = (Arc::clone(options), traffic.cloned(), shared.clone());
        let report = Arc::new(super::reporter(&options, "the next session starts it again".to_owned()));
        PerClient { options, traffic, shared, in_use, report }
    }

    /// Creates a server for a session: of all servers, or of the one with this key. Does not wait:
    /// the processes are started when the client's first message has been read.
    ///
    /// # Errors
    /// No server can be added.
    pub(super) fn make(&self, only: Option<&str>) -> Result<Server, Error> {
        let made = self.try_make(only);
        made.inspect_err(|error| log(&format!("a session was refused: {error}")))
    }

    fn try_make(&self, only: Option<&str>) -> Result<Server, Error> {
        let report = Arc::clone(&self.report);
        let hub = super::builder(&self.options, self.traffic.as_ref());
        let hub = hub.on_status(move |status| report(status)).wait_for_client(START_TIMEOUT).build()?;
        let mut server = Server::new("tinymcp", env!("CARGO_PKG_VERSION"));
        match only {
            None => hub.export(&mut server)?,
            Some(key) => {
                hub.export_server(key, &mut server)?;
                let hub = hub.clone();
                server.on_shutdown(move || hub.close());
            }
        }
        let mut servers = self.shared.servers();
        servers.retain(|status| only.is_none_or(|only| status.server == only));
        description::describe(&mut server, &servers);
        for (key, upstream) in self.upstreams(&servers) {
            hub.add(key, upstream)?;
        }
        Ok(server)
    }

    /// Returns the upstreams with the keys of `servers`, in their order.
    fn upstreams(&self, servers: &[ServerStatus]) -> Vec<(String, Upstream)> {
        let Some(in_use) = &self.in_use else {
            let mut own = super::own_servers(&self.options);
            own.retain(|(key, _)| servers.iter().any(|status| status.server == *key));
            return own;
        };
        let in_use = lock(in_use).clone();
        let find = |status: &ServerStatus| {
            let config = Config::clone(in_use.get(&status.server)?);
            let network = &self.options.to_url.network;
            let (key, upstream) = config
                .into_upstreams_with_endpoints(|server, endpoint| {
                    network.apply(credentials::add(server, endpoint))
                })
                .into_iter()
                .find(|(key, _)| *key == status.server)?;
            Some((key, configured::with_options(upstream.ok()?, &self.options)))
        };
        servers.iter().filter_map(find).collect()
    }
}
