//! Process state that `tinymcp serve` inherits from its host or gives to programs: environment,
//! descriptors, child processes, ignored signals.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tinymcp::{Client, Limits, Link, json};

use super::serve_session::{TIMEOUT, folder};

/// A server, started by a shell script, which ends with the test.
struct Hosted {
    client: Option<Client>,
    child: Child,
}

impl Hosted {
    /// Starts `tinymcp serve s.json` as `"$@"` of the script.
    fn start(script: &str, folder: &Path) -> Hosted {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_tinymcp"), "serve", "s.json"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (read, write) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = Client::builder("test", "0").over(Link::lines(read, write, &Limits::default())).unwrap();
        Hosted { client: Some(client), child }
    }

    fn call(&self, tool: &str) -> String {
        self.client.as_ref().unwrap().call_tool(tool, json!({})).unwrap().texts()
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        drop(self.client.take());
        let _ = self.child.wait();
    }
}

#[test]
fn a_host_that_never_reads_standard_error_blocks_nothing() {
    let folder = folder("host-stderr");
    // The worker writes to standard error without end.
    let definition = r#"{"tools": {
        "worker": {"description": "d", "worker": ["/bin/sh", "-c", "yes complaint >&2 & while read -r call; do id=${{call#*:}}; printf '{{\"id\": %d, \"result\": \"done\"}}\n' ${{id%%,*}}; done"]},
        "noisy": {"description": "d", "run": ["/bin/sh", "-c", "yes complaint | head -c 100000 >&2; printf done"]}
    }}"#;
    fs::write(folder.join("s.json"), definition).unwrap();
    let mut hosted = Hosted::start("mkfifo pipe && exec \"$@\" 2<> pipe", &folder);
    for _ in 0..20 {
        assert_eq!(hosted.call("worker"), "done");
        assert_eq!(hosted.call("noisy"), "done");
    }
    drop(hosted.client.take());
    let until = Instant::now() + TIMEOUT;
    while hosted.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the server does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn variables_of_a_program_do_not_reach_the_loader_of_the_sandbox() {
    if super::emulated() {
        return;
    }
    let folder = folder("host-env");
    // The loader writes its trace to a file that must not be created.
    let trace = folder.join("trace");
    let definition = r#"{"tools": {"env": {
        "description": "d", "run": ["/bin/sh", "-c", "echo $SECRET $TINYMCP_CALL $LD_DEBUG; env | grep -c TINYMCP_ENV || :"],
        "env": {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": "TRACE", "SECRET": "s 1"},
        "sandbox": {"read": ["system"], "net": true}
    }}}"#;
    fs::write(folder.join("s.json"), definition.replace("TRACE", trace.to_str().unwrap())).unwrap();
    let hosted = Hosted::start("exec \"$@\"", &folder);
    let output = hosted.call("env");
    assert!(output.contains("s 1 "), "{output}");
    assert!(output.contains(".0 libs") && output.contains("\n0"), "{output:?}");
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["s.json"]);
}

/// A definition with these tools, each a script.
fn scripts(folder: &Path, tools: &[(&str, &str)]) {
    let tools: Vec<String> = tools
        .iter()
        .map(|(name, script)| {
            format!(r#""{name}": {{"description": "d", "run": ["/bin/sh", "-c", {script:?}], "timeout": 1}}"#)
        })
        .collect();
    fs::write(folder.join("s.json"), format!(r#"{{"tools": {{{}}}}}"#, tools.join(","))).unwrap();
}

fn alive(id: &str) -> bool {
    let id = rustix::process::Pid::from_raw(id.trim().parse().unwrap()).unwrap();
    rustix::process::test_kill_process(id).is_ok()
}

#[test]
fn programs_do_not_get_descriptors_of_the_host() {
    if super::emulated() {
        return;
    }
    let folder = folder("host-descriptors");
    fs::write(folder.join("secret"), "secret").unwrap();
    let definition = r#"{"tools": {
        "plain": {"description": "d", "run": ["/bin/sh", "-c", "cat <&9 || echo none"]},
        "boxed": {"description": "d", "run": ["/bin/sh", "-c", "cat <&9 || echo none"],
            "sandbox": {"read": ["system"]}}
    }}"#;
    fs::write(folder.join("s.json"), definition).unwrap();
    let hosted = Hosted::start("exec 9<secret; exec \"$@\"", &folder);
    for tool in ["plain", "boxed"] {
        assert_eq!(hosted.call(tool), "none\n", "{tool}");
    }
}

#[test]
fn children_of_the_host_are_not_killed() {
    let folder = folder("host-children");
    scripts(&folder, &[("a", "echo")]);
    let hosted = Hosted::start("sleep 600 & echo $! > child; exec \"$@\"", &folder);
    for _ in 0..2 {
        assert_eq!(hosted.call("a"), "\n");
    }
    let child = fs::read_to_string(folder.join("child")).unwrap();
    assert!(alive(&child));
    assert!(Command::new("kill").arg(child.trim()).status().unwrap().success());
}

#[test]
fn an_ignored_sigchld_does_not_hide_exits() {
    let folder = folder("host-sigchld");
    scripts(&folder, &[("a", "echo b; exit 3")]);
    // Some shells do not pass an ignored SIGCHLD on, and some versions of `env` lack the option.
    let ignoring = "env --ignore-signal=CHLD";
    let script = format!("{ignoring} true && exec {ignoring} \"$@\"; exec \"$@\"");
    let hosted = Hosted::start(&script, &folder);
    let output = hosted.call("a");
    assert!(output.contains("status 3"), "{output}");
}

#[test]
fn timeouts_reach_programs_that_stop_or_join_another_group() {
    let folder = folder("host-groups");
    let join = "import os, time; a = os.fork(); a or time.sleep(600); b = os.fork(); \
                b or (os.setpgid(0, 0), time.sleep(600)); os.setpgid(b, b); os.setpgid(0, b); \
                open('pid', 'w').write(str(os.getpid())); time.sleep(600)";
    fs::write(folder.join("join.py"), join).unwrap();
    scripts(
        &folder,
        &[("stop", "trap 'echo ended; exit' TERM; kill -STOP $$; sleep 0"), ("join", "exec python3 join.py")],
    );
    let hosted = Hosted::start("exec \"$@\"", &folder);
    assert!(hosted.call("stop").contains("ended"));
    // On a busy machine the timeout may come before the program has joined the other group.
    let joined = (0..10).find_map(|_| {
        let output = hosted.call("join");
        assert!(output.contains("did not end within 1 s"), "{output}");
        fs::read_to_string(folder.join("pid")).ok().filter(|id| !id.is_empty())
    });
    assert!(!alive(&joined.unwrap()));
}
