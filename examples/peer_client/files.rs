//! The reference server for files. It may work where the client's roots say.

use std::time::Instant;

use tinymcp::{ErrorKind, Root, ServerCapabilities, json};

use super::{Checked, PATIENCE, Session, fails, first_is_image, folder, folder_uri, holds, same};

/// Waits until the server says that it may work in this folder: it asks for the roots in its own time.
fn allowed(s: &Session, folder: &str) -> Checked {
    let end = Instant::now() + PATIENCE;
    loop {
        let said = s.texts("list_allowed_directories", json!({}))?;
        // The folder that it began with contains this one.
        if said.lines().any(|line| line == folder) || Instant::now() > end {
            return holds(&said, folder);
        }
    }
}

pub(crate) fn check(s: &mut Session) {
    let mut offer = ServerCapabilities::default();
    (offer.tools, offer.tools_changed) = (true, true);
    s.check_offer(offer);
    s.check("tools", |s| {
        let tools = s.client.tools()?;
        same(&tools.len(), &14, "number of tools")?;
        let hints = tools.iter().find(|t| t.name == "read_text_file").map(|t| t.hints.read_only);
        same(&hints, &Some(Some(true)), "whether reading only reads")
    });
    let path = |root: &str, name: &str| folder(root).join(name).display().to_string();
    s.check("roots", |s| allowed(s, &folder("first").display().to_string()));
    s.check("write, read, edit", |s| {
        let path = path("first", "note.txt");
        s.texts("write_file", json!({"path": (path.as_str()), "content": "one\ntwo\n"}))?;
        let edit = json!({"path": (path.as_str()), "edits": [{"oldText": "two", "newText": "zwei"}]});
        holds(&s.texts("edit_file", edit)?, "+zwei")?;
        same(s.texts("read_text_file", json!({"path": (path.as_str())}))?.as_str(), "one\nzwei\n", "text")
    });
    s.check("list, search", |s| {
        let root = folder("first").display().to_string();
        holds(&s.texts("list_directory", json!({"path": (root.as_str())}))?, "[FILE] note.txt")?;
        holds(&s.texts("search_files", json!({"path": (root.as_str()), "pattern": "*.txt"}))?, "note.txt")
    });
    s.check("picture", |s| {
        let path = path("first", "dot.png");
        let made = std::fs::write(&path, b"\x89PNG\r\n\x1a\n");
        made.map_err(|error| error.to_string())?;
        let output = s.client.call_tool("read_media_file", json!({"path": (path.as_str())}))?;
        same(&first_is_image(&output), &true, "whether there is a picture")
    });
    s.check("out of bounds", |s| {
        let output = s.client.call_tool("read_text_file", json!({"path": "/etc/hostname"}))?;
        same(&output.is_error, &true, "whether it was refused")
    });
    s.check("roots, changed", |s| {
        s.client.set_roots([Root { uri: folder_uri("second"), name: None }])?;
        allowed(s, &folder("second").display().to_string())
    });
    s.check("no such method", |s| {
        fails(s.client.request("files/shred", ()), ErrorKind::Remote, Some(-32601))
    });
}
