//! Fuzz targets. One program contains all of them, because linking takes longer than compiling. The
//! environment variable `FUZZ_TARGET` selects one. `../fuzz.sh` builds and runs them.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

mod client;
mod config;
mod definition;
mod events;
mod headers;
mod http_request;
mod http_response;
mod input;
mod json;
mod lint;
mod pattern;
mod request_state;
mod schema;
mod server;
mod uri_template;
#[allow(dead_code)]
#[path = "../../../tests/server/sequence/rig.rs"]
mod rig;

type Target = fn(&[u8]);

/// All targets by name. `corpus/NAME` has the seeds, `dict/NAME` the dictionary, if there is one.
const TARGETS: &[(&str, Target)] = &[
    ("client", client::run),
    ("config", config::run),
    ("definition", definition::run),
    ("events", events::run),
    ("headers", headers::run),
    ("http_request", http_request::run),
    ("http_response", http_response::run),
    ("json", json::run),
    ("lint", lint::run),
    ("pattern", pattern::run),
    ("request_state", request_state::run),
    ("schema", schema::run),
    ("server", server::run),
    ("uri_template", uri_template::run),
];

static SELECTED: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
        let target = TARGETS.iter().find(|(known, _)| *known == name).expect("FUZZ_TARGET is a known target");
        SELECTED.get_or_init(|| target.1);
    },
    |data: &[u8]| {
        if let Some(target) = SELECTED.get() {
            target(data);
        }
    }
);
