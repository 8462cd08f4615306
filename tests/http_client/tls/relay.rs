//! TLS in front of a server without it, and a proxy that opens tunnels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::{AUTHORITY, certificate};

/// Relays each connection on a thread of its own. The threads end with the process.
fn listen(relay: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let relay = Arc::new(relay);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, relay) = (socket.unwrap(), Arc::clone(&relay));
            std::thread::spawn(move || relay(socket));
        }
    });
    address
}

/// Whether a client must have a certificate of the tests' authority.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    Any,
    Certified,
}

/// Starts TLS in front of a server.
pub(crate) fn tls(server: SocketAddr, clients: Clients) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_protocol_versions(rustls::ALL_VERSIONS).unwrap();
    let config = match clients {
        Clients::Any => config.with_no_client_auth(),
        Clients::Certified => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(&certificate(AUTHORITY)).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(&certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&certificate("server.key")).unwrap();
    let config = Arc::new(config.with_single_cert(chain, key).unwrap());
    listen(move |socket| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        // OK to fail: the client may not trust the certificate.
        let _ = terminate(socket, connection, server);
    })
}

/// Relays the content of a TLS connection.
fn terminate(mut outer: TcpStream, mut tls: ServerConnection, server: SocketAddr) -> std::io::Result<()> {
    while tls.is_handshaking() {
        tls.complete_io(&mut outer)?;
    }
    let mut inner = TcpStream::connect(server)?;
    let (mut responses, mut encrypted) = (inner.try_clone()?, outer.try_clone()?);
    let tls = Arc::new(Mutex::new(tls));
    let writing = Arc::clone(&tls);
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            let count = responses.read(&mut bytes)?;
            let mut tls = writing.lock().unwrap();
            if count == 0 {
                tls.send_close_notify();
            } else {
                tls.writer().write_all(&bytes[..count])?;
            }
            while tls.wants_write() {
                tls.write_tls(&mut encrypted)?;
            }
            if count == 0 {
                return encrypted.shutdown(Shutdown::Both);
            }
        }
    });
    let mut bytes = [0; 4096];
    let mut received: &[u8] = &[];
    loop {
        let mut plain = Vec::new();
        let mut connection = tls.lock().unwrap();
        // OK to fail: there is no more content now. Content may also have arrived with the handshake.
        let _ = connection.reader().read_to_end(&mut plain);
        let is_drained = received.is_empty() && plain.is_empty();
        if !received.is_empty() {
            connection.read_tls(&mut received)?;
            connection.process_new_packets().map_err(std::io::Error::other)?;
        }
        drop(connection);
        inner.write_all(&plain)?;
        if is_drained {
            let count = outer.read(&mut bytes)?;
            if count == 0 {
                return inner.shutdown(Shutdown::Both);
            }
            received = &bytes[..count];
        }
    }
}

/// A proxy that opens tunnels to one address, whatever the request names.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Heads of the requests, and all bytes that clients sent through the tunnels.
    seen: Arc<Mutex<(Vec<String>, Vec<u8>)>>,
}

impl Proxy {
    /// `status` is the start of each response.
    pub(crate) fn start(server: SocketAddr, status: &'static str) -> Proxy {
        let seen = Arc::new(Mutex::new((Vec::new(), Vec::new())));
        let noted = Arc::clone(&seen);
        let address = listen(move |mut client| {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if client.read(&mut byte).unwrap_or_default() == 0 {
                    return;
                }
                head.push(byte[0]);
            }
            noted.lock().unwrap().0.push(String::from_utf8(head).unwrap());
            write!(client, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            if status.starts_with("200") {
                // OK to fail: either side may close the tunnel.
                let _ = tunnel(client, server, &noted);
            }
        });
        Proxy { address, seen }
    }

    /// The heads of the requests for tunnels.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().0.clone()
    }

    /// Returns whether the tunnels carried this text.
    pub(crate) fn has_carried(&self, text: &str) -> bool {
        self.seen.lock().unwrap().1.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn tunnel(
    mut client: TcpStream,
    to: SocketAddr,
    seen: &Mutex<(Vec<String>, Vec<u8>)>,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(to)?;
    let (mut responses, mut back) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut responses, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    loop {
        let count = client.read(&mut bytes)?;
        if count == 0 {
            return server.shutdown(Shutdown::Both);
        }
        seen.lock().unwrap().1.extend_from_slice(&bytes[..count]);
        server.write_all(&bytes[..count])?;
    }
}
