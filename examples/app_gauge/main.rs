//! App: a tool whose result hosts show as a live gauge.
//!
//! ```sh
//! cargo run --example app_gauge                                            # over stdio, for a host that shows apps
//! cargo run --example app_gauge --features http-server -- --http 127.0.0.1:8080
//! ```
//!
//! `gauge.html` is the page. It gets the result of the call from the host, and then calls the tool
//! `sample` once a second through the host. The sensor is the load of the machine, or a saw tooth
//! where the system has none.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use tinymcp::{AppPage, Error, Server, Tool, json};

const PAGE: &str = "ui://board/gauge";

/// Reads the sensor: the load of the last minute in per cent.
fn read_sensor() -> f64 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    load.map_or_else(|| f64::from(NEXT.fetch_add(7, Ordering::Relaxed) % 100), |load| load * 100.0)
}

fn server() -> Result<Server, Error> {
    let samples = AtomicU32::new(0);
    let mut server = Server::new("gauge", env!("CARGO_PKG_VERSION"));
    server
        .app(AppPage::new(PAGE, "Gauge", include_str!("gauge.html")).prefers_border(true))?
        .tool(
            Tool::new("load").description("Shows the load of the machine").read_only().app(PAGE),
            |_, ()| Ok(json!({"percent": (read_sensor()), "sample": 0})),
        )?
        // The page polls this tool; the model does not need it.
        .tool(
            Tool::new("sample").description("Reads the sensor once").read_only().only_for_app(PAGE),
            move |_, ()| {
                let sample = samples.fetch_add(1, Ordering::Relaxed) + 1;
                Ok(json!({"percent": (read_sensor()), "sample": (sample)}))
            },
        )?;
    Ok(server)
}

fn serve() -> Result<(), Error> {
    let server = server()?;
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        #[cfg(feature = "http-server")]
        (Some("--http"), Some(address)) => {
            let bound = server.http().bind(&address)?;
            eprintln!("app_gauge: http://{}/mcp", bound.address());
            bound.serve()
        }
        _ => server.serve_stdio(),
    }
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("app_gauge: {error}");
            ExitCode::FAILURE
        }
    }
}
