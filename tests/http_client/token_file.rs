//! The file of tokens: readable by its owner only, replaced as a whole, and shared by processes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Barrier};

use tinymcp::oauth::{FileStore, OAuth, SignIn, TokenStore};
use tinymcp::{Client, Endpoint, ErrorKind, Protocol, json};

use crate::auth_server::AuthServer;
use crate::client;
use crate::sign_in::visit;

/// A store in an empty folder.
fn store(name: &str) -> FileStore {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    FileStore::at(folder.join("config/tokens.json"))
}

fn mode(path: impl Into<PathBuf>) -> u32 {
    fs::metadata(path.into()).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_can_read_the_file() {
    let store = store("token-file-mode");
    assert_eq!(store.load("a").unwrap(), None);
    store.save("a", Some("{\"x\":1}")).unwrap();
    store.save("b", Some("2")).unwrap();
    store.save("a", Some("3")).unwrap();
    assert_eq!(
        (store.load("a").unwrap().as_deref(), store.load("b").unwrap().as_deref()),
        (Some("3"), Some("2"))
    );
    store.save("a", None).unwrap();
    assert_eq!(store.servers().unwrap(), ["b"]);
    let folder = store.path().parent().unwrap();
    assert_eq!(mode(folder), 0o700);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        assert!(path.extension().is_none_or(|ending| ending != "new"), "{path:?} was left behind");
    }
}

#[test]
fn a_file_that_is_not_safe_is_rejected_and_not_shown() {
    let store = store("token-file-unsafe");
    store.save("a", Some("\"hidden\"")).unwrap();
    let rejected = || {
        let error = store.load("a").unwrap_err();
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
        assert!(store.save("b", Some("1")).is_err() && store.servers().is_err());
        error.kind()
    };
    for mode in [0o640, 0o604, 0o666] {
        fs::set_permissions(store.path(), Permissions::from_mode(mode)).unwrap();
        assert_eq!(rejected(), ErrorKind::Invalid, "{mode:o}");
    }
    fs::set_permissions(store.path(), Permissions::from_mode(0o600)).unwrap();
    fs::write(store.path(), "{\"a\":\"hidden\"").unwrap();
    assert_eq!(rejected(), ErrorKind::Invalid);
    let elsewhere = store.path().with_extension("elsewhere");
    fs::rename(store.path(), &elsewhere).unwrap();
    symlink(&elsewhere, store.path()).unwrap();
    assert_eq!(rejected(), ErrorKind::Io);
    fs::remove_file(store.path()).unwrap();
    fs::create_dir(store.path()).unwrap();
    fs::set_permissions(store.path(), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(rejected(), ErrorKind::Invalid);
}

#[test]
fn one_process_has_the_right_to_renew() {
    let store = store("token-file-lock");
    let other = FileStore::at(store.path());
    let held = store.try_lock("a").unwrap().unwrap();
    assert!(other.try_lock("a").unwrap().is_none() && store.try_lock("a").unwrap().is_none());
    assert!(other.try_lock("b").unwrap().is_some(), "each server has a lock of its own");
    drop(held);
    assert!(other.try_lock("a").unwrap().is_some());
}

#[test]
fn clients_that_share_the_file_renew_a_token_once() {
    let server = AuthServer::new();
    let store = store("token-file-shared");
    let connect = || -> Client {
        let way = SignIn::redirect("http://127.0.0.1:9/callback", visit);
        let oauth = OAuth::new(FileStore::at(store.path())).on_sign_in(way);
        client().protocol(Protocol::Stateless).connect(Endpoint::new(server.url()).oauth(oauth)).unwrap()
    };
    let clients: Vec<Client> = (0..8).map(|_| connect()).collect();
    assert_eq!(server.state.lock().unwrap().issued, 1, "the first one signed in for all");
    server.state.lock().unwrap().access = None;
    server.seen();
    let start = Arc::new(Barrier::new(clients.len()));
    let threads: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let start = Arc::clone(&start);
            std::thread::spawn(move || {
                start.wait();
                client.call_tool("whoami", json!({})).map(drop)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    assert_eq!(server.state.lock().unwrap().issued, 2);
    let seen = server.seen();
    assert_eq!(seen.iter().filter(|seen| seen.body.contains("grant_type=refresh_token")).count(), 1);
}
