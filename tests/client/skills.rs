//! Skills between a client and a server of this library, in both eras: folders that are served,
//! files that must not be, and entries that a client must reject.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tinymcp::json::{Json, Value};
use tinymcp::skills::{Skill, SkillFolder};
use tinymcp::{
    CacheHint, Change, Client, ClientBuilder, Error, ErrorKind, Protocol, Resource, ResourceContents, Server,
    json, memory_links,
};

use super::scripted::{TIMEOUT, plain};

const BOTH: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

/// A folder that is removed at the end of its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tinymcp-skills-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn write(&self, path: &str, contents: impl AsRef<[u8]>) -> &Scratch {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    /// Writes a `SKILL.md` with the name of its folder.
    fn skill(&self, path: &str) -> &Scratch {
        let name = path.rsplit('/').next().unwrap();
        self.write(
            &format!("{path}/SKILL.md"),
            format!("---\nname: {name}\ndescription: Does {name}\n---\nText.\n"),
        )
    }

    fn server(&self) -> Server {
        let mut server = Server::new("s", "1");
        server.skills(SkillFolder::new(&self.0).cache(CacheHint { ttl_ms: 7, public: true })).unwrap();
        server
    }

    fn problems(&self) -> Vec<String> {
        SkillFolder::new(&self.0).check().unwrap().1
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Connected {
    client: Client,
    serving: Option<JoinHandle<Result<(), Error>>>,
}

impl Connected {
    fn new(server: Server, client: ClientBuilder, protocol: Protocol) -> Connected {
        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || server.serve(theirs));
        let client = client.protocol(protocol).over(ours).unwrap();
        Connected { client, serving: Some(serving) }
    }
}

impl std::ops::Deref for Connected {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.client.close();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn uris(skills: &[Skill]) -> Vec<&str> {
    skills.iter().map(|skill| skill.uri.as_str()).collect()
}

fn text(client: &Client, uri: &str) -> Result<String, Error> {
    let output = client.read_resource(uri)?;
    assert_eq!(output.contents.len(), 1);
    match &output.contents[0].body {
        tinymcp::Body::Text(text) => Ok(text.clone()),
        tinymcp::Body::Bytes(bytes) => Ok(format!("{bytes:?}")),
    }
}

// SKILL-03, SKILL-05, SKILL-06
#[test]
fn a_folder_of_skills_is_listed_with_digests_and_read() {
    let scratch = Scratch::new();
    scratch
        .skill("git-workflow")
        .write(
            "acme/refunds/SKILL.md",
            "---\nname: refunds\ndescription: Refunds\nmetadata: {version: '2.1'}\n---\nSee ref/a b.md",
        )
        .write("acme/refunds/ref/a b.md", "abc")
        .write("acme/refunds/data.bin", [0, 255])
        .write("acme/refunds/.git/config", "hidden")
        .write("acme/README.md", "belongs to no skill");
    for protocol in BOTH {
        let client = Connected::new(scratch.server(), plain(), protocol);
        let skills = client.skills().unwrap();
        assert_eq!(uris(&skills), ["skill://acme/refunds/SKILL.md", "skill://git-workflow/SKILL.md"]);
        let refunds = &skills[0];
        assert_eq!(
            refunds.frontmatter.as_str(),
            r#"{"name":"refunds","description":"Refunds","metadata":{"version":"2.1"}}"#
        );
        let files = refunds.files.as_ref().unwrap();
        let paths: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.size)).collect();
        assert_eq!(paths, [("SKILL.md", 84), ("data.bin", 2), ("ref/a b.md", 3)]);
        assert_eq!(files[2].uri, "skill://acme/refunds/ref/a%20b.md");
        // FIPS 180-2, appendix B.1.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(files[2].digest, abc);
        let same = client.skill(&refunds.uri).unwrap();
        assert_eq!(same.files, refunds.files);
        assert!(client.load_skill(refunds).unwrap().ends_with("See ref/a b.md"));
        assert_eq!(client.read_skill_file(refunds, "./ref/a b.md").unwrap(), b"abc");
        assert_eq!(client.read_skill_file(refunds, "data.bin").unwrap(), [0, 255]);
        let listed = client.resources().unwrap();
        let listed = listed.iter().find(|resource| resource.uri == refunds.uri).unwrap();
        assert_eq!(
            (listed.name.as_str(), listed.description.as_deref(), listed.mime_type.as_deref(), listed.size),
            ("refunds", Some("Refunds"), Some("text/markdown"), Some(84))
        );
        for uri in ["skill://acme/README.md", "skill://acme/refunds/.git/config", "skill://acme/refunds"] {
            assert_eq!(text(&client, uri).unwrap_err().code(), Some(not_found(protocol)), "{uri}");
        }
    }
}

/// Code of an unknown resource.
fn not_found(protocol: Protocol) -> i32 {
    if protocol == Protocol::Session { -32002 } else { -32602 }
}

// SKILL-01, SKILL-09
#[test]
fn results_have_the_members_of_their_revision() {
    let scratch = Scratch::new();
    scratch.skill("a");
    for protocol in BOTH {
        let client = Connected::new(scratch.server(), plain(), protocol);
        let settings = client.server().capabilities_json.to_doc();
        let settings =
            settings.root().pointer("/extensions/io.modelcontextprotocol~1skills").unwrap().to_json();
        assert_eq!(settings.as_str(), r#"{"directoryRead":true}"#);
        assert!(client.server().capabilities.resources);
        for (method, cached) in
            [("skills/list", true), ("skills/get", true), ("resources/directory/read", false)]
        {
            let uri = if method == "skills/get" { "skill://a/SKILL.md" } else { "skill://a" };
            let params = if method == "skills/list" { json!({}) } else { json!({"uri": uri}) };
            let result = client.request(method, params).unwrap().to_doc();
            let cached = cached && protocol == Protocol::Stateless;
            assert_eq!(result.root().get("ttlMs").and_then(Value::as_u64), cached.then_some(7), "{method}");
            let scope = result.root().get("cacheScope").and_then(Value::as_str);
            assert_eq!(scope, cached.then_some("public"), "{method}");
            assert!(result.root().get("nextCursor").is_none(), "{method}");
        }
    }
}

// SKILL-04
#[test]
fn a_nested_skill_is_a_skill_and_files_of_the_outer_one() {
    let scratch = Scratch::new();
    scratch.skill("outer").skill("outer/parts/inner").write("outer/parts/inner/x.txt", "x");
    let client = Connected::new(scratch.server(), plain(), Protocol::Stateless);
    let skills = client.skills().unwrap();
    assert_eq!(uris(&skills), ["skill://outer/SKILL.md", "skill://outer/parts/inner/SKILL.md"]);
    let paths = |skill: &Skill| {
        skill.files.as_ref().unwrap().iter().map(|file| file.path.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(paths(&skills[0]), "SKILL.md parts/inner/SKILL.md parts/inner/x.txt");
    assert_eq!(paths(&skills[1]), "SKILL.md x.txt");
    assert_eq!(client.read_skill_file(&skills[0], "parts/inner/x.txt").unwrap(), b"x");
}

// SKILL-10
#[test]
fn requests_for_anything_else_are_invalid() {
    let scratch = Scratch::new();
    scratch.skill("a").write("a/x.txt", "x").write("secret.txt", "s");
    let outside = Scratch::new();
    outside.write("secret.txt", "s");
    let up = format!("skill://../{}/secret.txt", outside.0.file_name().unwrap().to_str().unwrap());
    for protocol in BOTH {
        let client = Connected::new(scratch.server(), plain(), protocol);
        let code = |method: &str, params: Json| client.request(method, params).unwrap_err().code();
        for uri in [
            "skill://b/SKILL.md",
            "skill://a",
            "skill://a/x.txt",
            "skill://a/./SKILL.md",
            "file:///etc/passwd",
            "",
        ] {
            assert_eq!(code("skills/get", json!({"uri": uri})), Some(-32602), "{uri}");
        }
        for uri in [
            "skill://a/SKILL.md",
            "skill://b",
            "skill://a/",
            "skill://",
            "skill:///",
            "skill://a/..",
            "/etc",
            "",
        ] {
            assert_eq!(code("resources/directory/read", json!({"uri": uri})), Some(-32602), "{uri}");
        }
        for params in [json!({}), json!({"uri": 1}), json!({"uri": null})] {
            assert_eq!(code("skills/get", params.clone()), Some(-32602), "{params:?}");
            assert_eq!(code("resources/directory/read", params.clone()), Some(-32602), "{params:?}");
        }
        for cursor in [json!("x"), json!(1)] {
            assert_eq!(code("skills/list", json!({"cursor": cursor})), Some(-32602));
        }
        for uri in [
            "skill://secret.txt",
            "skill://a/../secret.txt",
            "skill://a/%2e%2e/secret.txt",
            "skill://a/..%2fsecret.txt",
            "skill://a%2fx.txt",
            "skill://a/%78.txt",
            "skill://a//x.txt",
            "skill://a/x.txt?y",
            "skill:///etc/passwd",
            &up,
        ] {
            assert_eq!(text(&client, uri).unwrap_err().code(), Some(not_found(protocol)), "{uri}");
        }
    }
}

#[test]
fn links_and_special_files_are_never_followed() {
    let outside = Scratch::new();
    outside.write("secret.txt", "s3cret").skill("linked");
    let scratch = Scratch::new();
    scratch.skill("good").write("good/x.txt", "x").write("good/sub/y.txt", "y").skill("bad").skill("piped");
    symlink(outside.at("secret.txt"), scratch.at("bad/link.txt")).unwrap();
    symlink(outside.at("linked"), scratch.at("linked")).unwrap();
    assert!(Command::new("mkfifo").arg(scratch.at("piped/pipe")).status().unwrap().success());
    fs::create_dir(scratch.at("aliased")).unwrap();
    symlink(outside.at("linked/SKILL.md"), scratch.at("aliased/SKILL.md")).unwrap();
    let problems = scratch.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (skill, why) in [("bad", "symbolic link"), ("piped", "neither a file"), ("aliased", "symbolic link")]
    {
        assert!(problems.iter().any(|p| p.contains(skill) && p.contains(why)), "{problems:?}");
    }
    let client = Connected::new(scratch.server(), plain(), Protocol::Stateless);
    let skills = client.skills().unwrap();
    assert_eq!(uris(&skills), ["skill://good/SKILL.md"]);
    // The same after the list was sent, for a file, a folder, and a pipe without a writer.
    fs::remove_file(scratch.at("good/x.txt")).unwrap();
    symlink(outside.at("secret.txt"), scratch.at("good/x.txt")).unwrap();
    assert_eq!(text(&client, "skill://good/x.txt").unwrap_err().code(), Some(-32602));
    fs::rename(scratch.at("good/sub"), scratch.at("good/old")).unwrap();
    outside.write("y.txt", "s3cret");
    symlink(&outside.0, scratch.at("good/sub")).unwrap();
    assert_eq!(text(&client, "skill://good/sub/y.txt").unwrap_err().code(), Some(-32602));
    fs::remove_file(scratch.at("good/x.txt")).unwrap();
    assert!(Command::new("mkfifo").arg(scratch.at("good/x.txt")).status().unwrap().success());
    assert_eq!(text(&client, "skill://good/x.txt").unwrap_err().code(), Some(-32602));
    // And the skill is no longer offered.
    assert_eq!(client.skills().unwrap().len(), 0);
}

// SKILL-02, SKILL-07
#[test]
fn skills_that_break_a_rule_are_left_out_with_the_reason() {
    let scratch = Scratch::new();
    let front = |name: &str, more: &str| format!("---\nname: {name}\n{more}\n---\n");
    scratch
        .skill("good")
        .write("SKILL.md", front("root", "description: d"))
        .write("other-name/SKILL.md", front("another", "description: d"))
        .write("Upper/SKILL.md", front("Upper", "description: d"))
        .write("no-description/SKILL.md", front("no-description", "license: x"))
        .write("number/SKILL.md", front("12", "description: d"))
        .write("long/SKILL.md", front("long", &format!("description: {}", "é".repeat(1025))))
        .write("plain/SKILL.md", "# No frontmatter\n")
        .write("twice/SKILL.md", front("twice", "description: d\nname: twice"))
        .write("group/one/SKILL.md", front("one", "description: d"))
        .write("group/one/tables/x/A.md", "a folder of a skill")
        .write("group/drafts/y/A.md", "")
        .write("notes/z/A.md", "")
        .write("notes.txt", "no folder")
        .write(".git/x/config", "")
        .write("lower/skill.md", front("lower", "description: d"))
        .skill("many")
        .skill("large")
        .skill("full");
    for n in 0..512 {
        scratch.write(&format!("many/{n}"), "");
        scratch.write(&format!("full/{n}"), "");
    }
    fs::remove_file(scratch.at("full/511")).unwrap();
    let sized = |path: &str, bytes: u64| {
        fs::File::create(scratch.at(path)).unwrap().set_len(bytes).unwrap();
    };
    sized("large/x", Skill::MAX_BYTES);
    let (skills, problems) = SkillFolder::new(&scratch.0).check().unwrap();
    assert_eq!(
        uris(&skills),
        ["skill://full/SKILL.md", "skill://good/SKILL.md", "skill://group/one/SKILL.md"]
    );
    assert_eq!(skills[0].files.as_ref().unwrap().len(), Skill::MAX_FILES);
    for (skill, why) in [
        ("SKILL.md:", "a folder of its own"),
        ("\"other-name\"", "must be the name of its folder"),
        ("\"Upper\"", "invalid name"),
        ("\"no-description\"", "no `description`"),
        ("\"number\"", "`name` must be a string"),
        ("\"long\"", "1025 characters"),
        ("\"plain\"", "first line"),
        ("\"twice\"", "line 4: duplicate key"),
        ("\"many\"", "513 files"),
        ("\"large\"", "bytes in all files"),
        ("\"lower\"", "no SKILL.md in it"),
        ("\"notes\"", "no SKILL.md in it"),
        ("\"group/drafts\"", "no SKILL.md in it"),
    ] {
        assert!(problems.iter().any(|p| p.contains(skill) && p.contains(why)), "{skill} {why}: {problems:?}");
    }
    assert_eq!(problems.len(), 13, "{problems:?}");
}

// SKILL-12, SKILL-16
#[test]
fn changes_of_the_folder_reach_clients_that_ask_again() {
    for protocol in BOTH {
        let scratch = Scratch::new();
        scratch.skill("a").write("a/x.txt", "one").skill("old");
        let (sender, changes) = mpsc::channel();
        let builder = plain().on_change(move |change| {
            if *change == Change::Resources {
                let _ = sender.send(());
            }
        });
        let mut server = scratch.server();
        server.read_cache(CacheHint { ttl_ms: 3_600_000, public: false });
        let client = Connected::new(server, builder, protocol);
        let before = client.skill("skill://a/SKILL.md").unwrap();
        assert_eq!(client.read_skill_file(&before, "x.txt").unwrap(), b"one");
        // Of the same size, and within the step of the clock of the file system.
        scratch.write("a/x.txt", "two");
        let error = client.read_skill_file(&before, "x.txt").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerMisbehaved);
        assert!(error.to_string().contains("digest"), "{error}");
        let now = client.skill("skill://a/SKILL.md").unwrap();
        assert_ne!(now.fingerprint(), before.fingerprint());
        assert_eq!(client.read_skill_file(&now, "x.txt").unwrap(), b"two");
        scratch.write("a/x.txt", "longer");
        let error = client.read_skill_file(&now, "x.txt").unwrap_err();
        assert!(error.to_string().contains("has 6 bytes, its entry says 3"), "{error}");
        fs::remove_dir_all(scratch.at("old")).unwrap();
        scratch.skill("new");
        assert_eq!(uris(&client.skills().unwrap()), ["skill://a/SKILL.md", "skill://new/SKILL.md"]);
        changes.recv_timeout(TIMEOUT).unwrap();
        let listed: Vec<_> = client.resources().unwrap().into_iter().map(|resource| resource.uri).collect();
        assert_eq!(listed, ["skill://a/SKILL.md", "skill://new/SKILL.md"]);
        assert!(client.load_skill(&client.skill("skill://new/SKILL.md").unwrap()).is_ok());
        // A folder that cannot be read keeps the last skills.
        fs::rename(&scratch.0, scratch.0.with_extension("moved")).unwrap();
        assert_eq!(client.skills().unwrap().len(), 2);
        fs::rename(scratch.0.with_extension("moved"), &scratch.0).unwrap();
    }
}

// SKILL-11
#[test]
fn folders_list_their_direct_children() {
    let scratch = Scratch::new();
    scratch.skill("acme/pdf").write("acme/pdf/templates/a.md", "a").write("acme/pdf/templates/eu/b.png", "b");
    scratch.write("acme/pdf/templates/c", "c").write("acme/notes.txt", "belongs to no skill");
    fs::create_dir(scratch.at("acme/pdf/empty")).unwrap();
    let client = Connected::new(scratch.server(), plain(), Protocol::Stateless);
    let children = |uri: &str| -> Vec<String> {
        let children = client.read_directory(uri).unwrap();
        children
            .iter()
            .map(|c| format!("{} {:?} {:?}", c.uri, c.mime_type.as_deref().unwrap_or(""), c.size))
            .collect()
    };
    assert_eq!(children("skill://acme"), [r#"skill://acme/pdf "inode/directory" None"#]);
    assert_eq!(
        children("skill://acme/pdf/templates"),
        [
            r#"skill://acme/pdf/templates/a.md "text/markdown" Some(1)"#,
            r#"skill://acme/pdf/templates/c "" Some(1)"#,
            r#"skill://acme/pdf/templates/eu "inode/directory" None"#,
        ]
    );
    assert_eq!(children("skill://acme/pdf/empty"), Vec::<String>::new());
    assert_eq!(children("skill://acme/pdf").len(), 3);
}

// SKILL-08
#[test]
fn long_lists_come_in_pages() {
    let scratch = Scratch::new();
    for n in 0..450 {
        scratch.skill(&format!("s{n:03}"));
    }
    scratch.skill("folder");
    for n in 0..450 {
        scratch.write(&format!("folder/sub/{n:03}"), "");
    }
    let client = Connected::new(scratch.server(), plain(), Protocol::Stateless);
    let skills = client.skills().unwrap();
    assert_eq!(skills.len(), 451);
    assert!(uris(&skills).is_sorted());
    let first = client.request("skills/list", json!({})).unwrap().to_doc();
    let count = first.root().get("skills").unwrap().len();
    let cursor = first.root().get("nextCursor").unwrap().to_json();
    assert!(count < 451, "{count}");
    // A skill that is removed between two pages shifts no other one.
    let next = first.root().get("skills").unwrap().items().last().unwrap();
    let last = next.get("uri").and_then(Value::as_str).unwrap();
    fs::remove_dir_all(scratch.at(&last["skill://".len()..last.len() - "/SKILL.md".len()])).unwrap();
    client.skills().unwrap();
    let second = client.request("skills/list", json!({"cursor": (cursor)})).unwrap().to_doc();
    let uri = second.root().pointer("/skills/0/uri").and_then(Value::as_str).unwrap();
    assert_eq!(Some(uri), skills.get(count).map(|skill| skill.uri.as_str()));
    let children = client.read_directory("skill://folder/sub").unwrap();
    assert_eq!(children.len(), 450);
    assert!(children.iter().map(|child| &child.uri).is_sorted());
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error_before_serving() {
    let missing = SkillFolder::new("/nonexistent/skills");
    assert_eq!(Server::new("s", "1").skills(missing.clone()).map(|_| ()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(missing.check().unwrap_err().kind(), ErrorKind::Io);
    let scratch = Scratch::new();
    scratch.skill("a");
    let mut server = scratch.server();
    let again = server.skills(SkillFolder::new(&scratch.0)).map(|_| ()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Misuse);
}

const SKILL_MD: &str = "---\nname: pdf\ndescription: Forms\n---\nText.\n";
const DIGEST: &str = "sha256:";

/// A server that sends this entry and this `SKILL.md`, with a counter of the files that it sent.
fn scripted(entry: Json, skill_md: &'static str) -> (Server, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let mut server = Server::new("s", "1");
    server.extension("io.modelcontextprotocol/skills", json!({})).unwrap();
    let listed = entry.clone();
    server.method("skills/list", move |_, _: Json| Ok(json!({"skills": [(listed.clone())]}))).unwrap();
    server.method("skills/get", move |_, _: Json| Ok(json!({"skill": (entry.clone())}))).unwrap();
    for (uri, text) in [("skill://pdf/SKILL.md", skill_md), ("skill://pdf/more.md", "abc")] {
        let reads = Arc::clone(&reads);
        let read = move |_: &mut tinymcp::Context<'_>, uri: &str| {
            reads.fetch_add(1, Ordering::Relaxed);
            Ok(ResourceContents::text(uri, text))
        };
        server.resource(Resource::new(uri, "x"), read).unwrap();
    }
    (server, reads)
}

fn digest_of(text: &str) -> String {
    let scratch = Scratch::new();
    scratch.skill("a").write("a/x", text);
    let (skills, _) = SkillFolder::new(&scratch.0).check().unwrap();
    skills[0].file("x").unwrap().digest.clone()
}

fn entry(files: Json) -> Json {
    json!({
        "uri": "skill://pdf/SKILL.md",
        "frontmatter": {"name": "pdf", "description": "Forms"},
        "resources": (files)
    })
}

fn listed(digest: &str, size: usize) -> Json {
    let more = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    entry(json!([
        {"uri": "skill://pdf/SKILL.md", "digest": (digest), "size": (size as u64)},
        {"uri": "skill://pdf/more.md", "digest": (more), "size": 3}
    ]))
}

// SKILL-13, SKILL-15
#[test]
fn a_client_reads_no_file_before_it_is_needed() {
    for protocol in BOTH {
        let (server, reads) = scripted(listed(&digest_of(SKILL_MD), SKILL_MD.len()), SKILL_MD);
        let client = Connected::new(server, plain(), protocol);
        let skill = client.skills().unwrap().remove(0);
        client.skill(&skill.uri).unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 0);
        assert_eq!(client.load_skill(&skill).unwrap(), SKILL_MD);
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        assert_eq!(client.read_skill_file(&skill, "more.md").unwrap(), b"abc");
        assert_eq!(client.read_skill_file(&skill, "other.md").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(client.read_skill_file(&skill, "../x").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }
}

// SKILL-12, SKILL-14
#[test]
fn a_client_rejects_contents_that_differ_from_their_entry() {
    let evil = "---\nname: pdf\ndescription: Evil!\n---\nText.\n";
    let more = "---\nname: pdf\ndescription: Forms\nallowed-tools: '*'\n---\nText.\n";
    let none = "Text without frontmatter.\n";
    for (text, digest, size, why) in [
        (SKILL_MD, format!("{DIGEST}{}", "0".repeat(64)), SKILL_MD.len(), "digest"),
        (SKILL_MD, digest_of(SKILL_MD), SKILL_MD.len() + 1, "its entry says"),
        (evil, digest_of(evil), evil.len(), "\"description\""),
        (more, digest_of(more), more.len(), "\"allowed-tools\""),
        (none, digest_of(none), none.len(), "first line"),
    ] {
        for protocol in BOTH {
            let client = Connected::new(scripted(listed(&digest, size), text).0, plain(), protocol);
            let skill = client.skill("skill://pdf/SKILL.md").unwrap();
            let error = client.load_skill(&skill).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PeerMisbehaved, "{error}");
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
    }
}

#[test]
fn a_client_verifies_the_frontmatter_of_a_generated_skill() {
    let client = Connected::new(scripted(entry(json!("dynamic")), SKILL_MD).0, plain(), Protocol::Stateless);
    let skill = client.skill("skill://pdf/SKILL.md").unwrap();
    assert_eq!((skill.files.is_none(), skill.fingerprint()), (true, None));
    assert_eq!(client.load_skill(&skill).unwrap(), SKILL_MD);
    assert_eq!(client.read_skill_file(&skill, "./more.md").unwrap(), b"abc");
    for path in ["../other/SKILL.md", "/etc/passwd", "a//b", ".."] {
        let error = client.read_skill_file(&skill, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}");
    }
    let other = SKILL_MD.replace("Forms", "Other");
    let other: &'static str = Box::leak(other.into_boxed_str());
    let client = Connected::new(scripted(entry(json!("dynamic")), other).0, plain(), Protocol::Stateless);
    assert!(client.load_skill(&skill).unwrap_err().to_string().contains("\"description\""));
}

// SKILL-07, SKILL-17
#[test]
fn invalid_entries_are_not_loaded() {
    let hash = format!("{DIGEST}{}", "0".repeat(64));
    let file = |uri: &str| json!({"uri": (uri), "digest": (hash.clone()), "size": 1});
    let own = || file("skill://pdf/SKILL.md");
    let upper = hash.replace('0', "A");
    for entry in [
        json!({"frontmatter": {"name": "pdf", "description": "d"}, "resources": "dynamic"}),
        json!({"uri": "skill://pdf/SKILL.md", "resources": "dynamic"}),
        json!({"uri": "skill://pdf/SKILL.md", "frontmatter": {"name": "pdf"}, "resources": "dynamic"}),
        json!({"uri": "skill://pdf/SKILL.md", "frontmatter": {"name": "pdf", "description": "d"}}),
        entry(json!(null)),
        entry(json!("static")),
        entry(json!({})),
        entry(json!([{"uri": "skill://pdf/SKILL.md", "size": 1}])),
        entry(json!([{"uri": "skill://pdf/SKILL.md", "digest": (upper), "size": 1}])),
        entry(json!([{"uri": "skill://pdf/SKILL.md", "digest": (hash.clone())}])),
        entry(json!([{"uri": "skill://pdf/SKILL.md", "digest": (hash.clone()), "size": -1}])),
        entry(json!([(own()), (file("skill://other/SKILL.md"))])),
        entry(json!([(own()), (file("skill://pdf/../x"))])),
        entry(json!([(own()), (file("skill://pdf/%2e%2e/x"))])),
        entry(json!([(own()), (file("file:///etc/passwd"))])),
    ] {
        let client = Connected::new(scripted(entry.clone(), SKILL_MD).0, plain(), Protocol::Stateless);
        assert_eq!(client.skills().unwrap().len(), 0, "{entry:?}");
        let error = client.skill("skill://pdf/SKILL.md").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerMisbehaved, "{entry:?}");
    }
    let many: Vec<_> = (0..512).map(|n| file(&format!("skill://pdf/{n}"))).chain([own()]).collect();
    let large = json!([{"uri": "skill://pdf/SKILL.md", "digest": (hash.clone()), "size": 16777217}]);
    for (entry, kind, why) in [
        (entry(json!([])), ErrorKind::PeerMisbehaved, "SKILL.md"),
        (entry(json!([(own()), (own())])), ErrorKind::PeerMisbehaved, "twice"),
        (
            entry(json!([(own()), (file("skill://pdf/a")), (file("skill://pdf/%61"))])),
            ErrorKind::PeerMisbehaved,
            "twice",
        ),
        (entry(json!(many)), ErrorKind::Limit, "513 files"),
        (entry(large), ErrorKind::Limit, "16777217 bytes"),
    ] {
        let (server, reads) = scripted(entry, SKILL_MD);
        let client = Connected::new(server, plain(), Protocol::Stateless);
        let skill = client.skill("skill://pdf/SKILL.md").unwrap();
        let error = client.load_skill(&skill).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(why), "{why}: {error}");
        assert_eq!(reads.load(Ordering::Relaxed), 0);
    }
}

// SKILL-18
#[test]
fn a_client_asks_only_servers_that_declare_skills() {
    for protocol in BOTH {
        let client = Connected::new(Server::new("s", "1"), plain(), protocol);
        let kinds = [
            client.skills().unwrap_err().kind(),
            client.skill("skill://a/SKILL.md").unwrap_err().kind(),
            client.read_directory("skill://a").unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::PeerIncompatible; 3]);
        // A server without the setting lists no folders.
        let client = Connected::new(scripted(entry(json!("dynamic")), SKILL_MD).0, plain(), protocol);
        assert_eq!(client.read_directory("skill://pdf").unwrap_err().kind(), ErrorKind::PeerIncompatible);
    }
}

#[test]
fn a_list_that_never_ends_is_an_error() {
    let mut server = Server::new("s", "1");
    server.extension("io.modelcontextprotocol/skills", json!({})).unwrap();
    let count = AtomicUsize::new(0);
    let next = move |_: &mut tinymcp::Context<'_>, _: Json| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        Ok(json!({"skills": [], "nextCursor": (format!("{n}"))}))
    };
    server.method("skills/list", next).unwrap();
    let client = Connected::new(server, plain(), Protocol::Stateless);
    assert_eq!(client.skills().unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn a_file_that_grew_is_not_read_beyond_the_limit() {
    let scratch = Scratch::new();
    scratch.skill("a").write("a/x.txt", "x");
    let client = Connected::new(scratch.server(), plain(), Protocol::Stateless);
    let skill = client.skill("skill://a/SKILL.md").unwrap();
    grow(&scratch.at("a/x.txt"), Skill::MAX_BYTES + 1);
    let error = client.read_skill_file(&skill, "x.txt").unwrap_err();
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
    assert!(!error.to_string().contains("tinymcp-skills"), "names a path of the machine: {error}");
}

fn grow(path: &Path, bytes: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}
