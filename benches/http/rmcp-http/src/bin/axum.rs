//! rmcp in the form of its examples, on axum and the multi-threaded runtime, with TCP_NODELAY.
//!
//! Serves until it is killed. Without TCP_NODELAY, axum's default, a call on a kept connection
//! takes 44 ms, which is not comparable.

use axum::serve::ListenerExt;
use rmcp_http::{Options, service};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_args();
    let listener = tokio::net::TcpListener::bind(&options.address).await?;
    let listener = listener.tap_io(|stream| {
        // A failure is visible in the figures.
        let _ = stream.set_nodelay(true);
    });
    let router = axum::Router::new().nest_service("/mcp", service(options.stateless));
    axum::serve(listener, router).await?;
    Ok(())
}
