//! Parts of the program that a build may leave out, and how it says that one is missing.
//!
//! Which parts a build has is for each crate to say, with `cfg!(feature = "...")`; the wording is one.

/// A part that is compiled in only when its cargo feature is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Tokenizers and chat templates.
    Tokenize,
    /// TLS, SASL/SCRAM and OAUTHBEARER for brokers, and https for registries.
    Tls,
    /// Shared snapshots in a mounted directory.
    ObjectStore,
    /// Shared snapshots in S3 and what speaks its protocol.
    ObjectStoreS3,
    /// Shared snapshots in Google Cloud Storage.
    ObjectStoreGcs,
    /// Shared snapshots in Azure Blob Storage.
    ObjectStoreAzure,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 6] = [
        Self::Tokenize,
        Self::Tls,
        Self::ObjectStore,
        Self::ObjectStoreS3,
        Self::ObjectStoreGcs,
        Self::ObjectStoreAzure,
    ];

    /// Its name, as cargo's `--features` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokenize => "tokenize",
            Self::Tls => "tls",
            Self::ObjectStore => "object-store",
            Self::ObjectStoreS3 => "object-store-s3",
            Self::ObjectStoreGcs => "object-store-gcs",
            Self::ObjectStoreAzure => "object-store-azure",
        }
    }

    /// Goes on where the feature is `built` in.
    ///
    /// # Errors
    /// It is not.
    pub const fn require(self, built: bool) -> Result<(), MissingFeature> {
        if built { Ok(()) } else { Err(MissingFeature(self)) }
    }
}

/// This build lacks a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this kvset was built without the feature `{name}`; install it with \
     `cargo install --locked --path . --features {name}`",
    name = .0.name()
)]
pub struct MissingFeature(pub Feature);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named_with_the_command_that_installs_it() {
        assert_eq!(Feature::Tls.require(true), Ok(()));
        let said = Feature::ObjectStoreS3.require(false).expect_err("missing").to_string();
        assert_eq!(
            said,
            "this kvset was built without the feature `object-store-s3`; install it with \
             `cargo install --locked --path . --features object-store-s3`"
        );
    }
}
