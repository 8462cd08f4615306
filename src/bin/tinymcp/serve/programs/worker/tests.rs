//! Tests of co-processes with programs for `/bin/sh`.

#![allow(clippy::unwrap_used)]

use std::fs;

use super::super::process::inherited;
use super::super::process::tests::{Folder, Recorder, ended};
use super::exchange::request;
use super::*;
use crate::serve::read;

/// A program that executes the argument `do`, and otherwise reports its process id.
const PROGRAM: &str = r#"
say() { printf '%s\n' "$1"; }
answer() { say "{\"id\": $id, $1}"; }
while IFS= read -r line; do
    id=${line#*:}
    id=${id%%,*}
    if [ -n "$again" ]; then say "$again"; again=; fi
    case $line in
    *'"do":"text"'*) answer '"result": "a\ttext"' ;;
    *'"do":"value"'*) answer '"result": {"n": [1, 2]}' ;;
    *'"do":"error"'*) answer '"error": "no water"' ;;
    *'"do":"progress"'*)
        answer '"progress": 1, "total": 2, "message": "half"'
        answer '"progress": 2'
        answer '"result": "done"' ;;
    *'"do":"late"'*)
        say '{"id": 99, "progress": 1}'
        say '{"id": 99, "result": "old"}'
        say '{"id": 99, "error": "old"}'
        answer '"result": "new"' ;;
    *'"do":"end"'*) exit 7 ;;
    *'"do":"noise"'*) say 'oops' ;;
    *'"do":"list"'*) say '[1]' ;;
    *'"do":"nameless"'*) say '{"result": 1}' ;;
    *'"do":"other"'*) answer '"answer": 1' ;;
    *'"do":"long"'*) head -c 5000000 /dev/zero ;;
    *'"do":"twice"'*) printf '{"id": %s, "result": 1}\n{"id": %s, "result": 2}\n' "$id" "$id" ;;
    *'"do":"again"'*) again="{\"id\": $id, \"result\": \"again\"}"; answer '"result": "once"' ;;
    *'"do":"nameless_again"'*) again='{"result": "again"}'; answer '"result": "once"' ;;
    *'"do":"hang"'*) sleep 1000 & wait ;;
    *'"do":"stderr"'*) answer '"result": 0'; head -c 1000000 /dev/zero | tr '\0' '\n' >&2; : > "$1" ;;
    *'"do":"stay"'*) trap '' TERM; answer "\"result\": $$"; while :; do sleep 1000; done ;;
    *'"do":"length"'*) answer "\"result\": ${#line}" ;;
    *) answer "\"result\": $$" ;;
    esac
done
"#;

struct Fixture {
    folder: Folder,
    processes: Arc<Processes>,
    workers: Workers,
    rests: Rests,
    places: WaitingPlaces,
    definition: Arc<ToolDefinition>,
    pool: Arc<Pool>,
}

impl Fixture {
    fn new(name: &str, members: &str) -> Fixture {
        let folder = Folder::new(name);
        fs::write(folder.0.join("program.sh"), PROGRAM).unwrap();
        let text = format!(
            r#"{{"tools": {{"soil": {{"worker": ["/bin/sh", "program.sh", "mark"],
                "input": {{"do?": "string"}}, "description": "d", {members}}}}}}}"#
        );
        let file = folder.0.join("f.json");
        fs::write(&file, text).unwrap();
        let problems =
            |problems: Vec<read::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let definition = read::definition(&[file]).map_err(problems).unwrap().tools.remove(0);
        let (workers, processes) = (Workers::default(), Arc::default());
        let pool = workers.pool(&Arc::new(launch(&definition)), &processes);
        let (rests, places) = (Rests::default(), WaitingPlaces::new(4));
        Fixture { folder, processes, workers, rests, places, definition, pool }
    }

    fn call_with(&self, caller: &mut Recorder, what: &str) -> Result<ToolOutput, String> {
        self.call_given(caller, &format!("{{\"do\":\"{what}\"}}"))
    }

    fn call_given(&self, caller: &mut Recorder, arguments: &str) -> Result<ToolOutput, String> {
        let result = self.pool.call(caller, &self.definition, arguments, (&self.rests, &self.places));
        result.map_err(|error| format!("{error:?}"))
    }

    fn call(&self, what: &str) -> Result<ToolOutput, String> {
        self.call_with(&mut Recorder::default(), what)
    }

    fn pid(&self) -> String {
        self.call("pid").unwrap().structured.unwrap().as_str().to_owned()
    }
}

fn launch(definition: &ToolDefinition) -> Launch {
    Launch {
        program: definition.program.argv.program().into(),
        literals: definition.program.argv.literals().map(|(_, text)| text.into()).collect(),
        env: inherited().collect(),
        cwd: definition.program.cwd.clone(),
        grants: None,
    }
}

#[test]
fn one_process_answers_many_calls() {
    let fixture = Fixture::new("worker-replies", r#""concurrency": 1"#);
    let pid = fixture.pid();
    assert_eq!(fixture.call("text").unwrap().texts(), "a\ttext");
    assert_eq!(fixture.call("late").unwrap().texts(), "new");
    assert_eq!(fixture.call("value").unwrap().structured.unwrap().as_str(), r#"{"n": [1, 2]}"#);
    let error = fixture.call("error").unwrap();
    assert!(error.is_error);
    assert_eq!(error.texts(), "no water");
    let mut caller = Recorder::default();
    assert_eq!(fixture.call_with(&mut caller, "progress").unwrap().texts(), "done");
    assert_eq!(caller.messages, [(1.0, "half".to_owned()), (2.0, String::new())]);
    assert_eq!(fixture.pid(), pid);
    assert_eq!(fixture.processes.count(), 1);
    // A line end in the arguments does not end the line; a long line is more than one pipe holds.
    let arguments = format!("{{\r\n\"do\":\"length\", \"x\": \"{}\"}}", "x".repeat(1 << 20));
    let length = fixture.call_given(&mut Recorder::default(), &arguments);
    assert_eq!(
        length.unwrap().structured.unwrap().as_str(),
        (request(1, "soil", &arguments).len() - 1).to_string()
    );
    fixture.workers.stop();
    assert!(ended(&pid));
    assert_eq!(fixture.processes.count(), 0);
}

#[test]
fn a_failed_process_is_replaced() {
    let fixture = Fixture::new("worker-failures", r#""concurrency": 1"#);
    let table = [
        ("end", "the program exited with status 7 before it responded"),
        ("noise", "the program wrote an invalid line: expected a value: oops"),
        ("list", "the program wrote an invalid line: not an object: [1]"),
        ("nameless", "invalid line: no `id`; repeat that of the call: {\\\"result\\\": 1}"),
        ("other", "invalid line: expected `result`, `error` or a number `progress`: {\\\"id\\\": "),
        ("long", "the program wrote a line of more than 4194304 bytes"),
    ];
    for (what, expected) in table {
        let pid = fixture.pid();
        let error = fixture.call(what).unwrap_err();
        assert!(error.contains(expected), "{what}: {error}");
        assert!(ended(&pid));
        assert_ne!(fixture.pid(), pid);
    }
    // Output outside of a call is not read as the next response.
    let pid = fixture.pid();
    assert_eq!(fixture.call("twice").unwrap().structured.unwrap().as_str(), "1");
    assert_ne!(fixture.pid(), pid);
    // A process that ends while it is idle is replaced without an error.
    let pid = fixture.pid();
    let kill = std::process::Command::new("/bin/sh").args(["-c", "kill -9 $1", "sh", &pid]).status();
    assert!(kill.unwrap().success());
    let exited = || lock(&fixture.pool.state).idle.first().is_none_or(|worker| worker.group.exited());
    while !exited() {
        std::thread::yield_now();
    }
    assert_ne!(fixture.pid(), pid);
    assert_eq!(fixture.processes.count(), 1);
}

#[test]
fn a_second_answer_is_never_that_of_the_next_call() {
    let fixture = Fixture::new("worker-again", r#""concurrency": 1"#);
    // The second response is written after the next call, so the check before that call does not
    // find it.
    assert_eq!(fixture.call("again").unwrap().texts(), "once");
    assert_eq!(fixture.call("text").unwrap().texts(), "a\ttext");
    assert_eq!(fixture.call("nameless_again").unwrap().texts(), "once");
    let error = fixture.call("text").unwrap_err();
    assert!(error.contains("no `id`"), "{error}");
    assert_eq!(fixture.call("text").unwrap().texts(), "a\ttext");
}

#[test]
fn a_process_that_ends_while_idle_is_reaped() {
    let fixture = Fixture::new("worker-reap", r#""concurrency": 1"#);
    let pid = fixture.pid();
    let kill = std::process::Command::new("/bin/sh").args(["-c", "kill -9 $1", "sh", &pid]).status();
    assert!(kill.unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(30);
    while fixture.processes.count() > 0 {
        assert!(Instant::now() < deadline, "the process is not reaped");
        std::thread::yield_now();
    }
    assert!(ended(&pid));
    assert_ne!(fixture.pid(), pid);
}

#[test]
fn timeouts_and_cancellation_kill_the_group() {
    let fixture = Fixture::new("worker-timeout", r#""concurrency": 1, "timeout": 0.2"#);
    let pid = fixture.pid();
    let error = fixture.call("hang").unwrap_err();
    assert!(
        error.contains("the program did not respond within 0.2 s and was killed; does it flush"),
        "{error}"
    );
    assert!(ended(&pid));
    let fixture = Fixture::new("worker-cancel", r#""concurrency": 1"#);
    let pid = fixture.pid();
    let mut caller = Recorder::default();
    caller.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(fixture.call_with(&mut caller, "hang").unwrap_err().contains("cancelled"));
    assert!(ended(&pid));
    assert_ne!(fixture.pid(), pid);
}

#[test]
fn repeated_failures_make_calls_fail_at_once() {
    let fixture = Fixture::new("worker-backoff", r#""concurrency": 1"#);
    let started = Instant::now();
    let mut calls = 0;
    let error = loop {
        let error = fixture.call("end").unwrap_err();
        if error.contains("is started again") {
            break error;
        }
        assert!(error.contains("before it responded"), "{error}");
        calls += 1;
    };
    // Pauses of 100, 200, 400 and 800 ms are waited for, 1600 ms is too long.
    assert_eq!(calls, 5);
    assert!(started.elapsed() >= Duration::from_millis(1500));
    assert!(
        error.contains("failed 5 times and is started again in 2 s at the earliest; the last failure: "),
        "{error}"
    );
    lock(&fixture.pool.state).start_at = None;
    fixture.pid();
    assert_eq!(lock(&fixture.pool.state).failures, 0);
    // A program that cannot be started. Under emulation it seems to start and to end.
    if std::env::var_os("TEST_EMULATED").is_some() {
        return;
    }
    let missing = Launch { program: "/nonexistent/program".into(), ..launch(&fixture.definition) };
    let pool = fixture.workers.pool(&Arc::new(missing), &fixture.processes);
    let error =
        pool.call(&mut Recorder::default(), &fixture.definition, "{}", (&fixture.rests, &fixture.places));
    let error = error.unwrap_err();
    assert!(format!("{error:?}").contains("cannot start the program"), "{error:?}");
    assert_eq!(lock(&pool.state).live, 0);
}

#[test]
fn equal_programs_share_processes_up_to_the_concurrency() {
    let fixture = Fixture::new("worker-share", r#""concurrency": 2"#);
    let same = fixture.workers.pool(&Arc::new(launch(&fixture.definition)), &fixture.processes);
    assert!(Arc::ptr_eq(&same, &fixture.pool));
    let other = Launch { literals: vec!["other.sh".into()], ..launch(&fixture.definition) };
    let other = fixture.workers.pool(&Arc::new(other), &fixture.processes);
    assert!(!Arc::ptr_eq(&other, &fixture.pool));
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..50 {
                    fixture.pid();
                    assert!(fixture.processes.count() <= 2);
                }
            });
        }
    });
    assert_eq!(lock(&fixture.pool.state).live, fixture.processes.count());
}

#[test]
fn few_calls_wait_for_processes_that_other_tools_have() {
    let mut fixture = Fixture::new("worker-places", r#""concurrency": 1"#);
    fixture.places = WaitingPlaces::new(1);
    let callers = [Recorder::default(), Recorder::default()];
    let flags = callers.each_ref().map(|caller| Arc::clone(&caller.cancelled));
    std::thread::scope(|scope| {
        let calls = callers.map(|mut caller| {
            let fixture = &fixture;
            scope.spawn(move || fixture.call_with(&mut caller, "hang").unwrap_err())
        });
        // One has the process, the other one the place.
        while fixture.places.is_free() {
            std::thread::yield_now();
        }
        let error = fixture.call("pid").unwrap_err();
        assert!(error.contains("the server is busy"), "{error}");
        for flag in &flags {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        for call in calls {
            assert!(call.join().unwrap().contains("cancelled"));
        }
    });
    assert!(fixture.places.is_free());
    fixture.pid();
}

#[test]
fn renewed_processes_are_not_used_again() {
    let fixture = Fixture::new("worker-renew", r#""concurrency": 1"#);
    let idle = fixture.pid();
    fixture.pool.renew();
    let next = fixture.pid();
    assert_ne!(next, idle);
    assert_eq!(fixture.pid(), next);
    // A process in a call ends after it.
    let mut caller = Recorder::default();
    let lease = fixture.pool.lease(&caller, &fixture.definition, Instant::now() + TERM, &fixture.places);
    fixture.workers.renew();
    fixture.pool.put_back(lease.map_err(|error| format!("{error:?}")).unwrap());
    assert_ne!(fixture.call_with(&mut caller, "pid").unwrap().structured.unwrap().as_str(), next);
    assert_eq!(lock(&fixture.pool.state).live, 1);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !(ended(&idle) && ended(&next) && fixture.processes.count() == 1) {
        assert!(Instant::now() < deadline, "the previous processes do not end");
        std::thread::yield_now();
    }
}

#[test]
fn standard_error_of_an_idle_process_is_read() {
    let fixture = Fixture::new("worker-stderr", r#""concurrency": 1"#);
    fixture.call("stderr").unwrap();
    let mark = fixture.folder.0.join("mark");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !mark.exists() {
        assert!(Instant::now() < deadline, "the process blocks");
        std::thread::yield_now();
    }
}

/// Waits until no process runs.
fn await_end(processes: &Processes) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while processes.count() > 0 {
        assert!(Instant::now() < deadline, "the process does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_last_tool_of_a_program_ends_its_processes() {
    let fixture = Fixture::new("worker-drop", r#""concurrency": 1"#);
    fixture.pid();
    let Fixture { folder, processes, workers, pool, .. } = fixture;
    assert_eq!(processes.count(), 1);
    drop(pool);
    await_end(&processes);
    drop((folder, workers));
}

#[test]
fn the_end_of_a_tool_does_not_wait_for_its_processes() {
    // A slow machine may kill the process before the test looks at it.
    let pid = (0..20).find_map(|_| {
        let fixture = Fixture::new("worker-stays", r#""concurrency": 1"#);
        let pid = fixture.call("stay").unwrap().structured.unwrap().as_str().to_owned();
        let Fixture { pool, processes, folder: _folder, .. } = fixture;
        drop(pool);
        let runs = processes.count() == 1;
        // Shutdown kills it at once.
        processes.stop();
        await_end(&processes);
        runs.then_some(pid)
    });
    assert!(pid.is_some_and(|pid| ended(&pid)), "dropping the tool waited for the end of its process");
}
