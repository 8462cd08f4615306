//! Tests of records and choices: exact schemas, reading, error messages.
//!
//! Every warning is an error, because the output of the macros is compiled in other crates.

#![deny(warnings, missing_docs, unreachable_pub, clippy::all)]

mod kinds;
mod read;
mod schema;
mod write;

use std::collections::BTreeMap;

use tinymcp::json::{Doc, Json};
use tinymcp::record::FromJson;
use tinymcp::{choice, record};

choice! {
    /// Output level
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub enum Level {
        /// Ground
        #[default]
        Low = "low",
        /// Supply
        /// voltage
        High = "high",
    }
}

choice! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Unit { Celsius, r#Kelvin }
}

record! {
    /// Where a sensor
    /// is mounted.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Place {
        room: String [len 1..],
        /// Metres above the floor
        height: f64 [-1.5..=12.0],
    }
}

record! {
    /// Switches a pin.
    ///
    /// - slow
    /// - safe
    #[derive(Clone, Debug, PartialEq)]
    pub struct Switch {
        /// Pin number in BCM counting
        pub pin: u8 [0..=27],
        /// Level to set
        pub level: Level = Level::High,
        /// Milliseconds to hold
        pub hold: Option<u32> [1..=60_000],
        note: String [len ..=8] = "",
        tags: Vec<String> [items ..=2, len 1..=3] = [],
        at: Place,
        /// Where it was before
        pub before: Option<Place>,
        dry_run as "dryRun": bool = false,
    }
}

record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Nothing {}
}

const MAX: i32 = 40;

record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Every {
        a: i8, b: i16, c: i32, d: i64, e: u8, f: u16, g: u32, h: u64,
        i: f32, j: f64, k: bool, l: String, m: Json,
        n: Vec<Option<i32>> [-MAX..=MAX],
        o: BTreeMap<String, Vec<Place>> [items 1..=2],
        p: Option<Vec<f64>> [0.5.., items 2..=2],
        q: u64 [..=18_446_744_073_709_551_615],
        r#type: Unit = Unit::Kelvin,
        s: i64 = i64::MIN,
        t: Option<Json>,
        u: f32 [0.0..=0.1] = 0.1,
        v: Vec<Vec<u8>> [items ..=3, ..=9],
        w: String = "a \"quoted\"\n",
        x: Nothing,
    }
}

fn parse(text: &str) -> Doc {
    Doc::parse(text.as_bytes()).expect(text)
}

fn read<T: FromJson>(text: &str) -> Result<T, String> {
    record::decode(parse(text).root()).map_err(|violation| violation.to_string())
}
