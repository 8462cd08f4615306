//! `--print-config`: configuration for hosts, the applications around a client.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use tinymcp::json::Writer;

use super::options::Options;
use super::read;
use super::words::join;
use crate::Result;

/// Returns the configuration that registers this server in a host.
///
/// # Errors
/// The host is unknown, a file has a problem, or the server cannot be reached by that host.
pub(crate) fn text(host: &str, options: &Options) -> Result<String> {
    let definition = read::definition(&options.files).map_err(|problems| {
        let more = if problems.len() > 1 { "; see --check for all problems" } else { "" };
        problems.first().map(|first| format!("{first}{more}")).unwrap_or_default()
    })?;
    let name = key(&definition.server.name);
    let mut fields = match &options.http {
        Some(address) => {
            vec![
                ("type", quoted("http")),
                ("url", quoted(&url(address, options.settings.allow_host.first())?)),
            ]
        }
        None => {
            let program = std::env::current_exe().map_err(|e| format!("path of this program: {e}"))?;
            let args = arguments(options)?;
            vec![
                ("type", quoted("stdio")),
                ("command", quoted(utf8(program.as_os_str())?)),
                ("args", format!("[{}]", join(&mut args.iter().map(|arg| quoted(arg)), ", "))),
            ]
        }
    };
    if options.settings.token_file.is_some() {
        fields.push(match host {
            "codex" => ("http_headers", "{ \"Authorization\" = \"Bearer TOKEN\" }".to_owned()),
            _ => ("headers", "{\"Authorization\": \"Bearer TOKEN\"}".to_owned()),
        });
    }
    match host {
        "claude" => Ok(json("mcpServers", &name, &fields)),
        "vscode" => Ok(json("servers", &name, &fields)),
        "codex" => Ok(toml(&name, &fields)),
        other => Err(format!("unknown host {other:?}: accepted are claude, vscode, codex")),
    }
}

/// Returns the arguments that start this server: absolute files, and the options that concern
/// stdio.
fn arguments(options: &Options) -> Result<Vec<String>> {
    let mut args = vec!["serve".to_owned()];
    for file in &options.files {
        let path = absolute(file).map_err(|e| format!("{}: {e}", file.display()))?;
        args.push(utf8(path.as_os_str())?.to_owned());
    }
    if options.watch {
        args.push("--watch".to_owned());
    }
    if let Some(time) = options.idle_exit {
        args.push(format!("--idle-exit={}", time.as_secs()));
    }
    Ok(args)
}

/// Returns the absolute path without `..`. Symbolic links in a path without `..` are not resolved,
/// because they may change.
fn absolute(file: &Path) -> io::Result<PathBuf> {
    match file.file_name() {
        _ if !file.components().any(|part| part == Component::ParentDir) => std::path::absolute(file),
        Some(name) => Ok(file.parent().unwrap_or(file).canonicalize()?.join(name)),
        None => file.canonicalize(),
    }
}

/// Returns the URL with the first allowed host or, if no host is allowed, with the host of the
/// address.
fn url(address: &str, allowed: Option<&String>) -> Result<String> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ => return Err(format!("--http {address}: hosts connect to HOST:PORT only")),
    };
    // The address stands for every address of this machine, and the host application runs on it.
    let host = if matches!(host, "0.0.0.0" | "[::]" | "") { "127.0.0.1" } else { host };
    let allowed = allowed.map_or(host, String::as_str);
    // The colons of an IPv6 address are in brackets.
    let has_port = allowed.rsplit(']').next().is_some_and(|end| end.contains(':'));
    Ok(if has_port { format!("http://{allowed}/mcp") } else { format!("http://{allowed}:{port}/mcp") })
}

fn utf8(text: &OsStr) -> Result<&str> {
    text.to_str().ok_or_else(|| format!("{}: the path is not UTF-8", Path::new(text).display()))
}

/// Returns the name of the server with the characters that every host accepts.
fn key(name: &str) -> String {
    let accepted = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    name.chars().map(accepted).collect()
}

fn quoted(text: &str) -> String {
    let mut w = Writer::new();
    w.string(text);
    w.as_str().to_owned()
}

fn json(member: &str, name: &str, fields: &[(&str, String)]) -> String {
    let fields = join(&mut fields.iter().map(|(name, value)| format!("      \"{name}\": {value}")), ",\n");
    format!("{{\n  \"{member}\": {{\n    \"{name}\": {{\n{fields}\n    }}\n  }}\n}}\n")
}

/// Writes a TOML table. JSON strings without DEL are TOML strings.
fn toml(name: &str, fields: &[(&str, String)]) -> String {
    let fields = fields.iter().filter(|(name, _)| *name != "type");
    let lines: String =
        fields.map(|(name, value)| format!("{name} = {}\n", value.replace('\x7f', "\\u007f"))).collect();
    format!("[mcp_servers.{name}]\n{lines}")
}

/// Returns the note for standard error: the file that the configuration belongs in, and its missing
/// parts.
pub(crate) fn note(host: &str, options: &Options) -> String {
    let destination = match host {
        "claude" => ".mcp.json of a project (Claude Code) or claude_desktop_config.json (Claude Desktop)",
        "vscode" => ".vscode/mcp.json of a project",
        _ => "~/.codex/config.toml",
    };
    match &options.settings.token_file {
        None => format!("for {destination}:"),
        Some(file) => format!("for {destination}; replace TOKEN by a token of {}:", file.display()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_host_gets_its_form() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/serve/text.json");
        let mut options = Options { files: vec![file.clone()], watch: true, ..Options::default() };
        for (host, member) in [("claude", "/mcpServers/text"), ("vscode", "/servers/text")] {
            let doc = tinymcp::json::Doc::parse(text(host, &options).unwrap()).unwrap();
            let server = doc.root().pointer(member).unwrap();
            assert_eq!(server.get("args").unwrap().index(1).unwrap().as_str(), file.to_str());
            assert_eq!(server.get("args").unwrap().raw().matches("\"--watch\"").count(), 1);
            assert_eq!(server.get("type").unwrap().as_str(), Some("stdio"));
        }
        let codex = text("codex", &options).unwrap();
        assert!(codex.starts_with("[mcp_servers.text]\ncommand = \"/"), "{codex}");
        assert!(text("emacs", &options).unwrap_err().contains("accepted are claude, vscode, codex"));
        options.http = Some("0.0.0.0:8080".to_owned());
        assert!(text("vscode", &options).unwrap().contains("\"url\": \"http://127.0.0.1:8080/mcp\""));
        for (allowed, url) in [
            ("board.example", "http://board.example:8080/mcp"),
            ("board.example:9000", "http://board.example:9000/mcp"),
            ("[fd00::1]", "http://[fd00::1]:8080/mcp"),
            ("[fd00::1]:90", "http://[fd00::1]:90/mcp"),
        ] {
            options.settings.allow_host = vec![allowed.to_owned(), "other".to_owned()];
            assert!(text("claude", &options).unwrap().contains(&format!("\"url\": \"{url}\"")), "{allowed}");
        }
        assert_eq!(note("codex", &options), "for ~/.codex/config.toml:");
        options.settings.token_file = Some("tokens".into());
        assert!(note("codex", &options).ends_with("; replace TOKEN by a token of tokens:"));
        let doc = tinymcp::json::Doc::parse(text("vscode", &options).unwrap()).unwrap();
        let header = doc.root().pointer("/servers/text/headers/Authorization");
        assert_eq!(header.unwrap().as_str(), Some("Bearer TOKEN"));
        let codex = text("codex", &options).unwrap();
        assert!(codex.ends_with("\nhttp_headers = { \"Authorization\" = \"Bearer TOKEN\" }\n"), "{codex}");
        options.http = Some("unix:/run/x".to_owned());
        assert!(text("codex", &options).unwrap_err().contains("HOST:PORT"));
    }

    #[test]
    fn paths_have_no_parts_that_lead_upwards() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").canonicalize().unwrap();
        for (path, expected) in
            [("serve/../serve/text.json", "serve/text.json"), ("serve/..", ""), ("serve/x/", "serve/x")]
        {
            let expected = folder.join(expected).components().collect::<PathBuf>();
            let found = absolute(&folder.join(path)).unwrap();
            assert_eq!(found.components().collect::<PathBuf>(), expected, "{path}");
        }
    }

    #[test]
    fn names_become_keys() {
        assert_eq!(key("my server.é"), "my-server--");
    }
}
