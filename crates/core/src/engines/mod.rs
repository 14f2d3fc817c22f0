//! Caches as serving engines keep them: those whose every capacity one pass gives, those that are modelled at one
//! capacity each, their rules, and the tiers below.

/// A cache is written as what it saves, and read by restoring that.
macro_rules! saved_as {
    ($cache:ty, $saved:ty, $error:ty) => {
        impl serde::Serialize for $cache {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.save().serialize(serializer)
            }
        }

        impl TryFrom<$saved> for $cache {
            type Error = $error;

            fn try_from(saved: $saved) -> Result<Self, $error> {
                Self::restore(&saved)
            }
        }
    };
}

pub mod bank;
pub mod below;
pub mod chat_engine;
mod chunks;
pub mod config;
pub(in crate::engines) mod groups;
pub mod hits;
pub mod hybrid;
pub mod lmcache;
mod load;
pub mod mooncake;
pub mod one_pass;
pub mod profile;
pub mod rules;
pub mod sglang;
pub mod trtllm;
pub mod vllm_offload;
