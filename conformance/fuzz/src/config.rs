//! Configuration files: every text is parsed or rejected with an error, and parsed entries have
//! valid keys. Comments and trailing commas change nothing.

use std::collections::HashSet;

use tinymcp::Config;
use tinymcp::json::without_comments;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let clean = without_comments(bytes);
    assert_eq!(clean.len(), bytes.len(), "positions have moved");
    assert_eq!(without_comments(&clean), clean, "a comment is left");
    let clean = std::str::from_utf8(&clean).expect("a comment is removed whole");
    match Config::parse(text) {
        Ok(config) => {
            let keys: Vec<String> = config.keys().map(str::to_owned).collect();
            let plain = Config::parse(clean).expect("the same without comments");
            assert!(plain.keys().eq(config.keys()), "comments change the keys");
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
