//! Service and command line of both binaries of this package.
//!
//! Builds rmcp's Streamable HTTP service over the echo server of `benches/stdio`.
//!
//! # Invariants
//! - One route table for the lifetime of the process, so that no request builds one.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use rmcp_echo::Kept;

/// The service of both binaries.
pub type Service = StreamableHttpService<Kept, LocalSessionManager>;

/// Options of the command line: `--http ADDRESS [--stateless]`.
pub struct Options {
    /// Address of the listener.
    pub address: String,
    /// No sessions, and plain JSON responses: its fastest settings.
    pub stateless: bool,
}

impl Options {
    /// Reads the command line.
    pub fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let address = args.iter().position(|arg| arg == "--http");
        let address = address.and_then(|at| args.get(at + 1));
        Self {
            address: address.cloned().unwrap_or("127.0.0.1:0".into()),
            stateless: args.iter().any(|arg| arg == "--stateless"),
        }
    }
}

/// Creates the service, with sessions unless `stateless`.
pub fn service(stateless: bool) -> Service {
    let kept = Kept::new(0);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(!stateless)
        .with_json_response(stateless);
    StreamableHttpService::new(move || Ok(kept.clone()), Arc::new(LocalSessionManager::default()), config)
}
