//! A server on rmcp: tools that answer, report and wait, a resource, a prompt with completion.
//!
//! What `examples/peer_client/rmcp.rs` expects stands here. Serves until standard input ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router, transport::stdio};

#[derive(Clone)]
struct Peer {
    tool_router: ToolRouter<Self>,
    stopped: Arc<AtomicBool>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Steps {
    steps: u32,
}

async fn step(context: &RequestContext<RoleServer>, done: u32, of: u32) {
    if let Some(token) = context.meta.get_progress_token() {
        let step = ProgressNotificationParam::new(token, f64::from(done)).with_total(f64::from(of));
        // The client may be gone.
        let _ = context.peer.notify_progress(step).await;
    }
}

#[tool_router]
impl Peer {
    #[tool(description = "Add two numbers")]
    fn add(&self, Parameters(sum): Parameters<Sum>) -> String {
        sum.a.saturating_add(sum.b).to_string()
    }

    #[tool(description = "Count, a step at a time")]
    async fn count(&self, Parameters(count): Parameters<Steps>, context: RequestContext<RoleServer>) -> String {
        for done in 1..=count.steps {
            step(&context, done, count.steps).await;
        }
        format!("counted to {}", count.steps)
    }

    #[tool(description = "Wait until cancelled")]
    async fn wait(&self, context: RequestContext<RoleServer>) -> String {
        step(&context, 1, 2).await;
        context.ct.cancelled().await;
        self.stopped.store(true, Ordering::SeqCst);
        String::new()
    }

    #[tool(description = "Whether the waiting was stopped")]
    fn stopped_waiting(&self) -> String {
        self.stopped.load(Ordering::SeqCst).to_string()
    }

    #[tool(description = "Fail")]
    fn fail(&self) -> Result<String, String> {
        Err("it is broken".to_owned())
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        let offer = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .build();
        ServerConfig::new(offer).with_server_info(Implementation::new("rmcp-peer", "0.0.0"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("note://one", "one")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match request.uri.as_str() {
            "note://one" => {
                Ok(ReadResourceResult::new(vec![ResourceContents::text("first", request.uri)]).into())
            }
            _ => Err(ErrorData::resource_not_found("no such note", None)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let name = PromptArgument::new("name").with_required(true);
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("greet", Some("Greets"), Some(vec![name]))]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.arguments.as_ref().and_then(|a| a.get("name")).and_then(|n| n.as_str());
        let text = format!("Greet {}", name.unwrap_or("nobody"));
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["anna", "anton", "berta"].map(str::to_owned);
        let values = known.into_iter().filter(|name| name.starts_with(&request.argument.value)).collect();
        let values = CompletionInfo::new(values).map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(values))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let peer = Peer { tool_router: Peer::tool_router(), stopped: Arc::default() };
    peer.serve(stdio()).await?.waiting().await?;
    Ok(())
}
