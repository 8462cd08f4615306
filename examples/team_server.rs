//! A server for a team, over HTTP: each caller sees its own tools and has a limit, and each request
//! is logged and counted.
//!
//! ```sh
//! cargo run --example team_server --features full -- 127.0.0.1:8080
//! curl -s -H 'Authorization: Bearer ada-s3cret' http://127.0.0.1:8080/metrics
//! ```

use std::time::Duration;

use tinymcp::{CallLimit, CatalogEntry, RequestMetrics, Server, StatusPage, Tool};

tinymcp::record! {
    struct Deploy {
        /// Version to deploy.
        version: String,
    }
}

fn server() -> Result<Server, tinymcp::Error> {
    let mut server = Server::new("team", "1.0.0");
    server.tool(Tool::new("status").description("Shows the version that runs").read_only(), |_, ()| {
        Ok("1.4.2")
    })?;
    server.tool(Tool::new("deploy").description("Deploys a version"), |ctx, deploy: Deploy| {
        Ok(format!("{} deploys {}", ctx.principal().unwrap_or("nobody"), deploy.version))
    })?;
    // Only the operators see `deploy`; for others it does not exist.
    server.visible(|caller, entry| match entry {
        CatalogEntry::Tool(tool) if tool.name == "deploy" => caller.principal() == Some("ada"),
        _ => true,
    });
    server.limit_calls(CallLimit::new().rate(60, Duration::from_secs(60)).burst(10));
    server.limit_tool("deploy", CallLimit::new().concurrent(1).for_all_callers());
    // A function around the tools may reject a call with a message for the model.
    server.around_tools(|ctx, call, next| {
        if call.tool().name == "deploy" && std::env::var_os("FREEZE").is_some() {
            return Err(tinymcp::ToolError::new("deployments are frozen"));
        }
        next.run(ctx)
    });
    server.observe(tinymcp::access_log);
    Ok(server)
}

fn main() -> Result<(), tinymcp::Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let metrics = RequestMetrics::new();
    let mut server = server()?;
    server.observe(metrics.observer());
    let page = StatusPage::new("/metrics", RequestMetrics::MEDIA_TYPE, move || metrics.text());
    // A real server reads its tokens from a file, or asks the authorization server.
    server.http().tokens([("ada-s3cret", "ada"), ("bob-s3cret", "bob")]).page(page).serve(&address)
}
