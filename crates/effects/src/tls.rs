//! Certificates: whom to trust, and how far.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot read certificates from {}: {reason}", path.display())]
    Roots { path: PathBuf, reason: String },
    #[error("no trusted certificates are installed on this system")]
    NoRoots,
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] Error),
}

/// Makes ring the process's cryptography. The first to install one wins, so again is harmless.
pub(crate) fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The system's certificate authorities and the operator's, read on first use: that takes milliseconds.
pub(crate) struct Roots {
    extra: Vec<PathBuf>,
    store: OnceLock<Result<Arc<RootCertStore>, TlsError>>,
}

impl Roots {
    pub(crate) fn new(extra: Vec<PathBuf>) -> Roots {
        Roots { extra, store: OnceLock::new() }
    }

    fn store(&self) -> Result<Arc<RootCertStore>, TlsError> {
        self.store.get_or_init(|| load(&self.extra)).clone()
    }
}

fn load(extra: &[PathBuf]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "a system certificate cannot be read");
    }
    store.add_parsable_certificates(native.certs);
    for path in extra {
        add_file(&mut store, path)?;
    }
    Ok(Arc::new(store))
}

fn add_file(store: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let failed = |reason: String| TlsError::Roots { path: path.to_owned(), reason };
    // To open a pipe would wait for its other end.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(failed("it is not a regular file".to_owned()));
    }
    let certificates: Vec<CertificateDer> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() {
        return Err(failed("it holds none".to_owned()));
    }
    for certificate in certificates {
        store.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// How the other end has to prove who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It need not: the connection is encrypted, no more.
    Anyone,
    /// By a certificate of a known authority, whatever name it carries.
    Chain { roots: Option<PathBuf> },
    /// By a certificate of a known authority for its name.
    Full { roots: Option<PathBuf> },
}

/// A client's settings. Without any installed certificates it is still made: plain HTTP needs none.
pub(crate) fn http_config(roots: &Roots) -> Result<ClientConfig, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.store()?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

pub(crate) fn config(trust: &Trust, roots: &Roots) -> Result<ClientConfig, TlsError> {
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anyone => Arc::new(NoVerifier { provider: provider() }),
        Trust::Chain { roots: file } => Arc::new(ChainVerifier(chain(file.as_deref(), roots)?)),
        Trust::Full { roots: file } => chain(file.as_deref(), roots)?,
    };
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn chain(file: Option<&Path>, roots: &Roots) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let store = match file {
        Some(path) => {
            let mut store = RootCertStore::empty();
            add_file(&mut store, path)?;
            Arc::new(store)
        }
        None => roots.store()?,
    };
    if store.is_empty() {
        return Err(TlsError::NoRoots);
    }
    WebPkiServerVerifier::builder_with_provider(store, provider())
        .build()
        .map_err(|error| TlsError::Setup(Error::General(error.to_string())))
}

#[derive(Debug)]
struct NoVerifier {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    // A signature with a key nobody vouches for proves nothing, so it is not looked at: this also
    // lets in old certificates that the verifier could not read.
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Debug)]
struct ChainVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is compared last, after the chain has been found good.
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
