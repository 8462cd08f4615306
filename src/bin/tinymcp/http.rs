//! Settings of the HTTP server, and the file of tokens.
//!
//! Each line of the file is `TOKEN` or `TOKEN NAME`; empty lines and lines that begin with `#` are
//! skipped. The name identifies the client to the library: a session belongs to the name that
//! opened it. Without a name it is `token-` and a digest of the token, so that it does not depend
//! on other lines. The file must not be accessible to users other than its owner and group, and a
//! token has at least [`MIN_TOKEN`] characters.
//!
//! # Invariants
//! - Only hashes of tokens are stored, and no token is part of a message.
//! - The event streams of a token that is removed end, and its sessions if no token of the same
//!   name is left.
//! - A file that cannot be read or has no token removes all tokens: each request is rejected. A
//!   file with another error removes the tokens that it does not contain, and adds none.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hmac_sha256::Hash;
use tinymcp::{BoundServer, HttpServer, Mounts, Server, TokenRefusal};

use crate::Result;
use crate::mutex::lock;
use crate::serve::{HttpOptions, log, open};

/// Path of the endpoint.
const PATH: &str = "/mcp";
/// Bytes of the largest file of tokens.
const MAX_BYTES: u64 = 1 << 20;
/// Characters of the shortest token: 64 bits in hexadecimal digits.
const MIN_TOKEN: usize = 16;
/// Error of a file without tokens.
const NO_TOKEN: &str = "no token; expected lines `TOKEN` or `TOKEN NAME`";
/// Names of library methods that messages contain, and the options that replace them.
const OPTIONS: [(&str, &str); 4] = [
    ("`HttpServer::allow_host`", "--allow-host"),
    ("`HttpServer::allow_origin`", "--allow-origin"),
    ("see allow_host", "see --allow-host"),
    ("see allow_origin", "see --allow-origin"),
];

/// The known tokens.
pub(crate) struct Tokens {
    file: PathBuf,
    /// Hash and name of each token.
    known: Mutex<Vec<([u8; 32], String)>>,
    /// To end the event streams of a token that is removed.
    servers: Mounts,
}

/// Applies the options; returns the tokens, which can be reloaded.
pub(crate) fn configure(server: Server, options: &HttpOptions) -> Result<(HttpServer, Option<Arc<Tokens>>)> {
    let mut http = server.http().diagnostics(|line| log(&with_options(line)));
    for host in &options.allow_host {
        http = http.allow_host(host);
    }
    for origin in &options.allow_origin {
        http = http.allow_origin(origin);
    }
    let Some(file) = &options.token_file else { return Ok((http, None)) };
    let tokens =
        Arc::new(Tokens { file: file.clone(), known: Mutex::new(read(file)?), servers: http.mounts() });
    let check = Arc::clone(&tokens);
    Ok((http.bearer(move |token| check.principal(token)), Some(tokens)))
}

/// Opens this address, to serve at this path, by default `/mcp`.
///
/// # Errors
/// The address is not available, or a setting is not valid.
pub(crate) fn bind(http: HttpServer, address: &str, path: Option<&str>) -> Result<BoundServer> {
    http.path(path.unwrap_or(PATH)).bind(address).map_err(|error| with_options(&error.to_string()))
}

/// Serves at the address and path of [`bind`] until a signal arrives.
///
/// # Errors
/// Serving failed.
pub(crate) fn serve(bound: BoundServer, address: &str, path: Option<&str>, has_tokens: bool) -> Result<()> {
    let (path, opened) = (path.unwrap_or(PATH), bound.address());
    match opened.strip_prefix("unix:") {
        Some(socket) => log(&format!("serving {path} on the Unix socket {socket}")),
        None => log(&format!("serving http://{opened}{path}")),
    }
    if !has_tokens && address != "systemd" && is_public(opened) {
        log(&format!(
            "warning: anyone who reaches this address may call the tools; add --token-file to require a token \
             ({opened} is not a loopback address)"
        ));
    }
    bound.serve().map_err(|error| error.to_string())
}

/// Returns whether other machines may reach a bound address. Unix sockets are not public.
fn is_public(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback())
}

/// Replaces names of the library's interface by the options of the command line.
pub(crate) fn with_options(line: &str) -> String {
    OPTIONS.iter().fold(line.to_owned(), |line, (name, option)| line.replace(name, option))
}

impl Tokens {
    /// Reads the file again, and logs an error of it.
    pub(crate) fn reload(&self) {
        let (text, result) = match read_text(&self.file) {
            Ok(read) => read,
            Err(error) => (String::new(), Err(error)),
        };
        let known = result.and_then(|()| tokens(&text).map_err(|why| refusal(&self.file, &why)));
        let known = known.unwrap_or_else(|error| {
            // A revoked token must not stay valid because of another line.
            let named: Vec<[u8; 32]> =
                lines(&text).map(|(_, token, _)| Hash::hash(token.as_bytes())).collect();
            let mut left = lock(&self.known).clone();
            left.retain(|(hash, _)| named.contains(hash));
            log(&match left.len() {
                0 => format!("{error}; all tokens are rejected now"),
                left => format!("{error}; of the previous tokens, the {left} in the file stay valid"),
            });
            left
        });
        let previous = std::mem::replace(&mut *lock(&self.known), known.clone());
        let (kept, removed): (Vec<_>, Vec<_>) = previous.iter().partition(|token| known.contains(token));
        let kept: BTreeSet<&String> = kept.into_iter().map(|(_, name)| name).collect();
        let removed: BTreeSet<&String> = removed.into_iter().map(|(_, name)| name).collect();
        for name in removed {
            // A stream was authorized when it was opened. Clients with a valid token open it again.
            match kept.contains(name) {
                true => self.servers.end_streams(name),
                false => self.servers.end_sessions(name),
            }
        }
    }

    /// Compares in constant time for tokens of one number.
    fn principal(&self, token: &str) -> std::result::Result<String, TokenRefusal> {
        let hash = Hash::hash(token.as_bytes());
        let known = lock(&self.known);
        let mut found = None;
        for (other, name) in known.iter() {
            let difference = hash.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
            if difference == 0 {
                found = Some(name);
            }
        }
        found.cloned().ok_or(TokenRefusal::Invalid)
    }
}

fn refusal(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

fn read(path: &Path) -> Result<Vec<([u8; 32], String)>> {
    let (text, result) = read_text(path)?;
    result?;
    tokens(&text).map_err(|why| refusal(path, &why))
}

/// Returns the text of the file, and the error if the file must not be used.
fn read_text(path: &Path) -> Result<(String, Result<()>)> {
    let failed = |error: std::io::Error| refusal(path, &error);
    let file = open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let result = if mode & 0o007 != 0 {
        Err("a file of tokens must not be accessible to other users; run chmod o= on it")
    } else if bytes.len() as u64 > MAX_BYTES {
        Err("longer than 1 MiB")
    } else {
        Ok(())
    };
    Ok((String::from_utf8_lossy(&bytes).into_owned(), result.map_err(|why| refusal(path, &why))))
}

/// Returns the number, the token and the name of each line with a token.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
        let (token, name) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        (number, token, name.trim())
    })
}

fn tokens(text: &str) -> Result<Vec<([u8; 32], String)>> {
    let mut known: Vec<([u8; 32], String)> = Vec::new();
    for (number, token, name) in lines(text) {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        if !token.chars().all(is_token) {
            return Err(format!("line {number}: invalid token; allowed are A-Z a-z 0-9 - . _ ~ + / ="));
        }
        if token.len() < MIN_TOKEN {
            return Err(format!(
                "line {number}: the token has {} characters, at least {MIN_TOKEN} are required; make one with \
                 `openssl rand -hex 32` or `head -c 32 /dev/urandom | base64`",
                token.len()
            ));
        }
        let hash = Hash::hash(token.as_bytes());
        if known.iter().any(|(other, _)| *other == hash) {
            return Err(format!("line {number}: the token is a duplicate"));
        }
        let name = match name {
            // 64 bits of the hash: the name does not reveal the token, and no other token has it.
            "" => hash.iter().take(8).fold("token-".to_owned(), |name, byte| format!("{name}{byte:02x}")),
            name => name.to_owned(),
        };
        known.push((hash, name));
    }
    if known.is_empty() { Err(NO_TOKEN.to_owned()) } else { Ok(known) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_are_tokens_with_names() {
        let known = tokens("# clients\n\na.b~c/d=01234567\n  0123456789abcdef \t the desk \n").unwrap();
        let names: Vec<&str> = known.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["token-e11fd6efb7e9524e", "the desk"]);
        let servers = Server::new("x", "1").http().mounts();
        let tokens = Tokens { file: PathBuf::new(), known: Mutex::new(known), servers };
        assert_eq!(tokens.principal("a.b~c/d=01234567").unwrap(), "token-e11fd6efb7e9524e");
        assert_eq!(tokens.principal("0123456789abcdef").unwrap(), "the desk");
        for wrong in ["", "0123456789abcde", "0123456789abcdef ", "#"] {
            assert_eq!(tokens.principal(wrong), Err(TokenRefusal::Invalid), "{wrong}");
        }
    }

    #[test]
    fn unusable_files_are_errors_without_the_token() {
        for (text, message) in [
            ("", "no token; expected lines `TOKEN` or `TOKEN NAME`"),
            ("# a", "no token; expected lines `TOKEN` or `TOKEN NAME`"),
            ("0123456789abcdef\nsecret\"", "line 2: invalid token; allowed are A-Z a-z 0-9 - . _ ~ + / ="),
            ("0123456789abcdef x\n0123456789abcdef y", "line 2: the token is a duplicate"),
            (
                "0123456789abcde x",
                "line 1: the token has 15 characters, at least 16 are required; make one with \
                 `openssl rand -hex 32` or `head -c 32 /dev/urandom | base64`",
            ),
        ] {
            assert_eq!(tokens(text).unwrap_err(), message);
        }
    }

    #[test]
    fn a_long_file_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("tinymcp-tokens-{}", std::process::id()));
        let text = "0123456789abcdef\n".repeat(1 << 16) + "fedcba9876543210fedcba";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let error = read(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.ends_with(": longer than 1 MiB"), "{error}");
    }

    #[test]
    fn loopback_and_unix_sockets_are_not_public() {
        for (address, public) in [
            ("127.0.0.1:80", false),
            ("127.1.2.3:80", false),
            ("[::1]:80", false),
            ("unix:/run/x", false),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("192.168.1.2:80", true),
        ] {
            assert_eq!(is_public(address), public, "{address}");
        }
    }

    #[test]
    fn lines_of_the_library_name_options() {
        assert_eq!(with_options("a; see `HttpServer::allow_host`"), "a; see --allow-host");
        assert_eq!(
            with_options("Origin \"x\" not allowed; see allow_origin"),
            "Origin \"x\" not allowed; see --allow-origin"
        );
    }
}
