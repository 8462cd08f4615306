//! Five tools, typed by `record!`.

use tinymcp::{Server, Tool, choice, record};

choice! {
    /// Output level
    pub enum Level { Low = "low", High = "high" }
}

record! {
    /// Adds two numbers.
    struct Add { a: i64, b: i64 }
}
record! {
    struct Sum { sum: i64 }
}
record! {
    struct SetPin {
        /// Number of the pin
        pin: u8 [0..=27],
        level: Level = Level::High,
        hold_ms: Option<u32>,
    }
}
record! {
    struct Pin { pin: u8, level: Level }
}
record! {
    struct Search {
        query: String [len 1..=80],
        tags: Vec<String> = [],
        limit: u8 [1..=20] = 10,
    }
}
record! {
    struct Hit { id: u32, title: String, score: f64 }
}
record! {
    struct Hits { hits: Vec<Hit> }
}
record! {
    struct Stats { values: Vec<f64> }
}
record! {
    struct Summary { count: u32, mean: f64 }
}
record! {
    struct Note { text: String, by: Option<String> }
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("five", "1.0.0");
    server
        .inline_tool(Tool::new("add").description("Adds two numbers"), |_, args: Add| {
            Ok(Sum { sum: args.a.saturating_add(args.b) })
        })?
        .inline_tool(Tool::new("set_pin").description("Sets a pin"), |_, args: SetPin| {
            Ok(Pin { pin: args.pin, level: args.level })
        })?
        .inline_tool(Tool::new("search").description("Searches notes"), |_, args: Search| {
            let hit = |id| Hit { id, title: args.query.clone(), score: args.tags.len() as f64 };
            Ok(Hits { hits: (0..u32::from(args.limit).min(3)).map(hit).collect() })
        })?
        .inline_tool(Tool::new("stats").description("Summarizes numbers"), |_, args: Stats| {
            let count = args.values.len();
            Ok(Summary { count: count as u32, mean: args.values.iter().sum::<f64>() / count as f64 })
        })?
        .inline_tool(Tool::new("note").description("Takes a note"), |_, args: Note| {
            Ok(format!("{} says {}", args.by.unwrap_or("somebody".into()), args.text))
        })?;
    server.serve_stdio()
}
