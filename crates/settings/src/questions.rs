//! The questions alongside the curve: the settings of [estimate] and [[pools]], each declared once, and what of them
//! holds for one pool.

use super::declare::{DeclaredSetting, FieldDoc, SettingEntry, SettingsSection, TableReader};
use super::values::{PoolRate, Price};
use super::{PoolSettings, Settings};
use kvset_core::engines::rules::EnginePart;
use kvset_core::questions::costs::{PrefillCosts, PrefillRate, Prices};
use kvset_core::questions::enabled::Questions;
use kvset_core::questions::retention::{MAX_TTLS, Ttl};
use kvset_core::questions::reuse::{MAX_TOLD_TENANTS, ReuseSetting};
use kvset_core::questions::routing::{MAX_ROUTERS, RouterSpec};
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::ratio::Ratio;
use std::ops::RangeInclusive;

/// Declares the settings; a pool's own come before the general ones.
macro_rules! questions {
    ($(
        $(#[doc = $doc:literal])+
        $([$mark:ident])?
        $field:ident: $Type:ty $(, in $range:expr)?, like $example:expr;
    )+) => {
        sections! {
            /// The questions alongside the curve.
            pub struct PoolQuestions {
                $(
                    $(#[doc = $doc])+
                    $([$mark])?
                    $field: Option<$Type> = None $(, in $range)?, like $example;
                )+
            }
        }

        impl PoolQuestions {
            /// These, and what they leave out as it is set in general.
            fn over(&self, general: &Self) -> Self {
                Self { $($field: self.$field.as_ref().or(general.$field.as_ref()).cloned(),)+ }
            }
        }
    };
}

questions! {
    /// What the cache holds today, all replicas together, shown as a metric alongside what it needs. It changes no
    /// estimate but what `measured`, `prefill_rate`, `restarts` and `retention_classes` say.
    provisioned: CapacitySpec, like "500GiB".parse().ok();
    /// Whether every estimate says how the cache in use compares with the modelled one, by the `cached_tokens` and
    /// `replica` that events carry. A log that names replicas costs twice the time and the memory.
    [results]
    measured: bool, like Some(true);
    /// Routers to try in every estimate. Each costs as much again, and one more cache in memory for each of its
    /// replicas. An empty list for none.
    [results]
    routers: Vec<RouterSpec>, in 0..=MAX_ROUTERS, like Some(example(&["round-robin:4", "prefix:4"]));
    /// Times to live to try in every estimate: what keeping pages for that long would give, from the last use and from
    /// the write, and how long unused pages live in each of `capacities` (at most 64). An empty list for none.
    [results]
    ttls: Vec<Ttl>, in 0..=MAX_TTLS, like Some(example(&["5m", "1h"]));
    /// How many tenants to report one by one in every estimate, those that hold the most; all others are reported as
    /// one. At most 4,096 are distinguished. 0 for none at all.
    [results]
    tenants: u32, in 0..=MAX_TOLD_TENANTS, like Some(5);
    /// Whether windows over event time and `last:N` say what passes between their planned tiers, of which there
    /// must be two; keeps up to a million runs of requests, 16 MB, per window.
    [results]
    traffic: bool, like Some(false);
    /// Tokens that one worker prefills per second, as one number or by the context before the token
    /// ("14000@0,9000@32768"): every estimate says what the cache is worth in accelerator-hours and time to the first
    /// token; with `traffic` also at which bandwidth loading is as fast. A sample has the latter alone. 0 switches it
    /// off.
    [results]
    prefill_rate: PoolRate, like "10000".parse().ok().map(PoolRate::of);
    /// Price of that worker per hour, in any currency: what the cache is worth in money.
    [results]
    gpu_price: Price, like Price::new(2.5);
    /// Price of a GiB of cache per hour, in the same currency.
    [results]
    gib_price: Price, like Price::new(0.003);
    /// Whether every estimate says what an emptied cache costs, by hour of the day, at the `provisioned` and the
    /// recommended size: in tokens, with `prefill_rate` in time, with `gpu_price` in money. At most 64 of `capacities`.
    /// A pool with a `sample_rate` of its own does not have it.
    [results]
    restarts: bool, like Some(false);
    /// Whether every estimate says what each retention class (`retention_class` of the events: `5m`, `1h`,
    /// `priority-80`) finds and holds, at the `provisioned` and the recommended size; 16 classes one by one, all others
    /// as one. At most 64 of `capacities`.
    [results]
    retention_classes: bool, like Some(false);
    /// Whether every estimate says how certain it is: the ends of a 90 % interval, within which requirement and
    /// recommendation would lie with other conversations at the same hours. One more cache follows the log for each of
    /// ten groups of conversations: little more time and memory, but up to twice and four times where events state
    /// durations.
    [results]
    certainty: bool, like Some(false);
}

/// They stand among the settings of a section.
impl SettingEntry for PoolQuestions {
    type Bound = bool;

    fn keys(_: &'static str) -> Vec<&'static str> {
        <Self as SettingsSection>::keys()
    }

    fn read(reader: &mut TableReader<'_>, _: &'static str, _: Self, _: Option<RangeInclusive<bool>>) -> Self {
        <Self as SettingsSection>::read(reader)
    }

    fn describe(&self, _: DeclaredSetting<Self, bool>) -> Vec<FieldDoc> {
        self.fields()
    }
}

/// What the default configuration shows as a list.
fn example<T: std::str::FromStr>(texts: &[&str]) -> Vec<T> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Settings {
    /// What a pool with these settings of its own answers alongside its estimates.
    pub(super) fn questions(&self, own: Option<&PoolSettings>) -> Questions {
        let general = &self.estimate.questions;
        let set = own.map_or_else(|| general.clone(), |own| own.questions.over(general));
        let (measured, traffic) = (set.measured.unwrap_or_default(), set.traffic.unwrap_or_default());
        let own_sample = own.and_then(|pool| pool.sample_rate);
        let rate = set.prefill_rate.as_ref().and_then(PoolRate::rate);
        let worth = rate.and_then(|rate| self.worth(own_sample, rate, &set));
        // A pool's own sample does not say it.
        let is_sampled = own_sample.is_some_and(is_sample);
        let says_restarts = own.and_then(|pool| pool.questions.restarts);
        let restarts = says_restarts.or(general.restarts.filter(|_| !is_sampled)).unwrap_or_default();
        let retention_classes = set.retention_classes.unwrap_or_default();
        let says_provisioned = measured || worth.is_some() || restarts || retention_classes;
        Questions {
            measured,
            // Without these it is no part of any result.
            provisioned: set.provisioned.clone().filter(|_| says_provisioned),
            routers: set.routers.clone().unwrap_or_default(),
            reuse: ReuseSetting {
                ttls: set.ttls.clone().unwrap_or_default(),
                tenants: set.tenants.filter(|most| *most > 0),
                traffic,
                // Without traffic there is nothing to compare it with.
                prefill_rate: rate.filter(|_| traffic).map(PrefillRate::at_start),
                ..ReuseSetting::default()
            },
            worth,
            restarts,
            retention_classes,
            certainty: set.certainty.unwrap_or_default(),
            draft_range: EnginePart::PAIRS.holds(&self.estimate.rules(own), self.estimate.engine),
            ..Questions::default()
        }
    }

    /// What the worth of a cache is answered by, at this rate.
    fn worth(
        &self,
        own_sample: Option<Ratio>,
        rate: &PrefillRate,
        set: &PoolQuestions,
    ) -> Option<PrefillCosts> {
        let prices = Prices {
            accelerator_hour: set.gpu_price.map(Price::get),
            gib_hour: set.gib_price.map(Price::get),
        };
        // Of a sample the rate says what it says of traffic, as long as nobody asks for money of all pools.
        let of_traffic_alone = match own_sample {
            Some(rate) => is_sample(rate),
            None => {
                let traffic = set.traffic.unwrap_or_default();
                traffic && is_sample(self.estimate.sample_rate) && prices == Prices::default()
            }
        };
        (!of_traffic_alone).then(|| PrefillCosts { prefill_rate: rate.clone(), prices })
    }
}

/// Whether only a sample of the pages is followed at this rate.
fn is_sample(rate: Ratio) -> bool {
    rate != Ratio::ONE
}
