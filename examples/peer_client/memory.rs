//! The reference server that remembers.

use tinymcp::{Change, ServerCapabilities, json};

use super::{Session, holds, names, same, structured};

/// All that is remembered.
const GRAPH: &str = "memory://knowledge-graph";

pub(crate) fn check(s: &mut Session) {
    let mut offer = ServerCapabilities::default();
    (offer.tools, offer.tools_changed) = (true, true);
    (offer.resources, offer.resources_changed, offer.subscribe) = (true, true, true);
    s.check_offer(offer);
    s.check("resources", |s| {
        let resources = s.client.resources()?;
        same(names(resources.iter().map(|r| r.uri.as_str())).as_slice(), &[GRAPH], "resources")
    });
    s.check("subscribe", |s| Ok(s.client.subscribe(GRAPH)?));
    s.check("tools", |s| same(&s.client.tools()?.len(), &9, "number of tools"));
    s.check("create", |s| {
        let board = json!({"name": "board", "entityType": "thing", "observations": ["has 64 MiB"]});
        s.texts("create_entities", json!({"entities": [(board)]})).map(drop)
    });
    s.check("update", |s| s.changed(&Change::Updated(GRAPH.into())));
    s.check("read", |s| {
        let read = s.client.read_resource(GRAPH)?;
        holds(&format!("{:?}", read.contents), "has 64 MiB")
    });
    s.check("search", |s| {
        let output = s.client.call_tool("search_nodes", json!({"query": "64 mib"}))?;
        let doc = structured(&output)?;
        let entity = doc.root().get("entities").and_then(|e| e.items().next());
        let name = entity.and_then(|e| e.get("name")).and_then(tinymcp::json::Value::as_str);
        same(&name, &Some("board"), "name")
    });
    s.check("unsubscribe", |s| Ok(s.client.unsubscribe(GRAPH)?));
    s.check("forget", |s| {
        s.texts("delete_entities", json!({"entityNames": ["board"]}))?;
        holds(&s.texts("read_graph", json!({}))?, "\"entities\": []")
    });
}
