//! The server under attack: this program again with [`ROLE`] set.

use tinymcp::json::Json;
use tinymcp::{Context, Resource, Server, Tool, ToolError};

/// Says that this process is to be the server; `files=N` bounds its descriptors.
pub const ROLE: &str = "TEST_ATTACK_ROLE";

/// A resource whose address is long, so that to tell of it takes many bytes.
pub fn news() -> String {
    format!("news:///{}", "x".repeat(1000))
}

/// Serves until it is killed, and says where on standard output.
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
    let news = Resource::new(news(), "news");
    server.resource(news, |_, _| Ok("nothing")).unwrap();
    let handle = server.handle();
    let shout = move |_: &mut Context<'_>, _: Json| {
        handle.resource_updated(&self::news())?;
        Ok("shouted")
    };
    server.tool(any("shout"), shout).unwrap();
    let bound = server.http().bind("127.0.0.1:0").unwrap();
    println!("{}", bound.address());
    bound.serve().unwrap();
}

/// Reports progress until nobody wants it, much faster than anybody reads.
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
