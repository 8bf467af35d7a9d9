//! A small HTTP server on the loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::world::World;

/// A request as it came in. Header names are lower case.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Method, target, headers that were asked for, body: all on one line.
    pub fn summary(&self, headers: &[&str]) -> String {
        let values = headers.iter().map(|name| format!("{name}={}", self.header(name).unwrap_or("-")));
        let parts = [self.method.clone(), self.target.clone()].into_iter().chain(values);
        format!("{} {}", parts.collect::<Vec<_>>().join(" "), self.body)
    }
}

/// What to answer.
pub enum Reply {
    /// Status and headers as they are written, then the body. The length is added.
    Full(String, Vec<u8>),
    /// Bytes as they are, then the connection is closed.
    Broken(Vec<u8>),
    /// Bytes as they are, and nothing more.
    Silence(Vec<u8>),
}

pub fn reply(status: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    Reply::Full(format!("HTTP/1.1 {status}\r\n{headers}"), body.into())
}

pub fn ok(body: impl Into<Vec<u8>>) -> Reply {
    reply("200 OK", &[], body)
}

pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

pub fn serve(world: &World, answer: impl Fn(Received) -> Reply + Send + Sync + 'static) -> Server {
    start(world, None, answer)
}

pub fn serve_tls(world: &World, answer: impl Fn(Received) -> Reply + Send + Sync + 'static) -> Server {
    start(world, Some(acceptor()), answer)
}

pub fn certificate(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/certs").join(name)
}

/// With the certificate for `localhost`, valid until 2120, of an authority that exists only for tests.
pub fn acceptor() -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificate("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn start(
    world: &World,
    tls: Option<TlsAcceptor>,
    answer: impl Fn(Received) -> Reply + Send + Sync + 'static,
) -> Server {
    let listener = world.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let (answer, count) = (Arc::new(answer), Arc::clone(&connections));
    world.runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let (answer, tls) = (Arc::clone(&answer), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => drop(talk(stream, &*answer).await),
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            drop(talk(stream, &*answer).await);
                        }
                    }
                }
            });
        }
    });
    Server { address, connections }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(dyn Fn(Received) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(received) = receive(&mut stream).await? {
        let is_head = received.method == "HEAD";
        match answer(received) {
            Reply::Full(head, body) => {
                let mut bytes = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
                if !is_head {
                    bytes.extend(body);
                }
                stream.write_all(&bytes).await?;
                stream.flush().await?;
            }
            Reply::Broken(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Reply::Silence(bytes) => {
                stream.write_all(&bytes).await?;
                stream.flush().await?;
                // Until the other side goes.
                while stream.read_u8().await.is_ok() {}
            }
        }
    }
    Ok(())
}

async fn receive(stream: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<Option<Received>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.remove(0).split(' ').map(str::to_owned).collect::<Vec<_>>();
    let headers: Vec<(String, String)> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    Ok(Some(Received {
        method: std::mem::take(&mut first[0]),
        target: std::mem::take(&mut first[1]),
        headers,
        body: String::from_utf8(body).unwrap(),
    }))
}
