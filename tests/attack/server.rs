//! Server under attack: this program with [`ROLE`] set.

use tinymcp::json::Json;
use tinymcp::{Context, Resource, Server, Tool, ToolError};

/// If set, this process is the server. `files=N` limits its descriptors.
pub const ROLE: &str = "TEST_ATTACK_ROLE";

/// A resource with a long URI, so that each notification takes many bytes.
pub fn long_uri() -> String {
    format!("news:///{}", "x".repeat(1000))
}

/// Serves until the process is killed, and prints its address.
pub fn serve() {
    if let Some(files) = std::env::var(ROLE).ok().and_then(|role| role.strip_prefix("files=")?.parse().ok()) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
    }
    let mut server = Server::new("attacked", "1");
    server.resource_updates();
    let any = |name: &str| Tool::new(name).input_schema(Json::constant(r#"{"type":"object"}"#));
    server
        .tool(any("echo"), |_: &mut Context<'_>, arguments: Json| Ok(arguments.as_str().to_owned()))
        .unwrap();
    server.tool(any("flood"), flood).unwrap();
    let long_uri = Resource::new(long_uri(), "news");
    server.resource(long_uri, |_, _| Ok("nothing")).unwrap();
    let handle = server.handle();
    let update = move |_: &mut Context<'_>, _: Json| {
        handle.resource_updated(&self::long_uri())?;
        Ok("shouted")
    };
    server.tool(any("update"), update).unwrap();
    let bound = server.http().bind("127.0.0.1:0").unwrap();
    println!("{}", bound.address());
    bound.serve().unwrap();
}

/// Reports progress until the call is cancelled, faster than a client reads.
fn flood(ctx: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
    let text = "x".repeat(16 << 10);
    for n in 0..400 {
        ctx.progress(f64::from(n), None, Some(&text));
        if ctx.cancelled() {
            break;
        }
    }
    Ok("done".to_owned())
}
