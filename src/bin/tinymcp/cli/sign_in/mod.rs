//! `login`, `logout`, `auth list`: sign-in at servers. All commands use the stored tokens.
//!
//! # Invariants
//! - No token is printed.
//! - The address of the authorization server is passed to the browser as an argument, never through
//!   a shell.

use std::env;
use std::fmt::Display;
use std::io::{self, BufRead};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use tinymcp::json::Writer;
use tinymcp::oauth::{DeviceCode, FileStore, Grant, OAuth, SignIn, TokenStore};
use tinymcp::{Endpoint, Error, ErrorKind, stderr};

use super::args::{Args, url};
use super::connect;
use super::failure::{FAILED, Failure, Result};
use super::output::Output;
use crate::credentials;
use crate::escape::plain;
use crate::registered_client::RegisteredClient;

/// Options of `login`.
pub(crate) const LOGIN_FLAGS: [&str; 16] = [
    "server",
    "config",
    "device",
    "paste",
    "port",
    "scope",
    "client-id",
    "client-secret-file",
    "client-key",
    "client-credentials",
    "issuer",
    "cacert",
    "cert",
    "key",
    "quiet",
    "verbose",
];
/// Options of `logout`.
pub(crate) const LOGOUT_FLAGS: [&str; 6] = ["server", "config", "cacert", "cert", "key", "quiet"];

/// Port of the address that `--paste` redirects to. Nothing listens there.
const PASTE_PORT: u16 = 51_737;

/// Maximum number of lines that `--paste` reads to find the address of its redirect.
const MAX_PASTES: usize = 3;

/// HTTP status for a URL that does not exist on the server.
const NOT_FOUND: i32 = 404;

/// Advice for a machine without a browser.
const ELSEWHERE: &str = "With a browser on another machine, use `tinymcp login` with --paste or --device.\n";

/// Options of a sign-in.
#[derive(Default)]
pub(crate) struct Options {
    /// Port for the redirect of the browser.
    pub(crate) port: Option<u16>,
    /// Scopes to request, separated by spaces.
    pub(crate) scope: Option<String>,
    /// Client that is registered at the authorization server. Its id is empty without one.
    pub(crate) client: RegisteredClient,
}

/// Runs one of the commands.
pub(crate) fn run(command: &str, args: &Args) -> Result<u8> {
    let words = args.words()?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let store = FileStore::user().map_err(|error| error.to_string())?;
    if command == "auth" {
        return match words[..] {
            ["list"] => list(&store, &Output::new(args)?),
            _ => Err("expected `tinymcp auth list`".into()),
        };
    }
    let (endpoint, label) = match (&words[..], &args.server.key) {
        ([word], None) => (Endpoint::new(url(word)), credentials::shown(&url(word))),
        ([], Some(key)) => (connect::configured_url(args, key)?, key.clone()),
        ([], None) => {
            return Err(format!("expected a server: `tinymcp {command} URL` or --server KEY").into());
        }
        _ => return Err(format!("expected one server, got {} words", words.len()).into()),
    };
    let endpoint = args.server.network.clone().with_variables()?.apply(endpoint);
    match command {
        "login" => login(args, store, endpoint, &label),
        _ => logout(args, store, endpoint, &label),
    }
}

fn login(args: &Args, store: FileStore, endpoint: Endpoint, label: &str) -> Result<u8> {
    let options = &args.sign_in;
    let client = client(args)?;
    let ways = ["device", "paste", "client-credentials"].into_iter().filter(|way| args.has(way));
    let ways: Vec<&str> = ways.collect();
    let way = match (&ways[..], options.port) {
        ([first, second, ..], _) => return Err(format!("--{first} and --{second} exclude each other").into()),
        ([way @ ("device" | "client-credentials")], Some(_)) => {
            return Err(format!("--{way} has no --port").into());
        }
        (["device"], None) => Some(SignIn::device(show_code)),
        (["paste"], port) => {
            let port = port.unwrap_or(PASTE_PORT);
            let redirect = format!("http://127.0.0.1:{port}/callback");
            Some(SignIn::redirect(redirect.clone(), move |url| paste(url, &redirect)))
        }
        ([], port) => Some(SignIn::loopback_port(port.unwrap_or(0), open)),
        // The registered client sets the way to sign in.
        _ => None,
    };
    let mut oauth = OAuth::new(store.clone());
    if let Some(client) = &client {
        oauth = client.apply(oauth)?;
    }
    if let Some(way) = way {
        oauth = oauth.on_sign_in(way);
    }
    let url = endpoint.url().to_owned();
    if let Some(scope) = &options.scope {
        let earlier = Grant::load(&store, &url).map_err(|error| error.to_string())?;
        let earlier = earlier.as_ref().and_then(Grant::scope).unwrap_or_default();
        oauth = oauth.scope(&format!("{earlier} {scope}"));
    }
    let grant = oauth.sign_in(endpoint).map_err(|error| failure(label, &error))?;
    let client = client
        .filter(RegisteredClient::is_needed_later)
        .map(|client| RegisteredClient { issuer: Some(grant.issuer().to_owned()), ..client });
    RegisteredClient::save(client.as_ref(), &store, &url)?;
    let renews = client.is_some_and(|client| client.signs_in);
    note(args, &format!("signed in to {label} at {}{}", grant.issuer(), details(&grant, renews)));
    if args.has("verbose") {
        note(args, &format!("client {}; the tokens are in {}", grant.client_id(), store.path().display()));
    }
    Ok(0)
}

/// Returns the registered client of the options, or `None` if they name none.
fn client(args: &Args) -> Result<Option<RegisteredClient>> {
    let mut client = args.sign_in.client.clone();
    client.signs_in = args.has("client-credentials");
    let proof = [
        ("client-secret-file", client.secret.is_some()),
        ("client-key", client.key.is_some()),
        ("client-credentials", client.signs_in),
        ("issuer", client.issuer.is_some()),
    ];
    match (proof.iter().find(|(_, is_given)| *is_given), client.id.as_str()) {
        (None, "") => return Ok(None),
        (Some((option, _)), "") => return Err(format!("--{option} requires --client-id").into()),
        _ => {}
    }
    match (client.secret.is_some(), client.key.is_some()) {
        (true, true) => return Err("--client-secret-file and --client-key exclude each other".into()),
        (false, false) if client.signs_in => {
            return Err("--client-credentials requires --client-secret-file or --client-key".into());
        }
        _ => {}
    }
    if client.is_needed_later() {
        client.check_files()?;
    }
    Ok(Some(client))
}

fn logout(args: &Args, store: FileStore, endpoint: Endpoint, label: &str) -> Result<u8> {
    let url = endpoint.url().to_owned();
    let oauth = OAuth::new(store.clone());
    // Without its client, the tokens are removed and not revoked.
    let client = RegisteredClient::load(&store, &url).ok().flatten();
    let with_client = client.and_then(|client| client.apply(oauth.clone()).ok());
    let signed_out = with_client.unwrap_or(oauth).sign_out(endpoint);
    let had_tokens = signed_out.map_err(|error| failure(label, &error))?;
    RegisteredClient::save(None, &store, &url)?;
    note(
        args,
        &match had_tokens {
            true => format!("signed out of {label}"),
            false => format!("there was no sign-in to {label}"),
        },
    );
    Ok(0)
}

/// Prints the servers with stored tokens.
fn list(store: &FileStore, output: &Output) -> Result<u8> {
    let refusal = |error: Error| Failure::from(error.to_string());
    let mut w = Writer::new();
    let mut text = String::new();
    w.begin_object().key("servers").begin_array();
    for server in store.servers().map_err(refusal)? {
        let client = RegisteredClient::load(store, &server)?;
        let renews = client.is_some_and(|client| client.signs_in);
        let grant = Grant::load(store, &server).map_err(refusal)?;
        w.begin_object().key("url").string(&server);
        text.push_str(&plain(&server));
        if let Some(grant) = grant {
            w.key("issuer").string(grant.issuer()).key("client_id").string(grant.client_id());
            if let Some(scope) = grant.scope() {
                w.key("scope").string(scope);
            }
            if let Some(at) = grant.expires_at() {
                w.key("expires_in").i64(seconds_left(at));
            }
            w.key("renewable").bool(renews || grant.is_renewable());
            text.push_str(&plain(&format!(" at {}{}", grant.issuer(), details(&grant, renews))));
        }
        w.end_object();
        text.push('\n');
    }
    w.end_array().end_object();
    match output.is_text() {
        true => output.write(&text)?,
        false => output.print(w.into_json().to_doc().root())?,
    }
    Ok(0)
}

/// Returns the text on scopes and expiry of a grant. `renews` is true for a client that obtains its
/// tokens itself.
fn details(grant: &Grant, renews: bool) -> String {
    let is_renewable = renews || grant.is_renewable();
    let mut text = String::new();
    if let Some(scope) = grant.scope() {
        text.push_str(&format!("; scopes: {scope}"));
    }
    if let Some(at) = grant.expires_at() {
        text.push_str(&match seconds_left(at) {
            left if left < 0 && is_renewable => {
                "; the token has expired and is renewed when it is used".to_owned()
            }
            left if left < 0 => "; the token has expired; sign in again".to_owned(),
            left if left < 120 => format!("; the token expires in {left} s"),
            left if left < 7200 => format!("; the token expires in {} min", left / 60),
            left if left < 172_800 => format!("; the token expires in {} h", left / 3600),
            left => format!("; the token expires in {} days", left / 86_400),
        });
    }
    text
}

/// Returns the seconds until this time, negative if it has passed.
fn seconds_left(at: SystemTime) -> i64 {
    let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match at.duration_since(SystemTime::now()) {
        Ok(left) => seconds(left),
        Err(over) => -seconds(over.duration()) - 1,
    }
}

/// Shows the address, and opens it in a browser if there is one.
fn open(url: &str) -> std::result::Result<(), Error> {
    let browser = browser();
    let elsewhere = match browser {
        Some(_) => "",
        None => ELSEWHERE,
    };
    stderr::write(format!(
        "tinymcp: to sign in, open this address in a browser on this machine:\n  {}\n{elsewhere}",
        plain(url)
    ));
    if let Some(browser) = browser {
        let mut command = Command::new(browser);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                // OK to fail: the user has the address.
                let _ = std::thread::Builder::new().spawn(move || match child.wait() {
                    Ok(status) if !status.success() => no_browser(&command, &status),
                    _ => {}
                });
            }
            Err(error) => no_browser(&command, &error),
        }
    }
    Ok(())
}

/// Reports that the browser did not open the address. The address itself is already shown.
fn no_browser(command: &Command, why: &dyn Display) {
    let program = command.get_program().to_string_lossy();
    stderr::write(format!(
        "tinymcp: {}; open the address by hand\n{ELSEWHERE}",
        plain(&format!("the browser {program} failed: {why}"))
    ));
}

/// Returns the program that opens addresses: `$BROWSER`, or the usual one if there is a screen.
fn browser() -> Option<std::ffi::OsString> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(browser) = set("BROWSER") {
        return Some(browser);
    }
    match cfg!(target_os = "macos") {
        true => Some("open".into()),
        false => set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY")).map(|_| "xdg-open".into()),
    }
}

/// Shows the address, and reads the one that the browser was redirected to.
fn paste(url: &str, redirect: &str) -> std::result::Result<String, Error> {
    stderr::write(format!(
        "tinymcp: open this address in a browser on any machine and sign in:\n  {}\nThe browser then goes to an \
         address that cannot be opened. Copy that address, paste it here and press Enter:\n",
        plain(url)
    ));
    for left in (0..MAX_PASTES).rev() {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            break;
        }
        let address = line.trim();
        let at = address.split('?').next().unwrap_or_default();
        if at == redirect && state(address) == state(url) {
            return Ok(address.to_owned());
        }
        if left > 0 {
            stderr::write(format!(
                "tinymcp: this is not the address of this sign-in, which begins with {redirect}? and has its `state`; \
                 paste it again:\n"
            ));
        }
    }
    Err(Error::new(ErrorKind::Cancelled, "the address of this sign-in was not pasted"))
}

/// Returns the parameter `state` of a URL. Its characters need no escape.
fn state(url: &str) -> Option<&str> {
    let query = url.split_once('?')?.1.split('#').next()?;
    query.split('&').find_map(|pair| pair.strip_prefix("state="))
}

fn show_code(code: &DeviceCode) -> std::result::Result<(), Error> {
    let complete = code.verification_uri_complete.as_ref();
    let or = complete.map(|at| format!(", or open\n  {}", plain(at))).unwrap_or_default();
    stderr::write(format!(
        "tinymcp: open this address in a browser on any machine:\n  {}\nand enter the code {}{or}\n",
        plain(&code.verification_uri),
        plain(&code.user_code)
    ));
    Ok(())
}

/// Returns the failure of a sign-in. A rejected or cancelled sign-in has the exit status `FAILED`.
fn failure(label: &str, error: &Error) -> Failure {
    match error.kind() {
        // Without metadata, the address of the registration is a guess.
        ErrorKind::Refused if error.code() == Some(NOT_FOUND) => Failure::new(
            FAILED,
            format!("{label}: {error}; a server without a sign-in may take a token by --bearer-file FILE"),
        ),
        ErrorKind::Refused | ErrorKind::Cancelled => Failure::new(FAILED, format!("{label}: {error}")),
        _ => Failure::of_request(label, error),
    }
}

fn note(args: &Args, text: &str) {
    if !args.has("quiet") {
        stderr::write(format!("tinymcp: {}\n", plain(text)));
    }
}
