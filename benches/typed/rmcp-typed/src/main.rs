//! The five tools of `../src/bin/serde.rs` on rmcp, with the same types.

use rmcp::{
    Json, ServiceExt, handler::server::wrapper::Parameters, schemars, schemars::JsonSchema, tool,
    tool_router, transport::stdio,
};
use serde::{Deserialize, Serialize};

/// Output level
#[derive(Deserialize, Serialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
enum Level {
    Low,
    #[default]
    High,
}

/// Adds two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct SetPin {
    /// Number of the pin
    #[schemars(range(max = 27))]
    pin: u8,
    #[serde(default)]
    level: Level,
    hold_ms: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Pin {
    pin: u8,
    level: Level,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    #[schemars(length(min = 1, max = 80))]
    query: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 20))]
    limit: u8,
}

fn ten() -> u8 {
    10
}

#[derive(Serialize, JsonSchema)]
struct Hit {
    id: u32,
    title: String,
    score: f64,
}

#[derive(Serialize, JsonSchema)]
struct Hits {
    hits: Vec<Hit>,
}

#[derive(Deserialize, JsonSchema)]
struct Stats {
    values: Vec<f64>,
}

#[derive(Serialize, JsonSchema)]
struct Summary {
    count: u32,
    mean: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    text: String,
    by: Option<String>,
}

#[derive(Clone)]
struct Five;

#[tool_router(server_handler)]
impl Five {
    #[tool(description = "Adds two numbers")]
    fn add(&self, Parameters(args): Parameters<Add>) -> Json<Sum> {
        Json(Sum { sum: args.a.saturating_add(args.b) })
    }

    #[tool(description = "Sets a pin")]
    fn set_pin(&self, Parameters(args): Parameters<SetPin>) -> Json<Pin> {
        Json(Pin { pin: args.pin, level: args.level })
    }

    #[tool(description = "Searches notes")]
    fn search(&self, Parameters(args): Parameters<Search>) -> Json<Hits> {
        let hit = |id| Hit { id, title: args.query.clone(), score: args.tags.len() as f64 };
        Json(Hits { hits: (0..u32::from(args.limit).min(3)).map(hit).collect() })
    }

    #[tool(description = "Summarizes numbers")]
    fn stats(&self, Parameters(args): Parameters<Stats>) -> Json<Summary> {
        let count = args.values.len();
        Json(Summary { count: count as u32, mean: args.values.iter().sum::<f64>() / count as f64 })
    }

    #[tool(description = "Takes a note")]
    fn note(&self, Parameters(args): Parameters<Note>) -> String {
        format!("{} says {}", args.by.unwrap_or("somebody".into()), args.text)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Five.serve(stdio()).await?.waiting().await?;
    Ok(())
}
