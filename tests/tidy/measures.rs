//! Figures of the tree that may only fall, each with its bound and its target.
//!
//! `cargo test --test tidy -- --nocapture measures` prints the table. A figure above its bound
//! fails the test. Lower the bound when a change lowers the figure for good.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A figure with its upper bound and its target.
struct Row {
    name: &'static str,
    value: f64,
    bound: f64,
    /// `None` for parts without a target.
    target: Option<f64>,
    /// The largest contributions, to help lower the figure.
    places: Vec<String>,
}

struct File {
    /// Path relative to the repository, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Code lines: no comments, no blank lines, no code for tests only.
    fn code(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut kept = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            if lines[at].trim_start().starts_with("#[cfg(test)]") {
                at = item_end(&lines, at + 1);
            } else {
                kept.push(lines[at]);
            }
            at += 1;
        }
        kept.retain(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"));
        kept
    }
}

/// Returns the last line of the item that starts at this line, including its attributes. That line
/// ends a statement or closes a brace at the indentation of the item, or ends a statement whose
/// later lines are indented. The source must be formatted.
fn item_end(lines: &[&str], start: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut at = start;
    while at < lines.len() && (lines[at].trim_start().starts_with("#[") || lines[at].trim().is_empty()) {
        if lines[at].trim_start().starts_with("#[") {
            while at + 1 < lines.len() && !lines[at].contains(']') {
                at += 1;
            }
        }
        at += 1;
    }
    let level = lines.get(at).map_or(0, |line| indent(line));
    // The next line belongs to another statement, or closes the block around the item.
    let is_over = |next: &str| indent(next) < level || !next.trim_start().starts_with(['}', ')', ']']);
    while at < lines.len() {
        let line = lines[at].trim_end();
        if indent(line) == level && (line.ends_with(';') || line.ends_with('}') || line.ends_with(',')) {
            return at;
        }
        let next = lines[at + 1..].iter().find(|line| !line.trim().is_empty());
        if line.ends_with(';') && next.is_some_and(|next| indent(next) <= level && is_over(next)) {
            return at;
        }
        at += 1;
    }
    lines.len()
}

#[test]
fn an_item_ends_with_its_own_last_line() {
    for (text, end) in [
        ("#[cfg(a)]\nfn a() {\n    b();\n}\nfn c() {}", 3),
        ("    #[cfg(a)]\n    let a =\n        b();\n    c();", 2),
        ("    #[cfg(a)]\n    let a =\n        b();\n}\n}", 2),
        ("    #[expect(\n        a,\n        b\n    )]\n    let a = b(\n        c,\n    );\n    d();", 6),
        ("    #[cfg(a)]\n    if b {\n        c();\n    } else {\n        d();\n    }\n    e();", 5),
        ("    #[cfg(a)]\n    a: B,\n    c: D,", 1),
    ] {
        assert_eq!(item_end(&text.lines().collect::<Vec<_>>(), 0), end, "{text}");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(folder: &str) -> Vec<File> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn top<T: Into<f64> + Copy + PartialOrd>(mut counted: Vec<(T, String)>, least: T) -> Vec<String> {
    counted.retain(|(n, _)| *n >= least);
    counted.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
    counted.into_iter().take(8).map(|(n, place)| format!("{} {place}", n.into())).collect()
}

#[test]
#[allow(clippy::print_stdout)]
fn measures_do_not_rise() {
    let source = read("src");
    assert!(source.len() > 100, "no sources found");
    let mut rows = vec![
        code_lines(&source),
        core_lines(&source),
        files(&source),
        folder_size(&source),
        circle(&source),
        feature_lines(&source),
        hub_lines(&source),
        headless(&source),
        old_names(&source),
        long_functions(&source),
        wide_structs(&source),
        message_reads(&source),
        wide_docs(&source),
        readme_lines(),
        readme_hidden(),
        test_binaries(),
    ];
    rows.extend(added_lines(&source));
    println!("{:<58} {:>8} {:>8} {:>8}", "figure", "today", "bound", "target");
    let mut faults = Vec::new();
    for row in &rows {
        let digits = usize::from(row.value.fract() != 0.0);
        let target = row.target.map_or_else(|| "-".to_owned(), |target| target.to_string());
        println!("{:<58} {:>8.digits$} {:>8} {target:>8}", row.name, row.value, row.bound);
        if row.value > row.bound {
            let places = row.places.join("\n    ");
            faults.push(format!("{}: {:.2} is above {}\n    {places}", row.name, row.value, row.bound));
        }
    }
    assert!(
        faults.is_empty(),
        "\n{}\nlower the figure, or raise its bound at the end of tests/tidy/measures.rs in the same \
         commit and give the reason",
        faults.join("\n")
    );
}

fn count_code<'f>(files: impl Iterator<Item = &'f File>) -> (f64, Vec<String>) {
    let counted: Vec<(u32, String)> = files
        .filter(|file| !file.is_test())
        .map(|file| (file.code().len() as u32, file.path.clone()))
        .collect();
    (f64::from(counted.iter().map(|(n, _)| n).sum::<u32>()), top(counted, 1))
}

/// Parts that were added after the target of the library was set; each has a row of its own.
const ADDED: [(&str, &[&str], f64); 11] = [
    ("code lines of the program tinymcp", &["src/bin/"], PROGRAM_LINES),
    ("code lines of the sign-in", &SIGN_IN, SIGN_IN_LINES),
    ("code lines of token checks by another server or by keys", &TOKEN_CHECKS, TOKEN_CHECK_LINES),
    ("code lines of skills and apps", &SKILLS, SKILL_LINES),
    ("code lines of extensions", &EXTENSIONS, EXTENSION_LINES),
    ("code lines of tasks", &TASKS, TASK_LINES),
    ("code lines of endpoints in other HTTP servers", &MOUNTED, MOUNTED_LINES),
    ("code lines of results that are cut", &["src/server/overflow.rs"], OVERFLOW_LINES),
    ("code lines of observers, visibility and limits on calls", &CALLERS, CALLER_LINES),
    ("code lines of child processes on Windows", &["src/transport/client/child/windows.rs"], WINDOWS_LINES),
    ("code lines of types of serde", &["src/serde/", "src/server/serde_tool.rs"], SERDE_LINES),
];
const SIGN_IN: [&str; 3] = ["src/oauth/", "src/transport/http_client/sign_in/", "src/error/"];
const TOKEN_CHECKS: [&str; 5] = [
    "src/server/http/auth/claims.rs",
    "src/server/http/auth/introspection.rs",
    "src/server/http/auth/jwks.rs",
    "src/server/http/auth/jwt.rs",
    "src/transport/http_client/document_client.rs",
];
const SKILLS: [&str; 4] =
    ["src/skills/", "src/model/skill.rs", "src/model/app.rs", "src/server/extension/apps.rs"];
const MOUNTED: [&str; 4] = [
    "src/server/http/relayed.rs",
    "src/server/http/tiny_http.rs",
    "src/transport/http_server/mailbox.rs",
    "src/transport/http_server/relay.rs",
];
const CALLERS: [&str; 4] =
    ["src/observe", "src/server/callers/", "src/model/timestamp.rs", "src/model/trace.rs"];
const EXTENSIONS: [&str; 3] = ["src/server/extension/", "src/era/extension/", "src/client/extension/"];
const TASKS: [&str; 3] = ["src/server/tasks/", "src/era/task.rs", "src/client/request/task.rs"];

fn is_added(file: &File) -> bool {
    ADDED.iter().any(|(_, paths, _)| paths.iter().any(|path| file.path.starts_with(path)))
}

fn code_lines(source: &[File]) -> Row {
    let (value, places) = count_code(source.iter().filter(|file| !is_added(file)));
    let name = "code lines of the library, without parts added later";
    // 36,000 with the program, which had 850 then.
    Row { name, value, bound: CODE_LINES, target: Some(35_150.0), places }
}

fn added_lines(source: &[File]) -> impl Iterator<Item = Row> {
    ADDED.iter().map(|&(name, paths, bound)| {
        let own = source.iter().filter(|file| paths.iter().any(|path| file.path.starts_with(path)));
        let (value, places) = count_code(own);
        Row { name, value, bound, target: None, places }
    })
}

/// True if a line is an attribute that excludes the next item from a build without features.
fn needs_feature(line: &str) -> bool {
    let line = line.trim();
    let condition = line.strip_prefix("#[cfg(").filter(|c| c.contains("feature = "));
    condition.is_some_and(|c| !c.starts_with("not(") && !c.starts_with("any(unix"))
}

/// The files of a build without the items that `gated` attributes exclude, found from `lib.rs` through
/// its `mod` items: the path and the lines of code of each.
fn compiled(source: &[File], gated: fn(&str) -> bool) -> Vec<(String, Vec<&str>)> {
    let by_path: BTreeMap<&str, &File> = source.iter().map(|file| (&*file.path, file)).collect();
    let mut open = vec!["src/lib.rs".to_owned()];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        let Some(file) = by_path.get(&*path) else { continue };
        let code = file.code();
        let mut lines = Vec::new();
        let mut at = 0;
        // A path in an attribute is relative to the folder of the file itself.
        let own_folder = folder(&path).to_owned();
        let folder = match path.strip_suffix("/mod.rs").or(path.strip_suffix("/lib.rs")) {
            Some(folder) => folder.to_owned(),
            None => path.trim_end_matches(".rs").to_owned(),
        };
        while at < code.len() {
            if gated(code[at]) {
                let alone = code[at].ends_with(")]");
                at = if alone { item_end(&code, at + 1) + 1 } else { at + 1 };
                continue;
            }
            lines.push(code[at]);
            let words: Vec<&str> = code[at].split_whitespace().collect();
            if let [.., "mod", name] = words[..] {
                let before = at.checked_sub(1).map_or("", |before| code[before].trim());
                let named = before.strip_prefix("#[path = \"").and_then(|path| path.strip_suffix("\"]"));
                match (name.strip_suffix(';'), named) {
                    (Some(_), Some(path)) => open.push(format!("{own_folder}/{path}")),
                    (Some(name), None) => {
                        open.push(format!("{folder}/{name}.rs"));
                        open.push(format!("{folder}/{name}/mod.rs"));
                    }
                    (None, _) => {}
                }
            }
            at += 1;
        }
        found.push((path, lines));
    }
    found
}

/// Counts the code of a build without features.
fn core_lines(source: &[File]) -> Row {
    let files = compiled(source, needs_feature);
    let counted: Vec<(u32, String)> =
        files.into_iter().map(|(path, code)| (code.len() as u32, path)).collect();
    let value = f64::from(counted.iter().map(|(n, _)| n).sum::<u32>());
    let places = top(counted, 1);
    let name = "code lines that a stdio server without features compiles";
    Row { name, value, bound: CORE_LINES, target: Some(11_500.0), places }
}

/// Names of the sign-in that its stand-ins lack.
const SIGN_IN_NAMES: [&str; 7] = [
    "mod oauth;",
    "Authorizer",
    "authorizer",
    "EndpointResponse",
    "SendAttempts",
    "AtomicU8::new(Distance",
    "AskingUser",
];

/// Programs without the feature `oauth` have no code of the sign-in: its types and calls are behind
/// `transport::http_client::sign_in` and `error::challenge`, whose stand-ins have size zero.
#[test]
fn sign_in_is_compiled_with_its_feature_only() {
    let source = read("src");
    let needs_sign_in = |line: &str| {
        let line = line.trim();
        line.starts_with("#[cfg(") && !line.starts_with("#[cfg(not(") && line.contains("feature = \"oauth\"")
    };
    let names = |line: &&str| SIGN_IN_NAMES.iter().any(|name| line.contains(name));
    let about = |line: &&str| !line.trim_start().starts_with("#[cfg");
    let mut faults = Vec::new();
    for (path, code) in compiled(&source, needs_sign_in) {
        faults.extend(code.into_iter().filter(names).filter(about).map(|line| format!("{path}: {line}")));
    }
    assert!(faults.is_empty(), "compiled without the feature `oauth`:\n{}", faults.join("\n"));
    // The names are those that the code has.
    let with: Vec<&str> = compiled(&source, |_| false).into_iter().flat_map(|(_, code)| code).collect();
    for name in SIGN_IN_NAMES {
        assert!(with.iter().any(|line| line.contains(name)), "{name} is no name of the sign-in");
    }
}

fn files(source: &[File]) -> Row {
    let value = source.iter().filter(|file| !file.is_test() && !is_added(file)).count() as f64;
    Row {
        name: "files of the library, without tests and parts added later",
        value,
        bound: FILES,
        target: Some(170.0),
        places: Vec::new(),
    }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn folder_size(source: &[File]) -> Row {
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for file in source.iter().filter(|file| !file.is_test()) {
        *sizes.entry(folder(&file.path)).or_default() += 1;
    }
    let counted: Vec<(u32, String)> = sizes.into_iter().map(|(path, n)| (n, path.to_owned())).collect();
    let value = f64::from(counted.iter().map(|(n, _)| *n).max().unwrap());
    Row {
        name: "files in the largest folder",
        value,
        bound: FOLDER_SIZE,
        target: Some(18.0),
        places: top(counted, 15),
    }
}

/// Sibling modules that a file imports: `super::name`, `super::{name, …}`, and the same with the
/// full path.
fn imports(file: &File) -> BTreeSet<String> {
    let folder = folder(&file.path).trim_start_matches("src").replace('/', "::");
    let full = format!("crate{folder}::");
    let text = file.code().join("\n");
    let mut found = BTreeSet::new();
    for prefix in ["super::", &full] {
        for (at, _) in text.match_indices(prefix) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &text[at + prefix.len()..];
            if let Some(list) = rest.strip_prefix('{') {
                let mut depth = 0;
                let mut word = String::new();
                for c in list.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => found.extend(first_name(&std::mem::take(&mut word))),
                        _ if depth == 0 => word.push(c),
                        _ => {}
                    }
                }
                found.extend(first_name(&word));
            } else {
                found.extend(first_name(rest));
            }
        }
    }
    found
}

fn first_name(path: &str) -> Option<String> {
    let name: String = path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The largest set of files of one folder that import each other, directly or not.
fn circle(source: &[File]) -> Row {
    let mut folders: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in source.iter().filter(|file| !file.is_test()) {
        folders.entry(folder(&file.path)).or_default().push(file);
    }
    let mut largest: Vec<(u32, String)> = Vec::new();
    for (path, files) in folders {
        let name = |file: &File| {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            name.trim_end_matches(".rs").to_owned()
        };
        let files: Vec<&File> =
            files.into_iter().filter(|f| !["mod", "lib", "main"].contains(&&*name(f))).collect();
        let names: Vec<String> = files.iter().map(|file| name(file)).collect();
        let mut reaches: Vec<Vec<bool>> = files
            .iter()
            .map(|file| {
                let imports = imports(file);
                names.iter().map(|other| imports.contains(other)).collect()
            })
            .collect();
        for via in 0..names.len() {
            for from in 0..names.len() {
                if reaches[from][via] {
                    let further = reaches[via].clone();
                    reaches[from].iter_mut().zip(further).for_each(|(known, more)| *known |= more);
                }
            }
        }
        let members = |at: usize| -> Vec<&str> {
            let inside =
                (0..names.len()).filter(|other| *other == at || reaches[at][*other] && reaches[*other][at]);
            inside.map(|n| &*names[n]).collect()
        };
        if let Some(circle) = (0..names.len()).map(members).max_by_key(Vec::len) {
            largest.push((circle.len() as u32, format!("{path}: {}", circle.join(" "))));
        }
    }
    let value = f64::from(largest.iter().map(|(n, _)| *n).max().unwrap());
    let name = "files in the largest circle of imports inside a folder";
    Row { name, value, bound: CIRCLE, target: Some(4.0), places: top(largest, 5) }
}

fn counted_lines(source: &[File], counts: impl Fn(&str) -> bool) -> (f64, Vec<String>) {
    let counted: Vec<(u32, String)> = source
        .iter()
        .map(|file| (file.text.lines().filter(|line| counts(line)).count() as u32, file.path.clone()))
        .collect();
    (f64::from(counted.iter().map(|(n, _)| n).sum::<u32>()), top(counted, 1))
}

fn feature_lines(source: &[File]) -> Row {
    // Examples in documentation also hide lines of other builds.
    let code = |line: &str| !line.trim_start().starts_with("//");
    let (value, places) = counted_lines(source, |line| code(line) && line.contains("cfg(feature"));
    Row { name: "lines with cfg(feature in src/", value, bound: FEATURE_LINES, target: Some(200.0), places }
}

fn hub_lines(source: &[File]) -> Row {
    let outside: Vec<File> = source
        .iter()
        .filter(|file| !file.path.starts_with("src/hub"))
        .map(|file| File { path: file.path.clone(), text: file.text.clone() })
        .collect();
    let (value, places) =
        counted_lines(&outside, |line| line.contains("cfg") && line.contains("feature = \"hub\""));
    Row {
        name: "lines with cfg of the hub outside src/hub",
        value,
        bound: HUB_LINES,
        target: Some(10.0),
        places,
    }
}

/// Words that start a headless clause.
const HEADLESS: [&str; 8] = ["What", "Who", "Whoever", "Whose", "How", "Which", "Whether", "Where"];

/// Sentences of the comments of a file.
fn sentences(text: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), String::new());
    let mut end = |open: &mut String| {
        let text = open.trim().to_owned();
        if text.split_whitespace().count() > 1 {
            found.push(text);
        }
        open.clear();
    };
    for line in text.lines() {
        let line = line.trim_start();
        let Some(words) = line.strip_prefix("//").map(|l| l.trim_start_matches(['/', '!']).trim()) else {
            end(&mut open);
            continue;
        };
        if words.is_empty() || words.starts_with(['#', '|', '-', '*', '`']) {
            end(&mut open);
        }
        let words = words.trim_start_matches(['#', '-', '*', ' ']);
        for word in words.split_whitespace() {
            open.push_str(word);
            open.push(' ');
            if word.ends_with(['.', '!', '?', ':']) && word.len() > 2 {
                end(&mut open);
            }
        }
    }
    end(&mut open);
    found
}

fn headless(source: &[File]) -> Row {
    let (mut all, mut some) = (0_u32, 0_u32);
    let mut counted = Vec::new();
    for file in source {
        let sentences = sentences(&file.text);
        let bad =
            sentences.iter().filter(|s| s.split_whitespace().next().is_some_and(|w| HEADLESS.contains(&w)));
        let bad = bad.count() as u32;
        counted.push((bad, file.path.clone()));
        all += sentences.len() as u32;
        some += bad;
    }
    let value = (f64::from(some) * 1000.0 / f64::from(all)).round() / 10.0;
    let name = "comment sentences that begin with What, Who, How … (%)";
    Row { name, value, bound: HEADLESS_SHARE, target: Some(4.0), places: top(counted, 1) }
}

/// Former names of files; each has a standard name now.
const OLD_FILES: &[&str] = &[
    "json/constant",
    "json/names",
    "json/spot",
    "json/typed",
    "json/decode",
    "json/order",
    "json/text",
    "json/write",
    "record/define",
    "record/rule",
    "model/ask/form",
    "model/ask/mod",
    "model/ask/sample",
    "model/relayed",
    "uri_template/search",
    "era/order",
    "era/read",
    "era/revision",
    "era/write/mod",
    "era/decode/relay",
    "modern/header/mirror",
    "schema/explain",
    "schema/index",
    "schema/number",
    "schema/survey",
    "schema/walk",
    "walk/combine",
    "walk/leaf",
    "walk/seen",
    "pattern/alphabet",
    "pattern/graph",
    "pattern/set",
    "pattern/table",
    "lint/defect",
    "lint/host",
    "lint/part",
    "lint/view",
    "lint/snapshot",
    "lint/tighten",
    "lint/compose",
    "lint/witness",
    "transport/carrier",
    "transport/line",
    "transport/pipe",
    "transport/stream",
    "http_client/guard",
    "http_client/pair",
    "http_client/wire",
    "http_client/listen",
    "http_client/exchange",
    "http_client/crew",
    "http_server/engine",
    "http_server/conn",
    "http_server/inbox",
    "http_server/wire",
    "http_server/answer",
    "http_server/exchange",
    "http_server/listen",
    "http_server/pieces",
    "server/alarm",
    "server/core",
    "server/failure",
    "server/flight",
    "server/job",
    "server/later",
    "server/relay",
    "server/mask",
    "server/notice",
    "server/operation",
    "server/page",
    "server/post",
    "server/seal",
    "server/profile",
    "server/schema",
    "server/request",
    "server/tool",
    "server/reading",
    "server/again",
    "http/door",
    "http/gate",
    "http/refusal",
    "http/reply",
    "http/run",
    "http/service",
    "http/stream",
    "client/asked",
    "client/calls",
    "client/core",
    "client/desk",
    "client/exchange",
    "client/slot",
    "client/resend",
    "client/listen",
    "client/mirror",
    "client/output",
    "serve/passed",
    "serve/passing",
    "serve/updates",
    "tinymcp/live",
    "tinymcp/remote",
    "tinymcp/show",
    "json/alike",
    "json/kept",
];
const OLD_TYPES: &[&str] = &[
    "Inlet",
    "Outlet",
    "Carrier",
    "Sink",
    "Ear",
    "Drive",
    "Dial",
    "Patient",
    "Life",
    "Desk",
    "Counter",
    "Letterbox",
    "News",
    "Chore",
    "Wire",
    "Inbox",
    "Pieces",
    "Door",
    "Visit",
    "Gate",
    "Stop",
    "Work",
    "Conclusion",
    "Flight",
    "Seat",
    "Post",
    "Letter",
    "Alarm",
    "Bell",
    "Later",
    "Passed",
    "Passing",
    "Order",
    "Want",
    "Shelf",
    "Told",
    "Card",
    "To",
    "Spot",
    "Survey",
    "Why",
    "ServerOffer",
    "About",
    "Counts",
    "Standing",
    "LeftOut",
    "FormReply",
    "FormAnswer",
    "SampleReply",
    "SampleAnswer",
    "Baton",
    "Pace",
    "Quick",
];

fn old_names(source: &[File]) -> Row {
    let mut places = Vec::new();
    for file in source.iter().filter(|file| !file.is_test()) {
        let stem = file.path.trim_end_matches(".rs");
        places.extend(
            OLD_FILES.iter().filter(|old| stem.ends_with(&format!("/{old}"))).map(|_| file.path.clone()),
        );
        for line in file.code() {
            let mut words = line.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_');
            let kind = words.by_ref().find(|w| !["pub", "crate", "super", "", "unsafe"].contains(w));
            if kind.is_some_and(|k| ["struct", "enum", "trait", "type"].contains(&k)) {
                if let Some(name) = words.next().filter(|name| OLD_TYPES.contains(name)) {
                    places.push(format!("{}: {name}", file.path));
                }
            }
        }
    }
    let value = places.len() as f64;
    Row {
        name: "files and types with names of the deny-list",
        value,
        bound: OLD_NAMES,
        target: Some(0.0),
        places,
    }
}

fn long_functions(source: &[File]) -> Row {
    let mut long: Vec<(u32, String)> = Vec::new();
    for file in source.iter().filter(|file| !file.is_test()) {
        let tests = file.text.find("#[cfg(test)]\nmod tests {").unwrap_or(file.text.len());
        let lines: Vec<&str> = file.text[..tests].lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let start = line.trim_start();
            let function =
                ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn "].iter().any(|f| start.starts_with(f));
            if function && !line.trim_end().ends_with(';') {
                let length = item_end(&lines, at) + 1 - at;
                if length > 60 {
                    long.push((length as u32, format!("{}:{}", file.path, at + 1)));
                }
            }
        }
    }
    let value = long.len() as f64;
    Row {
        name: "functions over 60 lines, without unit tests",
        value,
        bound: LONG_FUNCTIONS,
        target: Some(5.0),
        places: top(long, 1),
    }
}

fn wide_structs(source: &[File]) -> Row {
    let mut wide: Vec<(u32, String)> = Vec::new();
    for file in source.iter().filter(|file| !file.is_test()) {
        let code = file.code();
        for (at, line) in code.iter().enumerate() {
            if line.contains("struct ")
                && line.trim_end().ends_with('{')
                && !line.trim_start().starts_with('*')
            {
                let end = item_end(&code, at);
                let fields =
                    code[at + 1..end.max(at + 1)].iter().filter(|l| !l.trim_start().starts_with("#["));
                let fields = fields.filter(|l| l.contains(": ")).count();
                if fields > 15 {
                    wide.push((fields as u32, format!("{}: {}", file.path, line.trim())));
                }
            }
        }
    }
    let value = wide.len() as f64;
    Row {
        name: "structs with over 15 fields",
        value,
        bound: WIDE_STRUCTS,
        target: Some(4.0),
        places: top(wide, 1),
    }
}

fn message_reads(source: &[File]) -> Row {
    let mut places = Vec::new();
    for file in source.iter().filter(|file| !file.is_test() && file.path.starts_with("src/server")) {
        let calls = file.code().iter().map(|line| line.matches("Message::read(").count()).sum();
        places.extend(std::iter::repeat_n(file.path.clone(), calls));
    }
    let value = places.len() as f64;
    Row {
        name: "places of the server that read a message",
        value,
        bound: MESSAGE_READS,
        target: Some(1.0),
        places,
    }
}

fn wide_docs(source: &[File]) -> Row {
    let doc = |line: &str| {
        let line = line.trim_start();
        (line.starts_with("///") || line.starts_with("//!")) && !line.contains("http") && !line.contains('|')
    };
    let (value, places) = counted_lines(source, |line| doc(line) && line.chars().count() > 100);
    Row { name: "doc lines over 100 columns", value, bound: WIDE_DOCS, target: Some(0.0), places }
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

fn readme_lines() -> Row {
    let value = readme().lines().count() as f64;
    Row { name: "lines of the README", value, bound: README_LINES, target: Some(250.0), places: Vec::new() }
}

/// Lines that rustdoc hides and all other viewers show.
fn readme_hidden() -> Row {
    let (mut inside, mut places) = (false, Vec::new());
    for (n, line) in readme().lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.contains("rust");
        } else if inside && (line.starts_with("# ") || line == "#") {
            places.push(format!("README.md:{}: {line}", n + 1));
        }
    }
    let value = places.len() as f64;
    Row {
        name: "lines of the README that only rustdoc hides",
        value,
        bound: README_HIDDEN,
        target: Some(0.0),
        places,
    }
}

fn test_binaries() -> Row {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").exists() {
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    let value = names.len() as f64;
    Row { name: "test binaries", value, bound: TEST_BINARIES, target: Some(12.0), places: names }
}

// The bounds. They may only fall.
// 464 of them keep the clients and servers of a hub apart: requests of servers, names of servers that are down,
// lists of a new server, results that are not read, calls to silent servers, variables in filters. 5 for the characters
// that control a terminal, in one place. 203 read configuration files as other hosts write them.
const CODE_LINES: f64 = 47_092.0;
const WINDOWS_LINES: f64 = 200.0;
// 227 lines for masks that do not recurse and read messages, not only JSON; 3 for completions
// without names that a shell interprets; 18 to reject revoked tokens although their file has an error;
// 14 for both outputs of a failed program; 6 for JSON without characters that control a terminal;
// 15 for questions that type-ahead does not answer; 16 for long ids in logs; 19 to find a configuration above.
const PROGRAM_LINES: f64 = 16_587.0;
const SIGN_IN_LINES: f64 = 2863.0;
const TOKEN_CHECK_LINES: f64 = 480.0;
const SKILL_LINES: f64 = 1195.0;
// 2 unlock the files of a store when it is closed.
const TASK_LINES: f64 = 2269.0;
const EXTENSION_LINES: f64 = 560.0;
const SERDE_LINES: f64 = 1210.0;
const MOUNTED_LINES: f64 = 626.0;
const OVERFLOW_LINES: f64 = 125.0;
const CALLER_LINES: f64 = 1509.0;
// 30 of them bound pages and unread results in bytes.
const CORE_LINES: f64 = 15_382.0;
// One for the characters that control a terminal, two for the variables and addresses of configuration files.
const FILES: f64 = 261.0;
const FOLDER_SIZE: f64 = 18.0;
const CIRCLE: f64 = 4.0;
const FEATURE_LINES: f64 = 438.0;
const HUB_LINES: f64 = 8.0;
const HEADLESS_SHARE: f64 = 0.4;
const OLD_NAMES: f64 = 0.0;
const LONG_FUNCTIONS: f64 = 5.0;
const WIDE_STRUCTS: f64 = 7.0;
const MESSAGE_READS: f64 = 1.0;
const WIDE_DOCS: f64 = 0.0;
const README_LINES: f64 = 250.0;
const README_HIDDEN: f64 = 0.0;
const TEST_BINARIES: f64 = 12.0;
