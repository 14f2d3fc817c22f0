//! Asking HTTP servers: TLS, whom to trust, and limits.

use rustls::crypto::ring;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::http::HeaderValue;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Why a file of certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// It cannot be read.
    #[error("file `{}` cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds no certificates.
    #[error("file `{}` holds no certificates: expected PEM blocks `BEGIN CERTIFICATE`", path.display())]
    None {
        /// The file.
        path: PathBuf,
    },
}

/// A client that trusts the authorities of `ca_file`, or else those the system trusts, and gives a
/// request up after `timeout`. It follows no redirects: they would carry credentials to an address
/// nobody configured. Every status is an answer, no error.
///
/// # Errors
/// The file of certificates cannot be used.
pub fn agent(ca_file: Option<&Path>, timeout: Duration) -> Result<Agent, AuthoritiesError> {
    let authorities = match ca_file {
        Some(path) => RootCerts::new_with_certs(&authorities(path)?),
        None => RootCerts::PlatformVerifier,
    };
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(authorities)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent(concat!("kvset/", env!("CARGO_PKG_VERSION")));
    Ok(config.build().new_agent())
}

/// A header whose value no log shows; `None` when a header cannot carry it.
pub fn secret_header(value: String) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(value).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Whether no connection came about because the other side is not trusted.
pub fn is_untrusted(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => true,
        ureq::Error::Io(error) => error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()),
        _ => false,
    }
}

/// The certificates of a PEM file.
fn authorities(path: &Path) -> Result<Vec<Certificate<'static>>, AuthoritiesError> {
    let fail = |source| AuthoritiesError::Read { path: path.to_owned(), source };
    let pem = std::fs::read(path).map_err(fail)?;
    let none = || AuthoritiesError::None { path: path.to_owned() };
    let items: Result<Vec<_>, _> = parse_pem(&pem).collect();
    let certificate = |item| if let PemItem::Certificate(found) = item { Some(found) } else { None };
    let found: Vec<_> = items.map_err(|_| none())?.into_iter().filter_map(certificate).collect();
    if found.is_empty() { Err(none()) } else { Ok(found) }
}
