//! Schemas of typed tools pass the lint, and descriptors can be checked as they are.

use std::collections::BTreeMap;

use tinymcp::{Tool, choice, lint, record};

choice! {
    /// Output level
    pub enum Level { Low = "low", High = "high" }
}

record! {
    /// Where it is.
    pub struct Place { room: String [len ..=40], floor: i8 }
}

record! {
    struct Bounded {
        pin: u8 [0..=27],
        level: Level,
        label: String [len 1..=20],
        note: Option<String> [len ..=80],
        tags: Vec<String> [items ..=4, len ..=10],
        at: Place,
        spots: Vec<Place> [items ..=3],
        table: BTreeMap<String, u64> [items ..=8],
        ratio: f64 = 0.5,
        dry: bool = false,
    }
}

record! {
    struct Loose { text: String, list: Vec<u8>, inner: Option<Place> }
}

record! {
    struct Nothing {}
}

record! {
    struct Free { dry: Option<bool>, pin: u8 [..=27] = 4 }
}

fn of<T: record::Record>() -> Tool {
    Tool::new("t").description("d").input_schema(record::schema::<T>()).output_schema(record::schema::<T>())
}

#[test]
fn types_that_say_their_bounds_give_no_findings() {
    let nothing = Tool::new("n").input_schema(record::schema::<Nothing>());
    let free = Tool::new("f").description("d").input_schema(record::schema::<Free>());
    let tools = [of::<Bounded>(), nothing, free];
    let report = lint::check(&tools);
    assert_eq!((report.criticals, report.warnings), (0, 0), "{:#?}", report.findings);
    assert_eq!(report.tools, 3);
}

#[test]
fn types_without_bounds_give_warnings_about_size_only() {
    let report = lint::check(&of::<Loose>());
    assert_eq!(report.criticals, 0, "{:#?}", report.findings);
    assert_eq!(report.warnings, 4);
    assert!(report.findings.iter().all(|f| f.rule == "SCH-004"), "{:#?}", report.findings);
}

#[test]
fn a_tool_without_schema_is_an_open_object() {
    let report = lint::check(&vec![Tool::new("t")]);
    let found: Vec<&str> = report.findings.iter().map(|f| f.rule).collect();
    assert_eq!(found, ["SCH-002"]);
}
