//! Lint of tool catalogs: never panics; the fix is idempotent and leaves schemas that compile.

use tinymcp::lint::{self, OptionalProperties, PROFILES, Snapshot};
use tinymcp::schema::Schema;

use crate::input::Input;
use crate::schema::generate;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let optional = if input.byte() % 2 == 0 { OptionalProperties::Require } else { OptionalProperties::Keep };
    if input.byte() % 2 == 0 {
        if let Some(text) = input.rest() {
            check(text, optional);
        }
        return;
    }
    let tools: Vec<String> = (0..1 + input.below(2))
        .map(|n| format!("{{\"name\":\"t{n}\",\"inputSchema\":{}}}", generate(&mut input, 3, true)))
        .collect();
    check(&format!("{{\"tools\":[{}]}}", tools.join(",")), optional);
}

fn check(text: &str, optional: OptionalProperties) {
    let Ok(catalog) = Snapshot::parse(text) else { return };
    let before = lint::check(&catalog);
    let fixed = lint::fix(&catalog, optional);
    let tight = Snapshot::parse(&fixed.text).expect("the fix writes JSON");
    let again = lint::fix(&tight, optional);
    assert_eq!((again.changes, &again.text), (0, &fixed.text), "the fix of {text} is not idempotent");
    assert!(lint::check(&tight).criticals <= before.criticals, "the fix of {text} adds a critical finding");
    for (old, new) in catalog.tools().zip(tight.tools()) {
        let (Some(old), Some(new)) = (old.get("inputSchema"), new.get("inputSchema")) else { continue };
        if Schema::compile(old).is_ok() {
            if let Err(error) = Schema::compile(new) {
                panic!("the fix of {text} cannot be compiled: {error}\n{}", fixed.text);
            }
        }
    }
    for profile in PROFILES {
        if let Ok(copy) = lint::simplify(&catalog, profile) {
            Snapshot::parse(&copy.text).expect("a simplified catalog is JSON");
        }
    }
}
