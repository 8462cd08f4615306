//! Arguments and results of types that derive the traits of serde and schemars.
//!
//! Calls its own server in memory and prints the results.

#![allow(clippy::print_stdout)]

use std::thread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tinymcp::serde::to_json;
use tinymcp::{Client, Serde, Server, Tool, memory_links};

/// Measures a shape.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle {
        /// Radius in metres
        radius: f64,
    },
    Rectangle {
        width: f64,
        height: f64,
    },
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Area {
    /// Square metres
    area: f64,
}

fn server() -> Result<Server, tinymcp::Error> {
    let mut server = Server::new("shapes", "1.0.0");
    server.tool(Tool::new("area").read_only(), |_, Serde(shape): Serde<Shape>| {
        let area = match shape {
            Shape::Circle { radius } => std::f64::consts::PI * radius * radius,
            Shape::Rectangle { width, height } => width * height,
        };
        Ok(Serde(Area { area }))
    })?;
    Ok(server)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (near, far) = memory_links();
    let server = server()?;
    let serving = thread::spawn(move || server.serve(far));
    let client = Client::over(near)?;

    let shape = Shape::Rectangle { width: 2.0, height: 3.5 };
    let area: Area = client.call_tool("area", to_json(&shape)?)?.deserialize()?;
    println!("{} m²", area.area);

    // A mismatch names the place, what is expected and what was found.
    let wrong = serde_json::json!({"kind": "rectangle", "width": 2.0, "height": "tall"});
    println!("{}", client.call_tool("area", &wrong)?.texts());

    drop(client);
    serving.join().map_err(|_| "the server panicked")??;
    Ok(())
}
