//! Client on rmcp for `conformance/peers.sh`: tasks and skills of `conformance/fixtures/server`.
//!
//! ```text
//! rmcp-client tinymcp legacy|modern http://127.0.0.1:8080/mcp
//! rmcp-client tinymcp legacy|modern -- COMMAND [ARGUMENT]…
//! ```
//!
//! Prints `ok CHECK` or `FAIL CHECK: why` for each check; the exit code is 0 when all are ok.

use std::fmt::Debug;
use std::process::ExitCode;
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;

type Client = RunningService<RoleClient, ClientConfig>;

/// Pauses between two polls of a task, and their number.
const POLL: Duration = Duration::from_millis(20);
const POLLS: u32 = 3000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The name of the peer comes first, as in peer_client.
    let words: Vec<String> = std::env::args().skip(2).collect();
    let client = match open(&words).await {
        Ok(client) => client,
        Err(why) => {
            println!("FAIL connect: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut checks = vec![
        ("skills", skills(&client).await),
        ("skill", skill(&client).await),
        ("skill, files", files(&client).await),
        ("skill, folder", folder(&client).await),
        ("skill, unknown", unknown(client.get_skill(GetSkillRequestParams::new("skill://none/SKILL.md")).await)),
    ];
    if words[0] == "modern" {
        checks.push(("task", completed(&client, "slow_compute", json!({"seconds": 0, "label": "a"}), "a done").await));
        checks.push(("task, failing tool", failing(&client).await));
        checks.push(("task, protocol error", broken(&client).await));
        checks.push(("task, question", question(&client).await));
        checks.push(("task, cancel", cancel(&client).await));
        checks.push(("task, unknown", unknown(client.get_task(GetTaskParams::new("none")).await)));
    } else {
        checks.push(("no task in a session", session(&client).await));
    }
    let mut code = ExitCode::SUCCESS;
    for (name, result) in checks {
        match result {
            Ok(()) => println!("ok {name}"),
            Err(why) => {
                println!("FAIL {name}: {}", why.replace('\n', " "));
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

async fn open(words: &[String]) -> Result<Client, String> {
    let capabilities = ClientCapabilities::builder().enable_tasks().enable_elicitation().build();
    let config = ClientConfig::new(capabilities, Implementation::new("rmcp-client", "0.0.0"));
    let (mode, target) = match words {
        [mode, target @ ..] if mode == "legacy" => (ClientLifecycleMode::Initialize, target),
        [_, target @ ..] => {
            let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
            (ClientLifecycleMode::Discover { preferred_versions }, target)
        }
        [] => return Err("usage: rmcp-client tinymcp legacy|modern (URL | -- COMMAND…)".to_owned()),
    };
    match target {
        [dashes, program, arguments @ ..] if dashes == "--" => {
            let mut command = Command::new(program);
            command.args(arguments);
            let child = TokioChildProcess::new(command).map_err(text)?;
            config.serve_with_lifecycle(child, mode).await.map_err(text)
        }
        [url] => {
            let transport = StreamableHttpClientTransport::from_uri(url.as_str());
            config.serve_with_lifecycle(transport, mode).await.map_err(text)
        }
        _ => Err("expected a URL or a command".to_owned()),
    }
}

fn text(error: impl Debug) -> String {
    format!("{error:?}")
}

fn same<T: PartialEq + Debug>(got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("expected {expected:?}, got {got:?}")) }
}

fn unknown<T: Debug>(result: Result<T, ServiceError>) -> Result<(), String> {
    match result {
        Err(ServiceError::McpError(error)) => same(error.code, ErrorCode::INVALID_PARAMS),
        other => Err(format!("expected an error, got {other:?}")),
    }
}

async fn skills(client: &Client) -> Result<(), String> {
    let skills = client.list_all_skills().await.map_err(text)?;
    validate_skills(&skills).map_err(text)?;
    same(skills.iter().map(Skill::name).collect::<Vec<_>>(), vec!["calibration", "pinout"])
}

async fn calibration(client: &Client) -> Result<Skill, String> {
    let params = GetSkillRequestParams::new("skill://calibration/SKILL.md");
    Ok(client.get_skill(params).await.map_err(text)?.skill)
}

async fn skill(client: &Client) -> Result<(), String> {
    let skill = calibration(client).await?;
    skill.validate().map_err(text)?;
    same(skill.name(), "calibration")
}

/// Reads every file of the skill, and verifies it by rmcp.
async fn files(client: &Client) -> Result<(), String> {
    let skill = calibration(client).await?;
    let SkillResources::Files(files) = &skill.resources else { return Err(format!("{skill:?}")) };
    for file in files {
        let read = client.read_resource(ReadResourceRequestParams::new(file.uri.clone())).await.map_err(text)?;
        match read.contents.as_slice() {
            [ResourceContents::TextResourceContents { text, .. }] => {
                file.verify(text.as_bytes()).map_err(|why| format!("{}: {why:?}", file.uri))?
            }
            other => return Err(format!("{}: {other:?}", file.uri)),
        }
    }
    if files.len() > 1 { Ok(()) } else { Err(format!("{} files", files.len())) }
}

async fn folder(client: &Client) -> Result<(), String> {
    let params = ReadResourceDirectoryRequestParams::new("skill://calibration");
    let listed = client.read_resource_directory(params).await.map_err(text)?;
    let names: Vec<&str> = listed.resources.iter().map(|entry| entry.name.as_str()).collect();
    if names.contains(&"SKILL.md") { Ok(()) } else { Err(format!("{names:?}")) }
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> Result<CallToolResponse, String> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    client.call_tool_once(CallToolRequestParams::new(tool).with_arguments(arguments)).await.map_err(text)
}

/// Calls a tool. Returns the id of its task.
async fn task(client: &Client, tool: &'static str, arguments: Value) -> Result<String, String> {
    match call(client, tool, arguments).await? {
        CallToolResponse::Task(created) => Ok(created.task.task_id),
        other => Err(format!("not a task: {other:?}")),
    }
}

/// Polls a task until it does not work.
async fn settled(client: &Client, id: &str) -> Result<TaskPayload, String> {
    for _ in 0..POLLS {
        let state = client.get_task(GetTaskParams::new(id)).await.map_err(text)?.task;
        if state.status() != TaskStatus::Working {
            return Ok(state.payload);
        }
        tokio::time::sleep(POLL).await;
    }
    Err("the task does not end".to_owned())
}

fn result(payload: TaskPayload) -> Result<Value, String> {
    match payload {
        TaskPayload::Completed { result } => Ok(Value::Object(result)),
        other => Err(format!("not completed: {other:?}")),
    }
}

async fn completed(client: &Client, tool: &'static str, arguments: Value, expected: &str) -> Result<(), String> {
    let id = task(client, tool, arguments).await?;
    let result = result(settled(client, &id).await?)?;
    same(result["content"][0]["text"].as_str(), Some(expected))
}

async fn failing(client: &Client) -> Result<(), String> {
    let id = task(client, "failing_job", json!({})).await?;
    same(result(settled(client, &id).await?)?["isError"].as_bool(), Some(true))
}

async fn broken(client: &Client) -> Result<(), String> {
    let id = task(client, "protocol_error_job", json!({})).await?;
    match settled(client, &id).await? {
        TaskPayload::Failed { error } => same(error["code"].as_i64(), Some(-32603)),
        other => Err(format!("not failed: {other:?}")),
    }
}

async fn question(client: &Client) -> Result<(), String> {
    let id = task(client, "confirm_delete", json!({"filename": "x"})).await?;
    let TaskPayload::InputRequired { input_requests } = settled(client, &id).await? else {
        return Err("no question".to_owned());
    };
    same(input_requests.keys().map(String::as_str).collect::<Vec<_>>(), vec!["confirm"])?;
    let answer = json!({"action": "accept", "content": {"confirm": true}});
    let answers = InputResponses::from([("confirm".to_owned(), answer)]);
    client.update_task(UpdateTaskParams::new(id.as_str(), answers)).await.map_err(text)?;
    let result = result(settled(client, &id).await?)?;
    same(result["content"][0]["text"].as_str(), Some("Deleted x"))
}

async fn cancel(client: &Client) -> Result<(), String> {
    let id = task(client, "slow_compute", json!({"seconds": 60})).await?;
    client.cancel_task(CancelTaskParams::new(id.as_str())).await.map_err(text)?;
    same(settled(client, &id).await?.status(), TaskStatus::Cancelled)
}

/// The extension does not enable tasks in a session (requirement T26-20).
async fn session(client: &Client) -> Result<(), String> {
    match call(client, "slow_compute", json!({"seconds": 0, "label": "a"})).await? {
        CallToolResponse::Complete(_) => Ok(()),
        other => Err(format!("not an ordinary result: {other:?}")),
    }
}
