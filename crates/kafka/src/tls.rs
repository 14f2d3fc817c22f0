//! TLS for HTTP: OpenSSL, the library that librdkafka uses, so that the program holds one.

use super::authorities::AuthoritiesError;
use std::path::Path;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// Trust in the authorities of `ca_file`, or else in those the system trusts.
///
/// # Errors
/// The file of certificates cannot be used.
pub fn trusting(ca_file: Option<&Path>) -> Result<TlsConfig, AuthoritiesError> {
    let authorities = match ca_file {
        Some(path) => RootCerts::new_with_certs(&authorities(path)?),
        None => RootCerts::PlatformVerifier,
    };
    Ok(TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(authorities).build())
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
