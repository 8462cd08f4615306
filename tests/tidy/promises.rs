//! Tests and scripts that manual and security policy cite exist, and their statements about
//! dependencies are true.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Pages that cite tests.
const PAGES: [&str; 3] = ["src/manual/elsewhere.md", "src/manual/security.md", "SECURITY.md"];

/// Text between backquotes on a page.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// True if `text` defines a test of this name: a function with `#[test]`, or one that a table of
/// its file refers to.
fn defines(text: &str, test: &str) -> bool {
    let Some(at) = text.find(&format!("fn {test}(")) else { return false };
    let attribute = text[..at].trim_end().ends_with("#[test]");
    let mentions = text.match_indices(test).filter(|(i, _)| {
        let bound = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        bound(text[..*i].chars().next_back()) && bound(text[i + test.len()..].chars().next())
    });
    attribute || mentions.count() > 1
}

#[test]
fn every_test_that_a_page_cites_exists() {
    let (mut faults, mut named) = (Vec::new(), 0);
    for page in PAGES {
        let text = read(page);
        for quote in quoted(&text) {
            let of_ours = ["tests/", "src/", "examples/", "conformance/", "benches/", "cross/"];
            if quote.contains('…') || !of_ours.iter().any(|folder| quote.starts_with(folder)) {
                continue;
            }
            named += 1;
            let (file, test) = quote.split_once("::").unwrap_or((quote, ""));
            let file = file.split(' ').next().unwrap_or_default();
            if !Path::new(&root()).join(file).exists() {
                faults.push(format!("{page}: {file} does not exist"));
            } else if !test.is_empty() && !defines(&read(file), test) {
                faults.push(format!("{page}: {file} has no test {test}; was it renamed?"));
            }
        }
    }
    assert!(named > 100, "the pages cite only {named} tests");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Package names and their dependencies, from Cargo.lock: all features of all targets, including
/// tests.
fn locked() -> BTreeMap<String, Vec<String>> {
    let text = read("Cargo.lock");
    let package = |block: &str| {
        let name = block.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"').to_owned();
        let dependencies = block.split_once("dependencies = [").map_or("", |(_, rest)| rest);
        let dependencies = dependencies.split('"').skip(1).step_by(2);
        Some((name, dependencies.map(|d| d.split(' ').next().unwrap_or_default().to_owned()).collect()))
    };
    let packages: BTreeMap<_, _> = text.split("[[package]]").filter_map(package).collect();
    assert!(packages.contains_key("tinymcp") && packages.len() > 10);
    packages
}

#[test]
fn no_async_runtime_and_no_c_code_outside_tls() {
    let packages = locked();
    for runtime in ["tokio", "async-std", "smol", "async-executor", "futures-executor"] {
        assert!(!packages.contains_key(runtime), "{runtime} is a dependency");
    }
    let users = |of: &str| -> Vec<&str> {
        let uses = packages.iter().filter(|(_, dependencies)| dependencies.iter().any(|d| d == of));
        uses.map(|(name, _)| name.as_str()).collect()
    };
    for tool in ["cmake", "bindgen", "pkg-config", "vcpkg", "nasm-rs"] {
        assert!(!packages.contains_key(tool), "{tool} is a dependency");
    }
    // `ring` has C code. Only rustls uses it, and only the feature `tls` enables rustls.
    assert_eq!(users("cc"), ["ring"]);
    assert_eq!(users("ring"), ["rustls", "rustls-webpki"]);
    assert_eq!(users("rustls"), ["tinymcp", "ureq"]);
    let manifest = read("Cargo.toml");
    let ureq = manifest.lines().find(|line| line.starts_with("ureq = ")).unwrap();
    assert!(ureq.contains("default-features = false") && !ureq.contains("rustls"), "{ureq}");
    let asking: Vec<&str> = manifest.lines().filter(|line| line.contains("rustls")).collect();
    assert!(asking.len() == 2 && asking[0].starts_with("tls = "), "{asking:?}");
    assert!(asking[1].starts_with("rustls = ") && asking[1].contains("optional = true"), "{asking:?}");
}

#[test]
fn a_stdio_server_depends_on_no_http_code() {
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("\ndefault = []\n"));
    for package in ["mio", "httparse", "listenfd", "ureq", "p256", "rsa"] {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{package} = "))).unwrap();
        assert!(line.contains("optional = true"), "{line}");
    }
    let packages = locked();
    let mut wanted = vec!["tinymcp".to_owned()];
    let mut found = std::collections::BTreeSet::new();
    // Packages that are needed without the dependencies of features.
    let optional = |name: &str| {
        manifest
            .lines()
            .any(|line| line.starts_with(&format!("{name} = ")) && line.contains("optional = true"))
    };
    while let Some(name) = wanted.pop() {
        if found.insert(name.clone()) {
            let dependencies = packages.get(&name).into_iter().flatten();
            wanted.extend(dependencies.filter(|d| name != "tinymcp" || !optional(d)).cloned());
        }
    }
    for package in ["mio", "httparse", "ureq", "ureq-proto", "http", "rustls", "ring"] {
        assert!(packages.contains_key(package) && !found.contains(package), "{package}");
    }
}
