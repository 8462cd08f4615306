//! A web page and MCP on one port, in a program that runs the HTTP server of the crate `tiny_http`.
//!
//! ```sh
//! cargo run --features tiny_http --example mounted -- --http 127.0.0.1:8080
//! curl http://127.0.0.1:8080/
//! tinymcp call echo text=hello --url http://127.0.0.1:8080/mcp
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tinymcp::{Server, Tool};

tinymcp::record! {
    struct Echo { text: String }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [option, address] = &words[..] else { return Err("usage: mounted --http ADDRESS".into()) };
    if option != "--http" {
        return Err(format!("unknown option {option}: expected --http").into());
    }
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let mut server = Server::new("mounted", env!("CARGO_PKG_VERSION"));
    server.tool(Tool::new("echo").description("Returns the text"), move |_, echo: Echo| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(echo.text)
    })?;
    let endpoint = server.http().endpoint()?;

    let http = tiny_http::Server::http(&**address).map_err(|error| format!("{address}: {error}"))?;
    tinymcp::stderr::write(format!("serving http://{}/mcp\n", http.server_addr()));
    for request in http.incoming_requests() {
        let (endpoint, calls) = (endpoint.clone(), Arc::clone(&calls));
        // An event stream holds its thread, so each request has one of its own.
        thread::Builder::new().stack_size(128 << 10).spawn(move || {
            if endpoint.serves(request.url()) {
                return endpoint.respond(request);
            }
            let page = format!("{} calls\n", calls.load(Ordering::Relaxed));
            request.respond(tiny_http::Response::from_string(page))
        })?;
    }
    Ok(())
}
