//! Which configuration made a result, in 64 bits.

use super::{FieldDoc, PoolSettings, Settings, SettingsSection};
use kvset_core::estimate::config::RESULT_VERSION;
use xxhash_rust::xxh3::Xxh3;

/// Enters every fingerprint: raised when equal settings begin to mean other results.
const VERSION: &[u8] = b"kvset configuration 1\n";

impl Settings {
    /// Identifies what shapes results: two configurations with equal fingerprints give the same
    /// estimates for the same log.
    ///
    /// What enters: the version of results, the engine's revision and that of the questions alongside estimates;
    /// every setting marked `[results]` in `sections.rs` ("shapes results" in the commented default: of `[input]` the
    /// encoding and the limits, all of `[estimate]` and `[plan]`), as `section.key=value` in order of declaration,
    /// left out when not set; then each tier's settings, in their order, and each pool's, in order of the pools'
    /// names; and what a pool holds today, where its measured hits are compared with that; and how long records are
    /// held back, where requests that overlap are modelled. Brokers, topics, properties, delivery, paths, commits,
    /// threads, HTTP and logging stay out.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(VERSION);
        hash.update(&RESULT_VERSION.to_le_bytes());
        hash.update(&self.estimate.engine.spec().revision.to_le_bytes());
        for section in self.sections() {
            enter(&mut hash, section.name, &section.fields);
        }
        for tier in &self.tiers {
            enter(&mut hash, "tiers", &tier.fields());
        }
        let mut pools: Vec<_> = self.pools.iter().collect();
        pools.sort_by(|left, right| left.name.cmp(&right.name));
        for pool in pools {
            enter(&mut hash, "pools", &pool.fields());
            self.enter_asked(&mut hash, Some(pool));
            self.enter_order(&mut hash, &pool.name);
        }
        self.enter_asked(&mut hash, None);
        self.enter_order(&mut hash, "");
        hash.digest()
    }

    /// What a pool holds today shapes what it says alongside its estimates, where that is asked of it; so do the
    /// rules by which that is answered.
    fn enter_asked(&self, hash: &mut Xxh3, pool: Option<&PoolSettings>) {
        let (asked, name) = (self.questions(pool), pool.map_or("", |pool| &pool.name));
        if !asked.is_nothing() {
            hash.update(format!("asked {name}={}\n", asked.revision()).as_bytes());
        }
        if let Some(provisioned) = asked.provisioned {
            hash.update(format!("provisioned {name}={provisioned}\n").as_bytes());
        }
    }

    /// Where requests that overlap are modelled, the order in which records are taken shapes results, whether or not
    /// it is set.
    fn enter_order(&self, hash: &mut Xxh3, pool: &str) {
        let config = self.pool_config(pool);
        if config.cache.models_overlap() {
            let (ms, bytes) = (config.hold_back_ms, self.hold_back_bytes());
            hash.update(format!("overlap {pool}=on {ms} {bytes}\n").as_bytes());
        }
    }

    /// The fingerprint as results carry it: 16 hexadecimal digits.
    pub fn fingerprint_hex(&self) -> String {
        format!("{:016x}", self.fingerprint())
    }
}

/// Adds the settings that shape results.
fn enter(hash: &mut Xxh3, section: &str, fields: &[FieldDoc]) {
    for field in fields.iter().filter(|field| field.shapes_results) {
        if let Some(value) = &field.value {
            hash.update(format!("{section}.{}={value}\n", field.name).as_bytes());
        }
    }
}
