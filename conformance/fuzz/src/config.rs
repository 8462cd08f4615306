//! Configuration files: every text is parsed or rejected with an error, and parsed entries have
//! valid keys.

use std::collections::HashSet;

use tinymcp::Config;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text) {
        Ok(config) => {
            let keys: Vec<String> = config.keys().map(str::to_owned).collect();
            let upstreams = config.into_upstreams();
            assert!(upstreams.iter().map(|(key, _)| key).eq(&keys), "the servers are not the entries");
            let mut usable = HashSet::new();
            for (key, upstream) in &upstreams {
                match upstream {
                    Ok(_) => assert!(usable.insert(key), "two servers have the key {key:?}"),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
