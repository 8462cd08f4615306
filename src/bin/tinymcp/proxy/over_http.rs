//! The proxy over HTTP: its address, endpoints, pages and tokens.
//!
//! The address is opened before the servers start, so no server is started if an option is invalid
//! or the address is in use. Until the servers have started, clients wait, and a signal ends the
//! servers.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use signal_hook::consts::{SIGINT, SIGTERM};
use tinymcp::{BoundServer, Handle, Hub, Mounts, Server};

use super::configured::Reload;
use super::options::Options;
use super::own_endpoints::{self, OwnEndpoints};
use super::per_client::PerClient;
use super::traffic::Traffic;
use super::{description, exit, monitor};
use crate::Result;
use crate::http;
use crate::mutex::lock;
use crate::serve::{log, spawn};

/// Stack of the thread that waits for signals. Ending a server starts further threads.
const STACK: usize = 128 << 10;

/// The open address, and the server at it.
pub(super) struct OverHttp {
    bound: BoundServer,
    mounts: Mounts,
    per_client: Option<Arc<PerClient>>,
    has_tokens: bool,
    /// The HTTP server handles signals itself.
    serves: Arc<AtomicBool>,
    /// Locked from a signal that arrives before that to the end of the program.
    ending: Arc<Mutex<()>>,
}

impl OverHttp {
    /// Opens the address. Adds the tokens to those that are reloaded.
    ///
    /// # Errors
    /// The address is not available, or an option is not valid.
    pub(super) fn open(
        options: &Arc<Options>,
        address: &str,
        hub: &Hub,
        server: Server,
        traffic: Option<&Traffic>,
        reload: &mut Reload,
    ) -> Result<OverHttp> {
        let (serves, ending) = (Arc::<AtomicBool>::default(), Arc::<Mutex<()>>::default());
        end_at_signals(hub, server.handle(), &serves, &ending, traffic)?;
        let (http, tokens) = http::configure(server, &options.settings)?;
        let mut http = match options.pages.address {
            None => monitor::add_pages(http, &options.pages, hub),
            Some(_) => http,
        };
        if let Some(traffic) = traffic.filter(|_| options.logs.access.is_some()) {
            http = http.on_rejection(traffic.of_rejections());
        }
        let in_use = reload.configured.as_ref().map(|configured| configured.in_use());
        let per_client = options.per_client.then(|| Arc::new(PerClient::new(options, traffic, hub, in_use)));
        if let Some(per_client) = per_client.clone() {
            http = http.per_session(move || per_client.make(None));
        }
        let (mounts, has_tokens) = (http.mounts(), tokens.is_some());
        let bound = http::bind(http, address, options.from_aliases.path.as_deref())?;
        reload.tokens = tokens;
        Ok(OverHttp { bound, mounts, per_client, has_tokens, serves, ending })
    }

    /// Waits for the end of the program, if a signal has arrived.
    pub(super) fn wait_for_signal(&self) {
        drop(lock(&self.ending));
    }

    /// Serves the servers of the hub until a signal arrives.
    pub(super) fn serve(
        mut self,
        options: &Options,
        address: &str,
        hub: &Hub,
        traffic: Option<&Traffic>,
        mut reload: Reload,
    ) -> Result<()> {
        description::describe(self.bound.server(), &hub.servers());
        if options.has_multiple_servers() {
            let mut own = OwnEndpoints::new(hub, self.mounts, traffic, self.per_client);
            own.add_new();
            log(&format!("each server alone: {}", own_endpoints::path("NAME")));
            if let Some(configured) = &mut reload.configured {
                configured.own_endpoints = Some(own);
            }
        }
        reload.start()?;
        self.serves.store(true, Ordering::Release);
        http::serve(self.bound, address, options.from_aliases.path.as_deref(), self.has_tokens)
    }
}

/// Ends the servers and the program at SIGTERM and SIGINT until the HTTP server handles signals.
///
/// # Errors
/// The signal handlers or the thread are not available.
fn end_at_signals(
    hub: &Hub,
    server: Handle,
    serves: &Arc<AtomicBool>,
    ending: &Arc<Mutex<()>>,
    traffic: Option<&Traffic>,
) -> Result<()> {
    let failed = |error: std::io::Error| format!("SIGTERM: {error}");
    let (mut signals, sender) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGTERM, SIGINT] {
        let sender = sender.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, sender).map_err(failed)?;
    }
    let (hub, serves, traffic) = (hub.clone(), Arc::clone(serves), traffic.cloned());
    let ending = Arc::clone(ending);
    let wait = move || {
        while signals.read_exact(&mut [0]).is_ok() {
            if !serves.load(Ordering::Acquire) {
                let _ending = lock(&ending);
                hub.close();
                exit(0, traffic.as_ref());
            }
            // The server may not have registered its signal handlers yet.
            server.stop();
        }
    };
    spawn("proxy-signals", STACK, Box::new(wait)).map_err(failed)
}
