//! Server on rmcp for `conformance/fixtures/peer_client/rmcp.rs`: tools that return results, report
//! progress, wait, and send requests to the client; a resource that changes; a prompt with
//! completion.
//!
//! Serves over HTTP until it is killed if the last argument is a port, else over standard streams
//! until the input ends.

// Sampling, roots and subscriptions in sessions are deprecated in the protocol.
#![allow(deprecated)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::handler::server::skill_catalog::SkillCatalog;
use rmcp::handler::server::{router::tool::ToolRouter, tool::InputResponses as Answers, wrapper::Parameters};
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::{ErrorData, ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};
use serde_json::{Value, json};
use tokio::sync::watch;

const NOTE: &str = "note://one";

#[derive(Clone)]
struct Peer {
    tool_router: ToolRouter<Self>,
    stopped: Arc<AtomicBool>,
    /// Number of changes of the note.
    touched: watch::Sender<u32>,
    tasks: TaskManager,
    skills: Arc<SkillCatalog>,
}

impl Peer {
    fn new() -> Peer {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/skills");
        Peer {
            tool_router: Peer::tool_router(),
            stopped: Arc::default(),
            touched: watch::Sender::new(0),
            tasks: TaskManager::new(),
            skills: Arc::new(SkillCatalog::from_dir(folder).expect("the skills of the fixtures")),
        }
    }
}

impl Peer {
    /// Starts a task with this result.
    fn task<F>(&self, work: impl FnOnce(TaskContext) -> F) -> CallToolResponse
    where
        F: Future<Output = Result<String, TaskExit>> + Send + 'static,
    {
        let task = self.tasks.spawn(TaskOptions::new().with_poll_interval_ms(20), |context| {
            let work = work(context);
            Box::pin(async move { Ok(CallToolResult::success(vec![ContentBlock::text(work.await?)])) })
        });
        CallToolResponse::Task(CreateTaskResult::new(task))
    }
}

/// Result of a request to the client. Without a session the result of the tool is `input_required`,
/// and the client calls again with the response. In a session the server sends the request itself.
async fn answered(
    context: &RequestContext<RoleServer>,
    Answers(answers): Answers,
    question: InputRequest,
    tell: impl FnOnce(Value) -> String,
) -> Result<CallToolResponse, ErrorData> {
    let answer = if context.protocol_version() == Some(ProtocolVersion::V_2026_07_28) {
        match answers.and_then(|mut answers| answers.remove("answer")) {
            Some(answer) => answer,
            None => {
                let questions = InputRequests::from([("answer".to_owned(), question)]);
                return Ok(InputRequiredResult::new(Some(questions), None).into());
            }
        }
    } else {
        let peer = &context.peer;
        let answer = match question {
            InputRequest::Elicitation(asked) => peer.create_elicitation(asked.params).await.map(|a| json!(a)),
            InputRequest::CreateMessage(asked) => peer.create_message(asked.params).await.map(|a| json!(a)),
            _ => peer.list_roots().await.map(|a| json!(a)),
        };
        answer.map_err(|why| ErrorData::internal_error(why.to_string(), None))?
    };
    Ok(CallToolResult::success(vec![ContentBlock::text(tell(answer))]).into())
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
        // The client may have disconnected.
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

    #[tool(description = "Ask the user for a zone")]
    async fn zone(&self, answers: Answers, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let schema = json!({"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]});
        let requested_schema =
            serde_json::from_value(schema).map_err(|why| ErrorData::internal_error(why.to_string(), None))?;
        let question =
            ElicitRequestParams::FormElicitationParams { meta: None, message: "Which zone?".into(), requested_schema };
        let tell = |answer: Value| answer["content"]["zone"].as_str().unwrap_or("none").to_owned();
        answered(&context, answers, InputRequest::Elicitation(ElicitRequest::new(question)), tell).await
    }

    #[tool(description = "Ask the model for a colour")]
    async fn colour(
        &self,
        answers: Answers,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let question = CreateMessageRequestParams::new(vec![SamplingMessage::user_text("A colour?")], 10)
            .with_system_prompt("Be short.");
        let tell = |answer: Value| format!("{} says {}", answer["model"], answer["content"]["text"]).replace('"', "");
        answered(&context, answers, InputRequest::CreateMessage(CreateMessageRequest::new(question)), tell).await
    }

    #[tool(description = "Ask for the roots")]
    async fn roots(
        &self,
        answers: Answers,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tell = |answer: Value| answer["roots"][0]["uri"].as_str().unwrap_or("none").to_owned();
        answered(&context, answers, InputRequest::ListRoots(ListRootsRequest::default()), tell).await
    }

    #[tool(description = "Change the note")]
    async fn touch(&self, context: RequestContext<RoleServer>) -> String {
        if context.protocol_version() == Some(ProtocolVersion::V_2026_07_28) {
            self.touched.send_modify(|count| *count += 1);
        } else {
            // Only the client that subscribed calls this.
            let _ = context.peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(NOTE)).await;
        }
        "touched".to_owned()
    }

    #[tool(description = "Ask the user for a zone, as a task")]
    fn task_zone(&self) -> CallToolResponse {
        self.task(|context| async move {
            let schema = json!({"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]});
            let requested_schema = serde_json::from_value(schema)
                .map_err(|why| TaskExit::Error(ErrorData::internal_error(why.to_string(), None)))?;
            let message = "Which zone?".into();
            let question = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
            let question = InputRequest::Elicitation(ElicitRequest::new(question));
            let answer = context.request_input("zone", question).await?;
            Ok(answer["content"]["zone"].as_str().unwrap_or("none").to_owned())
        })
    }

    #[tool(description = "Wait until cancelled, as a task")]
    fn task_wait(&self) -> CallToolResponse {
        self.task(|context| async move {
            context.set_status_message("waiting");
            context.cancelled().await;
            Err(TaskExit::Cancelled)
        })
    }

    #[tool(description = "Fail, as a task")]
    fn task_fail(&self) -> CallToolResponse {
        self.task(|_| async { Err(TaskExit::Error(ErrorData::internal_error("it is broken", None))) })
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
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(offer).with_server_info(Implementation::new("rmcp-peer", "0.0.0"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(NOTE, "one")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match request.uri.as_str() {
            NOTE => {
                Ok(ReadResourceResult::new(vec![ResourceContents::text("first", request.uri)]).into())
            }
            uri => match self.skills.read_resource(uri) {
                Some(read) => Ok(read.into()),
                None => Err(ErrorData::resource_not_found("no such note", None)),
            },
        }
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(self.skills.list_skills())
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.skills.get_skill(&request.uri)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.skills.read_resource_directory(&request.uri)
    }

    async fn get_task(&self, request: GetTaskParams, _: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut touched = self.touched.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                _ = touched.changed() => {
                    // The client may have disconnected.
                    let _ = context.sink().notify_resource_updated(NOTE).await;
                }
            }
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
    let peer = Peer::new();
    let Some(port) = std::env::args().nth(1) else {
        peer.serve(stdio()).await?.waiting().await?;
        return Ok(());
    };
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(peer.clone()), sessions, Default::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            // The client reports a failed connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
