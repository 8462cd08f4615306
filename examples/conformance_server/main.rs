//! The fixtures of the official conformance suite, exactly as its scenarios want them.
//!
//! ```sh
//! cargo run --release --features http-server,schema --example conformance_server -- 127.0.0.1:8080
//! conformance/server.sh                       # builds it and runs the suite in both revisions
//! ```
//!
//! Names and texts are the suite's; a server of one's own has no use for them.

mod asking;
mod offers;
mod plain;

use std::process::ExitCode;

use tinymcp::{Error, Server};

tinymcp::record! {
    /// No arguments at all.
    struct Nothing {}
}

fn server() -> Result<Server, Error> {
    let mut server = Server::new("conformance", env!("CARGO_PKG_VERSION"));
    server.logging().tools_may_change().prompts_may_change().resources_may_change().resource_updates();
    plain::add(&mut server)?;
    asking::add(&mut server)?;
    offers::add(&mut server)?;
    Ok(server)
}

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: conformance_server ADDRESS");
        return ExitCode::from(2);
    };
    let served = server().and_then(|server| {
        let bound = server.http().bind(&address)?;
        eprintln!("conformance_server: http://{}/mcp", bound.address());
        bound.serve()
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance_server: {error}");
            ExitCode::FAILURE
        }
    }
}
