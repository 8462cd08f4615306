//! rmcp tuned: one thread, hyper without a router, TCP_NODELAY.
//!
//! Serves until it is killed, on any path.

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp_http::{Options, service};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_args();
    let listener = tokio::net::TcpListener::bind(&options.address).await?;
    let service = service(options.stateless);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            // The driver reports a failed connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
