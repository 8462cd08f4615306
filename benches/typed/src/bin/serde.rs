//! Five tools, typed by serde and schemars.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tinymcp::{Serde, Server, Tool};

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

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("five", "1.0.0");
    server
        .inline_tool(Tool::new("add").description("Adds two numbers"), |_, Serde(args): Serde<Add>| {
            Ok(Serde(Sum { sum: args.a.saturating_add(args.b) }))
        })?
        .inline_tool(Tool::new("set_pin").description("Sets a pin"), |_, Serde(args): Serde<SetPin>| {
            Ok(Serde(Pin { pin: args.pin, level: args.level }))
        })?
        .inline_tool(Tool::new("search").description("Searches notes"), |_, Serde(args): Serde<Search>| {
            let hit = |id| Hit { id, title: args.query.clone(), score: args.tags.len() as f64 };
            Ok(Serde(Hits { hits: (0..u32::from(args.limit).min(3)).map(hit).collect() }))
        })?
        .inline_tool(Tool::new("stats").description("Summarizes numbers"), |_, Serde(args): Serde<Stats>| {
            let count = args.values.len();
            Ok(Serde(Summary { count: count as u32, mean: args.values.iter().sum::<f64>() / count as f64 }))
        })?
        .inline_tool(Tool::new("note").description("Takes a note"), |_, Serde(args): Serde<Note>| {
            Ok(format!("{} says {}", args.by.unwrap_or("somebody".into()), args.text))
        })?;
    server.serve_stdio()
}
