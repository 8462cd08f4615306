//! Configuration files: every text is read or rejected in words, and what is read has usable keys.

use std::collections::HashSet;

use tinymcp::Config;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text) {
        Ok(config) => {
            let keys: Vec<String> = config.keys().map(str::to_owned).collect();
            let different: HashSet<&String> = keys.iter().collect();
            assert_eq!(different.len(), keys.len(), "a key twice");
            if let Ok(upstreams) = config.into_upstreams() {
                assert!(upstreams.iter().all(|(key, _)| keys.contains(key)), "a server without an entry");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
