//! What `kvset --version` tells alongside the version: what this build is made of.

use kvset_service::plan::features;
use std::sync::LazyLock;

/// The version, the features of this build and, where it speaks TLS, the library that does.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let built: Vec<_> = features::built().map(|feature| feature.name()).collect();
        let built = if built.is_empty() { "none".to_owned() } else { built.join(", ") };
        format!("{}\nfeatures: {built}{}", env!("CARGO_PKG_VERSION"), tls_library())
    });
    &TEXT
}

#[cfg(feature = "tls")]
fn tls_library() -> String {
    format!("\nTLS: {}", openssl::version::version())
}

#[cfg(not(feature = "tls"))]
fn tls_library() -> &'static str {
    ""
}
