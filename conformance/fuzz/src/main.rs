//! Fuzz targets. One program holds all of them, because linking takes longer than compiling; the environment
//! variable `FUZZ_TARGET` selects one. `../fuzz.sh` builds and runs them.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

mod json;

type Target = fn(&[u8]);

/// Every target, by name. `corpus/NAME` holds its seeds; `dict/NAME` its dictionary, if it has one.
const TARGETS: &[(&str, Target)] = &[
    ("json", json::run),
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
