//! Endpoints of single servers, in addition to the endpoint of all servers: `/servers/NAME/mcp`.
//!
//! Tools have the server's own names there. Both endpoints of a server share its process, the
//! tokens, the allowed hosts and the limits. With `--per-client` each session has its own process.

use std::collections::BTreeSet;
use std::sync::Arc;

use tinymcp::{Hub, Mounts, Server};

use super::description;
use super::per_client::PerClient;
use super::traffic::Traffic;
use crate::serve::log;

pub(super) struct OwnEndpoints {
    hub: Hub,
    mounts: Mounts,
    traffic: Option<Traffic>,
    per_client: Option<Arc<PerClient>>,
    /// Keys of the servers with an endpoint.
    keys: BTreeSet<String>,
}

impl OwnEndpoints {
    pub(super) fn new(
        hub: &Hub,
        mounts: Mounts,
        traffic: Option<&Traffic>,
        per_client: Option<Arc<PerClient>>,
    ) -> OwnEndpoints {
        let (hub, traffic) = (hub.clone(), traffic.cloned());
        OwnEndpoints { hub, mounts, traffic, per_client, keys: BTreeSet::new() }
    }

    /// Removes the endpoints of servers that the hub no longer has.
    pub(super) fn remove_old(&mut self) {
        let servers = self.hub.servers();
        let is_old = |key: &String| !servers.iter().any(|status| status.server == *key);
        for key in self.keys.iter().filter(|key| is_old(key)) {
            self.mounts.remove(&path(key));
        }
        self.keys.retain(|key| !is_old(key));
    }

    /// Adds an endpoint for each server without one; returns the keys. The endpoint of a server
    /// that is not connected has no instructions.
    pub(super) fn add_new(&mut self) -> Vec<String> {
        let mut added = Vec::new();
        for status in self.hub.servers() {
            let key = &status.server;
            if self.keys.contains(key) {
                continue;
            }
            let mut server = Server::new("tinymcp", env!("CARGO_PKG_VERSION"));
            if let Some(traffic) = &self.traffic {
                server.on_frame(traffic.of_clients(Some(key)));
            }
            description::describe(&mut server, std::slice::from_ref(&status));
            let exported = self.hub.export_server(key, &mut server);
            let mounted = exported.and_then(|()| match self.per_client.clone() {
                None => self.mounts.add(path(key), server),
                Some(per_client) => {
                    let only = key.clone();
                    self.mounts.add_per_session(path(key), server, move || per_client.make(Some(&only)))
                }
            });
            match mounted {
                Ok(()) => {
                    self.keys.insert(key.clone());
                    added.push(key.clone());
                }
                Err(error) => log(&format!("{key}: its own endpoint cannot be served: {error}")),
            }
        }
        added
    }
}

/// Returns the path of the endpoint of the server with this key. A key contains no `/`.
pub(super) fn path(key: &str) -> String {
    format!("/servers/{key}/mcp")
}
