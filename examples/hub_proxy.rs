//! Many servers as one: reads the configuration file that agent hosts have, starts its servers, and
//! offers what they offer over standard input and output, or over HTTP.
//!
//! ```text
//! cargo run --features hub --example hub_proxy -- servers.json
//! cargo run --features hub,http-server --example hub_proxy -- servers.json --http 127.0.0.1:8080
//! ```
//!
//! The file says `{"mcpServers": {"board": {"command": "board_server"}}}`. What cannot be offered is told on
//! standard error. The exit status is 2 when the file or the words cannot be used or served.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tinymcp::{Config, Error, ErrorKind, Hub, Server};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hub_proxy: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, address) = match &*arguments {
        [file] => (file, None),
        [file, option, address] if option == "--http" => (file, Some(address)),
        _ => return Err(Error::new(ErrorKind::Invalid, "usage: hub_proxy FILE [--http ADDRESS]")),
    };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::new(ErrorKind::Io, format!("{file} cannot be read")).with_source(e))?;
    let config = Config::parse(&text)?;

    let hub = Hub::builder("hub_proxy", env!("CARGO_PKG_VERSION")).build()?;
    let mut server = Server::new("hub_proxy", env!("CARGO_PKG_VERSION"));
    hub.export(&mut server)?;
    for (key, upstream) in config.into_upstreams()? {
        hub.add(key, upstream)?;
    }
    // Many hosts ask for the lists once, at the start.
    hub.wait_settled(Instant::now() + Duration::from_secs(5));
    for left in hub.left_out() {
        eprintln!("{}: {}: {}", left.server, left.name.as_deref().unwrap_or("a list"), left.error);
    }
    match address {
        None => server.serve_stdio(),
        #[cfg(feature = "http-server")]
        Some(address) => server.serve_http(address),
        #[cfg(not(feature = "http-server"))]
        Some(_) => Err(Error::new(ErrorKind::Invalid, "built without the feature http-server")),
    }
}
