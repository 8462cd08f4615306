//! Entries that only some callers see, in both protocols, over HTTP and in memory.

use std::thread;

use serde_json::{Value, json};
use tinymcp::{
    Argument, CacheHint, CatalogEntry, Client, Completion, Limits, Prompt, PromptOutput, Protocol, Resource,
    Server, Template, Tool, memory_links,
};

use crate::client::{Answer, Nothing, Served, serve_with};

const DATES: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Every second entry is for the administrator only.
fn server() -> Server {
    let mut server = Server::new("visible", "1");
    let mut limits = Limits::default();
    limits.page = 2;
    server
        .limits(limits)
        .list_cache(CacheHint { ttl_ms: 1000, public: true })
        .read_cache(CacheHint { ttl_ms: 1000, public: true })
        .resource_updates();
    for name in
        ["admin_0", "user_1", "admin_2", "user_3", "admin_4", "admin_5", "user_6", "user_7", "admin_8"]
    {
        server.tool(Tool::new(name), |_, _: Nothing| Ok("called")).unwrap();
        let uri = format!("text://{name}");
        server.resource(Resource::new(&uri, name), |_, _| Ok("contents")).unwrap();
        server
            .prompt(Prompt::new(name).argument(Argument::optional("a")), |_, _| Ok(PromptOutput::new()))
            .unwrap();
        server.complete_prompt(name, "a", |_| Completion::new(["x"])).unwrap();
        let template = format!("{name}://{{x}}");
        server.template(Template::new(&template, name).unwrap(), |_, _, _| Ok("of template")).unwrap();
        server.complete_template(&template, "x", |_| Completion::new(["x"])).unwrap();
    }
    server.visible(|caller, entry| {
        let is_admins = match entry {
            CatalogEntry::Resource(resource) => resource.name.contains("admin"),
            entry => entry.name().contains("admin"),
        };
        !is_admins || caller.principal() == Some("admin")
    });
    server
}

/// Asks in a revision. The id of the request is always 7.
fn ask(served: &Served, date: &str, token: &str, method: &str, params: Value) -> Answer {
    let authorization = format!("Bearer {token}");
    let field = ("Authorization", authorization.as_str());
    if date == "2026-07-28" {
        return served.modern(&[field], method, params);
    }
    let answer = served.post(&[field], &crate::client::initialize(date, json!({})));
    let session = answer.field("mcp-session-id").unwrap().to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    served.post(&[field, ("Mcp-Session-Id", &session)], &message)
}

fn served() -> Served {
    serve_with(server(), |http| http.tokens([("u", "user"), ("a", "admin")]))
}

/// All pages of a list, by the name of their entries.
fn names(served: &Served, date: &str, token: &str, method: &str, list: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
        let answer = ask(served, date, token, method, params).json();
        let result = &answer["result"];
        let page = result[list].as_array().unwrap();
        pages.push(page.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect());
        if date == "2026-07-28" {
            assert_eq!(result["cacheScope"], "private");
        }
        cursor = Some(result["nextCursor"].clone()).filter(|cursor| !cursor.is_null());
        if cursor.is_none() {
            return pages;
        }
    }
}

#[test]
fn each_caller_gets_full_pages_of_its_own_entries() {
    let served = served();
    let lists = [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ];
    for date in DATES {
        for (method, list) in lists {
            // The lists of the administrator come first, so that its pages are rendered by then.
            let all = names(&served, date, "a", method, list);
            assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 2, 1], "{method}");
            let own = names(&served, date, "u", method, list);
            assert_eq!(own, [["user_1", "user_3"], ["user_6", "user_7"]], "{date} {method}");
        }
    }
}

#[test]
fn a_hidden_entry_is_answered_as_an_unknown_one() {
    let served = served();
    let of = |method: &str, name: &str| match method {
        "tools/call" | "prompts/get" => json!({"name": name, "arguments": {}}),
        "resources/read" => json!({"uri": format!("text://{name}")}),
        "template" => json!({"uri": format!("{name}://x")}),
        "completion/complete" => {
            json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": ""}})
        }
        "completion of template" => json!({"ref": {"type": "ref/resource", "uri": format!("{name}://{{x}}")},
            "argument": {"name": "x", "value": ""}}),
        _ => json!({"uri": format!("text://{name}")}),
    };
    for date in DATES {
        for kind in [
            "tools/call",
            "prompts/get",
            "resources/read",
            "template",
            "completion/complete",
            "completion of template",
            "resources/subscribe",
        ] {
            let method = match kind {
                "template" => "resources/read",
                "completion of template" => "completion/complete",
                "resources/subscribe" if date == "2026-07-28" => continue,
                method => method,
            };
            let answer = |token: &str, name: &str| {
                let mut answer = ask(&served, date, token, method, of(kind, name));
                let head = answer.status;
                let mut message = if answer.is_events() { answer.message() } else { answer.json() };
                message.as_object_mut().unwrap().remove("id");
                (head, message.to_string().replace(name, "NAME"))
            };
            let (_, allowed) = answer("a", "admin_0");
            assert!(allowed.contains("result"), "{date} {kind}: {allowed}");
            let hidden = answer("u", "admin_0");
            assert!(hidden.1.contains("error"), "{date} {kind}: {hidden:?}");
            // No suggestion names a hidden entry.
            assert!(!hidden.1.contains("admin"), "{date} {kind}: {hidden:?}");
            assert_eq!(hidden, answer("u", "secret"), "{date} {kind}");
        }
    }
}

#[test]
fn contents_are_private_when_entries_depend_on_the_caller() {
    let served = served();
    let read = json!({"uri": "text://user_1"});
    let answer = ask(&served, "2026-07-28", "u", "resources/read", read).json();
    assert_eq!(answer["result"]["cacheScope"], "private");
}

#[test]
fn a_subscription_to_a_hidden_resource_gets_no_update() {
    let served = served();
    let uris = ["text://admin_0", "text://user_1", "text://unknown"];
    let listen = |token: &str| {
        let authorization = format!("Bearer {token}");
        let params = json!({"notifications": {"resourceSubscriptions": uris}});
        let mut stream = served.modern(&[("Authorization", &authorization)], "subscriptions/listen", params);
        let acknowledged = stream.message()["params"]["notifications"]["resourceSubscriptions"].clone();
        assert_eq!(acknowledged, json!(uris), "as for an unknown resource");
        stream
    };
    let (mut user, mut admin) = (listen("u"), listen("a"));
    for uri in uris {
        served.handle.resource_updated(uri).unwrap();
    }
    let update = |stream: &mut Answer| stream.message()["params"]["uri"].clone();
    for uri in uris {
        assert_eq!(update(&mut admin), uri);
    }
    assert_eq!(update(&mut user), uris[1]);
    assert_eq!(update(&mut user), uris[2]);
}

#[test]
fn without_a_principal_a_caller_in_memory_sees_the_rest() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let (near, far) = memory_links();
        let serving = thread::spawn(move || server().serve(far));
        let client = Client::builder("t", "1").protocol(protocol).over(near).unwrap();
        let tools: Vec<String> = client.tools().unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(tools, ["user_1", "user_3", "user_6", "user_7"]);
        assert_eq!(client.call_tool("user_1", tinymcp::json!({})).unwrap().texts(), "called");
        client.call_tool("admin_0", tinymcp::json!({})).unwrap_err();
        client.close();
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn a_function_that_panics_hides_the_entry() {
    let (near, far) = memory_links();
    let mut server = server();
    server.visible(|_, entry| if entry.name() == "user_1" { panic!("visible") } else { true });
    let serving = thread::spawn(move || server.serve(far));
    let client = Client::over(near).unwrap();
    client.call_tool("user_1", tinymcp::json!({})).unwrap_err();
    client.call_tool("user_3", tinymcp::json!({})).unwrap();
    client.close();
    serving.join().unwrap().unwrap();
}
