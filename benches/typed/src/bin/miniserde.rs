//! Five tools, typed by miniserde, with schemas by hand.

use miniserde::{Deserialize, Serialize};
use tinymcp::json::Json;
use tinymcp::{Miniserde, Server, Tool};

#[derive(Deserialize, Serialize)]
enum Level {
    #[serde(rename = "low")]
    Low,
    #[serde(rename = "high")]
    High,
}

const ADD: Json = Json::constant(
    r#"{"type":"object","description":"Adds two numbers.","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}"#,
);

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

const SET_PIN: Json = Json::constant(
    r#"{"type":"object","properties":{"pin":{"type":"integer","description":"Number of the pin","minimum":0,"maximum":27},"level":{"type":"string","enum":["low","high"]},"hold_ms":{"type":"integer","minimum":0}},"required":["pin"]}"#,
);

#[derive(Deserialize)]
#[allow(dead_code)]
struct SetPin {
    pin: u8,
    level: Option<Level>,
    hold_ms: Option<u32>,
}

#[derive(Serialize)]
struct Pin {
    pin: u8,
    level: Level,
}

const SEARCH: Json = Json::constant(
    r#"{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":80},"tags":{"type":"array","items":{"type":"string"}},"limit":{"type":"integer","minimum":1,"maximum":20}},"required":["query"]}"#,
);

#[derive(Deserialize)]
struct Search {
    query: String,
    tags: Option<Vec<String>>,
    limit: Option<u8>,
}

#[derive(Serialize)]
struct Hit {
    id: u32,
    title: String,
    score: f64,
}

#[derive(Serialize)]
struct Hits {
    hits: Vec<Hit>,
}

const STATS: Json = Json::constant(
    r#"{"type":"object","properties":{"values":{"type":"array","items":{"type":"number"}}},"required":["values"]}"#,
);

#[derive(Deserialize)]
struct Stats {
    values: Vec<f64>,
}

#[derive(Serialize)]
struct Summary {
    count: u32,
    mean: f64,
}

const NOTE: Json = Json::constant(
    r#"{"type":"object","properties":{"text":{"type":"string"},"by":{"type":"string"}},"required":["text"]}"#,
);

#[derive(Deserialize)]
struct Note {
    text: String,
    by: Option<String>,
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("five", "1.0.0");
    let tool = |name, description, schema| Tool::new(name).description(description).input_schema(schema);
    server
        .inline_tool(tool("add", "Adds two numbers", ADD), |_, Miniserde(args): Miniserde<Add>| {
            Ok(Miniserde(Sum { sum: args.a.saturating_add(args.b) }))
        })?
        .inline_tool(tool("set_pin", "Sets a pin", SET_PIN), |_, Miniserde(args): Miniserde<SetPin>| {
            Ok(Miniserde(Pin { pin: args.pin, level: args.level.unwrap_or(Level::High) }))
        })?
        .inline_tool(tool("search", "Searches notes", SEARCH), |_, Miniserde(args): Miniserde<Search>| {
            let (tags, limit) = (args.tags.unwrap_or_default(), u32::from(args.limit.unwrap_or(10)));
            let hit = |id| Hit { id, title: args.query.clone(), score: tags.len() as f64 };
            Ok(Miniserde(Hits { hits: (0..limit.min(3)).map(hit).collect() }))
        })?
        .inline_tool(tool("stats", "Summarizes numbers", STATS), |_, Miniserde(args): Miniserde<Stats>| {
            let count = args.values.len();
            let mean = args.values.iter().sum::<f64>() / count as f64;
            Ok(Miniserde(Summary { count: count as u32, mean }))
        })?
        .inline_tool(tool("note", "Takes a note", NOTE), |_, Miniserde(args): Miniserde<Note>| {
            Ok(format!("{} says {}", args.by.unwrap_or("somebody".into()), args.text))
        })?;
    server.serve_stdio()
}
