//! Endpoints of single servers, beside the one of all servers: `/servers/NAME/mcp`.
//!
//! The tools have their own names there. Both endpoints of a server share its process, the tokens,
//! the allowed hosts and the limits.

use std::collections::BTreeSet;

use tinymcp::{Hub, Mounts, Server};

use super::description;
use super::traffic::Traffic;
use crate::serve::log;

pub(super) struct OwnEndpoints {
    hub: Hub,
    mounts: Mounts,
    traffic: Option<Traffic>,
    /// Keys of the servers with an endpoint.
    keys: BTreeSet<String>,
}

impl OwnEndpoints {
    pub(super) fn new(hub: &Hub, mounts: Mounts, traffic: Option<&Traffic>) -> OwnEndpoints {
        OwnEndpoints { hub: hub.clone(), mounts, traffic: traffic.cloned(), keys: BTreeSet::new() }
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

    /// Adds an endpoint for each server that has none; returns the keys. A server that is not
    /// connected has no instructions there.
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
            match exported.and_then(|()| self.mounts.add(path(key), server)) {
                Ok(()) => {
                    self.keys.insert(key.clone());
                    added.push(key.clone());
                }
                Err(error) => log(&format!("{key}: no endpoint of its own: {error}")),
            }
        }
        added
    }
}

/// Path of the endpoint of the server with this key, which has no character of a path.
pub(super) fn path(key: &str) -> String {
    format!("/servers/{key}/mcp")
}
