//! Title, description and instructions of the proxy, from the servers behind it.
//!
//! One server's texts pass through unchanged. The instructions of several servers are joined, each
//! under a heading with the server's key, because the key begins the names of its tools. The joined
//! text has at most [`LONGEST`] bytes and the headings: every host adds it to each conversation.

use tinymcp::{Server, ServerInfo, ServerState, Status};

/// Bytes of the instructions of several servers together.
const LONGEST: usize = 16 << 10;

/// Describes the server by the upstream servers that are running.
pub(super) fn describe(server: &mut Server, upstream: &[Status]) {
    let info = |status: &Status| match &status.state {
        ServerState::Running(info) => Some((**info).clone()),
        _ => None,
    };
    if let [only] = upstream {
        let Some(ServerInfo { title, description, instructions, .. }) = info(only) else { return };
        if let Some(title) = title {
            server.title(title);
        }
        if let Some(description) = description {
            server.description(description);
        }
        if let Some(instructions) = instructions {
            server.instructions(instructions);
        }
        return;
    }
    let instructions = |status| info(status)?.instructions.filter(|text| !text.trim().is_empty());
    let texts = upstream.iter().filter_map(|status| Some((&*status.server, instructions(status)?)));
    let texts: Vec<(&str, String)> = texts.collect();
    if !texts.is_empty() {
        server.instructions(joined(&texts));
    }
}

/// Joins texts under headings. A text that is longer than its equal share is cut at its end.
fn joined(texts: &[(&str, String)]) -> String {
    let share = LONGEST / texts.len().max(1);
    let sections = texts.iter().map(|(key, text)| {
        let text = text.trim();
        let end = (0..=share.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let kept = text.get(..end.unwrap_or_default()).unwrap_or_default();
        let end = if kept.len() < text.len() { " … (shortened)" } else { "" };
        format!("# {key}\n\n{kept}{end}\n")
    });
    sections.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_stand_under_their_keys() {
        let texts = [("files", " Read first.\n".to_owned()), ("mail", "Never send.".to_owned())];
        assert_eq!(joined(&texts), "# files\n\nRead first.\n\n# mail\n\nNever send.\n");
    }

    #[test]
    fn long_instructions_are_shortened_to_their_share() {
        let long = "é".repeat(LONGEST);
        let text = joined(&[("a", long.clone()), ("b", "short".to_owned()), ("c", long)]);
        assert!(text.len() < LONGEST + 100, "{}", text.len());
        assert_eq!(text.matches("é … (shortened)\n").count(), 2);
        assert!(text.contains("# b\n\nshort\n"));
    }
}
