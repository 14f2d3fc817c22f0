//! Asking HTTP servers: what each request is bound by.

use crate::authorities::AuthoritiesError;
#[cfg(not(feature = "tls"))]
use kvset_core::units::features::Feature;
use std::path::Path;
use std::time::Duration;
use ureq::Agent;
use ureq::http::HeaderValue;

/// A client that trusts the authorities of `ca_file`, or else those the system trusts, and gives a
/// request up after `timeout`. It follows no redirects: they would carry credentials to an address
/// nobody configured. Every status is an answer, no error.
///
/// # Errors
/// The file of certificates cannot be used.
pub fn agent(ca_file: Option<&Path>, timeout: Duration) -> Result<Agent, AuthoritiesError> {
    #[cfg(feature = "tls")]
    let config = Agent::config_builder().tls_config(super::tls::trusting(ca_file)?);
    #[cfg(not(feature = "tls"))]
    let config = {
        Feature::Tls.require(ca_file.is_none())?;
        Agent::config_builder()
    };
    let config = config
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
        #[cfg(feature = "tls")]
        ureq::Error::NativeTls(_) => true,
        ureq::Error::Tls(_) => true,
        _ => false,
    }
}
