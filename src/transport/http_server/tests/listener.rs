//! Tests of addresses and Unix sockets.

use super::*;

#[test]
fn addresses_are_returned_with_their_port() {
    for address in ["127.0.0.1:0", "[::1]:0", "localhost:0"] {
        // A machine without IPv6 has no such address.
        let Ok(listeners) = Listener::bind(address) else { continue };
        let address = listeners[0].address();
        assert!(!address.ends_with(":0") && listeners[0].is_local(), "{address}");
        let taken = Listener::bind(&address).err().map(|e| e.kind());
        assert_eq!(taken, Some(crate::ErrorKind::Busy), "{address}");
    }
    for address in ["", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "unix:", "systemd"] {
        let kind = Listener::bind(address).err().map(|e| e.kind());
        assert_eq!(kind, Some(crate::ErrorKind::Invalid), "{address:?}");
    }
    for (address, hint) in [
        (":8124", "127.0.0.1:8124"),
        ("8124", "127.0.0.1:8124"),
        ("http://127.0.0.1:8124", "\"127.0.0.1:8124\""),
        ("https://localhost:8124/mcp", "\"localhost:8124\""),
        ("127.0.0.1", "127.0.0.1:8080"),
        ("", "127.0.0.1:8080"),
        ("localhost:x", "127.0.0.1:8080"),
    ] {
        let error = Listener::bind(address).err().unwrap();
        let text = error.to_string();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{address:?}");
        for form in ["HOST:PORT", "unix:", "systemd", hint] {
            assert!(text.contains(form), "{address:?}: {text}");
        }
        assert!(!text.contains("lookup"), "{text}");
    }
    let any = Listener::bind("0.0.0.0:0").unwrap();
    assert!(!any[0].is_local());
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_its_owners_and_is_removed_at_the_end() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let folder = std::env::temp_dir().join(format!("tinymcp-listen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let address = format!("unix:{}", path.display());
    // A killed process has left this socket file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listeners = Listener::bind(&address).unwrap();
    assert_eq!((listeners[0].address(), listeners[0].is_local()), (address.clone(), true));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let taken = Listener::bind(&address).err().map(|e| e.kind());
    assert_eq!(taken, Some(crate::ErrorKind::Busy));

    let (gone, hear_gone) = mpsc::channel();
    let on_request: OnRequest = Box::new(|_, _, exchange| {
        exchange.respond(200, &[], b"hello");
    });
    let service = Closures {
        on_head: Box::new(|_| Admission::ReadBody),
        on_request,
        gone: gone.clone(),
        stopped: gone,
    };
    let tcp = Listener::bind("127.0.0.1:0").unwrap();
    let (handle, thread) = run(listeners.into_iter().chain(tcp).collect(), limits(), service);
    for _ in 0..3 {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert!(all.starts_with("HTTP/1.1 200 OK\r\n") && all.ends_with("\r\n\r\nhello"), "{all}");
    }
    handle.stop(Instant::now());
    thread.join().unwrap();
    assert!(!path.exists() && hear_gone.try_recv().is_ok());
    // A file that is not a socket, or that has replaced it, is not removed.
    let listeners = Listener::bind(&address).unwrap();
    std::fs::write(folder.join("other"), "x").unwrap();
    std::fs::rename(folder.join("other"), &path).unwrap();
    drop(listeners);
    assert!(Listener::bind(&address).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
    std::fs::remove_dir_all(&folder).unwrap();
}
