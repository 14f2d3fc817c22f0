//! What cannot be had together wherever it is asked for, a row each: why, and what to do in a configuration and on a
//! command line.

/// Something that cannot be had as everything else is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clash {
    /// Why, to follow what it is about.
    pub why: &'static str,
    /// What to do, by the keys of a configuration.
    pub key: &'static str,
    /// What to do, by the options of the command line.
    pub flag: &'static str,
}

impl Clash {
    /// Bytes cannot be turned into pages.
    pub const SIZE_IN_BYTES: Self = Self {
        why: "a size in bytes",
        key: "set `kv_bytes_per_token`, or give pages (5000p)",
        flag: "give --kv-bytes-per-token or --model-config, or pages (5000p)",
    };
    /// A sample of the pages does not show it.
    pub const SAMPLE: Self = Self {
        why: "needs every page",
        key: "leave `sample_rate` at 1, or leave it out",
        flag: "leave --sample-rate at 1",
    };
    /// It needs one stack for all capacities.
    pub const NO_STACK: Self = Self {
        why: "needs an engine with one curve",
        key: "choose another engine, or leave it out",
        flag: "choose another --engine, or with vllm --attention full",
    };
}
