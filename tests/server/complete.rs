//! Completions that are added and removed while a server runs.

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json};
use tinymcp::{
    Argument, Arguments, Completion, Context, ErrorKind, Handle, MemoryEnd, Prompt, PromptOutput, Server,
    Template, ToolError, json, memory,
};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

const TEMPLATE: &str = "pin://{bank}/{number}";

/// Announcement of completions in a session, and the client's end of the link.
fn open_session(client: &mut MemoryEnd) -> bool {
    let who = json!({"name": "t", "version": "1"});
    let opening = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who});
    let greeting = client.request("initialize", opening, HANG).expect("a greeting").to_doc();
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    greeting.root().pointer("/result/capabilities/completions").is_some()
}

/// The response to a request; notifications of changes before it are skipped.
fn ask(client: &mut MemoryEnd, about: &Json, argument: &str) -> Doc {
    client.send(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{{"ref":{about},"argument":{{"name":"{argument}","value":"a"}}}}}}"#
    ));
    loop {
        let message = Doc::parse(client.receive(HANG).expect("an answer")).unwrap();
        if message.root().get("id").is_some() {
            return message;
        }
    }
}

fn values(client: &mut MemoryEnd, about: &Json, argument: &str) -> String {
    let answer = ask(client, about, argument);
    let values = answer.root().pointer("/result/completion/values");
    values.unwrap_or_else(|| panic!("{}", answer.root().raw())).raw().to_owned()
}

fn prompt() -> Json {
    json!({"type": "ref/prompt", "name": "late"})
}

fn template() -> Json {
    json!({"type": "ref/resource", "uri": TEMPLATE})
}

fn add(handle: &Handle) {
    fn fill(_: &mut Context<'_>, _: &Arguments<'_>) -> Result<PromptOutput, ToolError> {
        Ok(PromptOutput::new())
    }
    handle.add_prompt(Prompt::new("late").argument(Argument::optional("style")), fill).unwrap();
    handle.add_template(Template::new(TEMPLATE, "pin").unwrap(), |_, _, _| Ok("")).unwrap();
}

#[test]
fn completions_are_added_by_a_handle_and_removed_with_their_entry() {
    let (link, mut client) = memory();
    let mut server = Server::new("late", "1");
    server.prompts_may_change().resources_may_change().completions_may_change();
    let handle = server.handle();
    let serving = thread::spawn(move || server.serve(link));
    assert!(open_session(&mut client));

    add(&handle);
    let about = [(prompt(), "style"), (template(), "bank")];
    for (about, argument) in &about {
        assert_eq!(values(&mut client, about, argument), "[]");
    }
    handle.complete_prompt("late", "style", |asked| Completion::new([format!("{}!", asked.value)])).unwrap();
    handle.complete_template(TEMPLATE, "bank", |asked| Completion::new([asked.argument])).unwrap();
    assert_eq!(values(&mut client, &prompt(), "style"), r#"["a!"]"#);
    assert_eq!(values(&mut client, &template(), "bank"), r#"["bank"]"#);
    handle.complete_prompt("late", "style", |_| Completion::new(["another"])).unwrap();
    assert_eq!(values(&mut client, &prompt(), "style"), r#"["another"]"#);

    assert!(handle.remove_prompt("late").unwrap());
    assert!(handle.remove_template(TEMPLATE).unwrap());
    for (about, argument) in &about {
        let answer = ask(&mut client, about, argument);
        assert_eq!(answer.root().pointer("/error/code").and_then(|c| c.as_i64()), Some(-32602));
    }
    // Another entry with the same name.
    add(&handle);
    for (about, argument) in &about {
        assert_eq!(values(&mut client, about, argument), "[]");
    }
    client.finish();
    serving.join().unwrap().unwrap();
}

#[test]
fn a_handle_completes_only_existing_entries_after_an_announcement() {
    let mut server = Server::new("late", "1");
    server.prompts_may_change().resources_may_change();
    let handle = server.handle();
    add(&handle);
    let none = |_: &tinymcp::CompletionRequest<'_>| Completion::none();
    let refused =
        [handle.complete_prompt("late", "style", none), handle.complete_template(TEMPLATE, "bank", none)];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert!(error.to_string().contains("completions_may_change"), "{error}");
    }
    // A completion that is registered before serving announces the capability.
    server.complete_prompt("late", "style", none).unwrap();
    handle.complete_template(TEMPLATE, "bank", none).unwrap();
    let refused = [
        handle.complete_template(TEMPLATE, "tank", none),
        handle.complete_template("no://{x}", "x", none),
        handle.complete_prompt("late", "bank", none),
        handle.complete_prompt("early", "style", none),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Misuse);
    }
    // The capability stays announced, so that later entries can be completed.
    assert!(handle.remove_prompt("late").unwrap() && handle.remove_template(TEMPLATE).unwrap());
    let (link, mut client) = memory();
    let serving = thread::spawn(move || server.serve(link));
    assert!(open_session(&mut client));
    add(&handle);
    handle.complete_prompt("late", "style", |_| Completion::new(["x"])).unwrap();
    assert_eq!(values(&mut client, &prompt(), "style"), r#"["x"]"#);
    client.finish();
    serving.join().unwrap().unwrap();
}
