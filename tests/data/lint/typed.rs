//! Lint of the schemas of typed tools, and of tool descriptors.

use std::collections::BTreeMap;

use tinymcp::{Tool, choice, lint, record};

choice! {
    /// Output level
    pub enum Level { Low = "low", High = "high" }
}

record! {
    /// A place in a building.
    pub struct Place {
        /// Name of the room
        room: String [len ..=40],
        /// Level, 0 is the ground
        floor: i8,
    }
}

record! {
    struct Bounded {
        /// The pin
        pin: u8 [0..=27],
        /// The level
        level: Level,
        /// The label
        label: String [len 1..=20],
        /// The note
        note: Option<String> [len ..=80],
        /// The tags
        tags: Vec<String> [items ..=4, len ..=10],
        /// The at
        at: Place,
        /// The spots
        spots: Vec<Place> [items ..=3],
        /// The table
        table: BTreeMap<String, u64> [items ..=8],
        /// The ratio
        ratio: f64 = 0.5,
        /// The dry
        dry: bool = false,
    }
}

record! {
    struct Loose {
        /// A text
        text: String,
        /// Some numbers
        list: Vec<u8>,
        /// A place
        inner: Option<Place>,
    }
}

record! {
    struct Nothing {}
}

record! {
    struct Free {
        /// Only checks
        dry: Option<bool>,
        /// Pin number
        pin: u8 [..=27] = 4,
    }
}

fn of<T: record::Record>() -> Tool {
    Tool::new("t").description("d").input_schema(record::schema::<T>()).output_schema(record::schema::<T>())
}

#[test]
fn types_with_bounds_and_docs_have_no_findings() {
    let nothing = Tool::new("n").description("d").input_schema(record::schema::<Nothing>());
    let free = Tool::new("f").description("d").input_schema(record::schema::<Free>());
    let tools = [of::<Bounded>(), nothing, free];
    let report = lint::check(&tools);
    assert_eq!((report.criticals, report.warnings), (0, 0), "{:#?}", report.findings);
    assert_eq!(report.tools, 3);
}

#[test]
fn types_without_bounds_have_warnings_about_size_only() {
    let report = lint::check(&of::<Loose>());
    assert_eq!(report.criticals, 0, "{:#?}", report.findings);
    // The output schema has no size limits either, but only inputs need them.
    assert_eq!(report.warnings, 2);
    assert!(report.findings.iter().all(|f| f.rule == "SCH-004"), "{:#?}", report.findings);
}

#[test]
fn a_tool_without_schema_is_an_open_object() {
    let report = lint::check(&vec![Tool::new("t")]);
    let found: Vec<&str> = report.findings.iter().map(|f| f.rule).collect();
    assert_eq!(found, ["TOOL-003", "SCH-002"]);
}
