//! Why certificates of authorities cannot be used.

use kvset_core::units::features::MissingFeature;
use std::path::PathBuf;

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
    /// This build has no TLS to use it for.
    #[error(transparent)]
    Missing(#[from] MissingFeature),
}
