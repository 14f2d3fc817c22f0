//! The types of settings that are written as text: durations, sizes, capacities, names, addresses.

use super::field::{Choice, Field, ValueRefusal, bounded, parsed, quoted, text_of};
use config::{Value, ValueKind};
use kvset_core::questions::costs::PrefillRate;
use kvset_core::questions::retention::Ttl;
use kvset_core::questions::routing::RouterSpec;
use kvset_core::sizing::tiers::{Inclusion, is_price};
use kvset_core::stack::{ChainCheck, ChainPolicy};
use kvset_core::units::capacity::{CapacitySize, CapacitySpec};
use kvset_core::units::window::{format_duration_ms, parse_duration_ms};
use kvset_formats::codec::{Encoding, EstimateDetail};
use kvset_formats::position::{LostHistory, StartFrom};
use std::fmt;
use std::net::SocketAddr;
use std::ops::{Deref, RangeInclusive};
use std::time::Duration;

/// A span of time, written `5m`, `30s` or `250ms`; `0s` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    ms: u64,
}

impl Span {
    /// A span of so many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self { ms }
    }

    /// A span of so many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self { ms: seconds * 1000 }
    }

    /// A span of so many minutes.
    pub const fn from_mins(minutes: u64) -> Self {
        Self { ms: minutes * 60_000 }
    }

    /// A span of so many days.
    pub const fn from_days(days: u64) -> Self {
        Self { ms: days * 86_400_000 }
    }

    /// Milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.ms
    }

    /// As a duration of the standard library.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ms {
            0 => f.pad("0s"),
            ms => f.pad(&format_duration_ms(ms)),
        }
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ms = if text == "0s" { Some(0) } else { parse_duration_ms(text) };
        let expected =
            || format!("`{text}` is no duration: write a whole number and ms, s, m, h or d, like 30s");
        ms.map(Self::from_ms).ok_or_else(expected)
    }
}

impl Field for Span {
    type Bound = Span;

    fn allowed(range: Option<&RangeInclusive<Span>>) -> String {
        bounded(range, "a duration like \"30s\" or \"5m\"", ", from")
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        text_of(value)?.parse().map_err(|_| ValueRefusal::NotAllowed)
    }

    fn measure(&self) -> Option<Span> {
        Some(*self)
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

/// The units a size is written in, largest first, with their bytes.
const SIZE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes that limits something, written `8MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl Size {
    /// So many mebibytes.
    pub const fn from_mib(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = SIZE_UNITS.iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        let (name, scale) = whole.unwrap_or(&("B", 1));
        f.pad(&format!("{}{name}", self.0 / scale))
    }
}

impl Field for Size {
    type Bound = Size;

    fn allowed(range: Option<&RangeInclusive<Size>>) -> String {
        bounded(range, "a size like \"8MiB\"", ", from")
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        let text = text_of(value)?;
        // A capacity is never nothing, a limit may be.
        let is_nothing = |unit: &str| text.strip_suffix(unit).is_some_and(|number| number.trim_end() == "0");
        if SIZE_UNITS.iter().any(|(unit, _)| is_nothing(unit)) {
            return Ok(Self(0));
        }
        match text.parse::<CapacitySpec>().map(|spec| spec.size) {
            Ok(CapacitySize::Bytes(bytes)) => Ok(Self(bytes.0)),
            Ok(CapacitySize::Pages(_)) | Err(_) => Err(ValueRefusal::NotAllowed),
        }
    }

    fn measure(&self) -> Option<Size> {
        Some(*self)
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Field for PrefillRate {
    type Bound = bool;

    const ALLOWED: &'static str =
        "a number above 0, up to 1000000000, or such by ascending contexts, like \"14000@0,9000@32768\"";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        let text = match &value.kind {
            ValueKind::String(text) => text.clone(),
            _ => super::field::decimal(value)?.to_string(),
        };
        parsed(&text)
    }

    fn toml(&self) -> Option<String> {
        let text = self.to_string();
        Some(if text.parse::<f64>().is_ok() { text } else { quoted(&text) })
    }
}

/// A pool's rate of prefill, or none of its own nor of all pools: 0.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRate(Option<PrefillRate>);

impl PoolRate {
    /// A rate.
    pub fn of(rate: PrefillRate) -> Self {
        Self(Some(rate))
    }

    /// The rate; `None` where the pool is to have none.
    pub fn rate(&self) -> Option<&PrefillRate> {
        self.0.as_ref()
    }
}

impl Field for PoolRate {
    type Bound = bool;

    fn allowed(bound: Option<&RangeInclusive<bool>>) -> String {
        format!("0 for none, {}", PrefillRate::allowed(bound))
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        let is_none = match &value.kind {
            ValueKind::String(text) => text.trim() == "0",
            _ => super::field::decimal(value)? == 0.0,
        };
        if is_none { Ok(Self(None)) } else { PrefillRate::read(value).map(Self::of) }
    }

    fn toml(&self) -> Option<String> {
        self.0.as_ref().map_or_else(|| Some("0".to_owned()), PrefillRate::toml)
    }
}

/// Bytes of KV state per token; finite and positive, may be fractional.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct TokenCost(f64);

impl TokenCost {
    /// Most bytes a token may cost: far beyond any model.
    pub const MAX: f64 = 1e9;

    /// `None` unless the number is above 0 and at most [`TokenCost::MAX`].
    pub fn new(bytes: f64) -> Option<Self> {
        (bytes > 0.0 && bytes <= Self::MAX).then_some(Self(bytes))
    }

    /// Bytes per token.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Field for TokenCost {
    type Bound = bool;

    const ALLOWED: &'static str = "a number above 0, up to 1000000000";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        TokenCost::new(super::field::decimal(value)?).ok_or(ValueRefusal::NotAllowed)
    }

    fn toml(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// The price of something, in whatever currency; finite and not negative.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Price(f64);

impl Price {
    /// `None` unless the number can be a price.
    pub fn new(price: f64) -> Option<Self> {
        is_price(price).then_some(Self(price))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Field for Price {
    type Bound = bool;

    const ALLOWED: &'static str = "a number from 0 to 1e15";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        Price::new(super::field::decimal(value)?).ok_or(ValueRefusal::NotAllowed)
    }

    fn toml(&self) -> Option<String> {
        Some(format!("{:?}", self.0))
    }
}

/// The name of a Kafka topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicName(String);

impl TopicName {
    /// `None` unless Kafka would take the name.
    pub fn new(name: &str) -> Option<Self> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=249).contains(&name.len()) && name != "." && name != "..";
        (fits && name.bytes().all(legal)).then(|| Self(name.to_owned()))
    }

    /// A name that is known to be legal.
    pub(super) fn known(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for TopicName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::str::FromStr for TopicName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text).ok_or_else(|| format!("expected {}", Self::allowed(None)))
    }
}

/// Where a server listens; nothing when it is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl Listen {
    fn of(text: &str) -> Result<Self, ValueRefusal> {
        match text {
            "" => Ok(Self(None)),
            text => text.parse().map(|address| Self(Some(address))).map_err(|_| ValueRefusal::NotAllowed),
        }
    }
}

/// What is logged: a level, or directives as `tracing` reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// `None` unless the directives can be read, and every word that stands alone is a level: `tracing` takes
    /// any other for the name of a module, and would log that module and nothing else.
    pub fn new(directives: &str) -> Option<Self> {
        let is_level = |word: &str| word.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
        let known = tracing_subscriber::EnvFilter::try_new(directives).is_ok()
            && directives.split(',').all(|word| word.contains(['=', '[', '{', '}']) || is_level(word.trim()));
        (known && !directives.trim().is_empty()).then(|| Self(directives.to_owned()))
    }

    /// The directives.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

text_fields! {
    CapacitySpec: "a size like \"10GiB\" or pages like \"5000p\"", parsed, Self::to_string;
    Ttl: "a time like \"30s\", \"5m\" or \"1h\", at most 366 days", parsed, Self::to_string;
    RouterSpec: "a router like \"logged\", \"round-robin:4\", \"hash:4:tenant\", \"least-in-flight:4\", \"prefix:4\" or \
        \"precise-prefix:4:at=80GiB\"", parsed, Self::written;
    TopicName: "a topic name of 1 to 249 letters, digits, `.`, `_` or `-`",
        |name| Self::new(name).ok_or(ValueRefusal::NotAllowed), |name| name.0.clone();
    Listen: "an address and port like \"127.0.0.1:9464\", or \"\" for none", Self::of,
        |listen| listen.0.map(|address| address.to_string()).unwrap_or_default();
    LogFilter: "error, warn, info, debug, trace, or directives like \"info,kvset::kafka=debug\"",
        |directives| Self::new(directives).ok_or(ValueRefusal::NotAllowed), |filter| filter.0.clone();
}

impl Choice for Inclusion {
    const NAMES: &'static [(&'static str, Self)] =
        &[("exclusive", Inclusion::Exclusive), ("inclusive", Inclusion::Inclusive)];
}

impl Choice for LostHistory {
    const NAMES: &'static [(&'static str, Self)] =
        &[("fail", LostHistory::Refuse), ("rebuild", LostHistory::Rebuild)];
}

impl Choice for StartFrom {
    const NAMES: &'static [(&'static str, Self)] =
        &[("earliest", StartFrom::Earliest), ("latest", StartFrom::Latest)];
}

impl Choice for Encoding {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Encoding::Auto),
        ("avro", Encoding::Avro),
        ("confluent-avro", Encoding::ConfluentAvro),
        ("json", Encoding::Json),
    ];
}

impl Choice for EstimateDetail {
    const NAMES: &'static [(&'static str, Self)] =
        &[("summary", EstimateDetail::Summary), ("full", EstimateDetail::Full)];
}

impl Choice for ChainCheck {
    const NAMES: &'static [(&'static str, Self)] =
        &[("sampled", ChainCheck::Sampled), ("full", ChainCheck::Full)];
}

impl Choice for ChainPolicy {
    const NAMES: &'static [(&'static str, Self)] =
        &[("report", ChainPolicy::Report), ("reject", ChainPolicy::Reject), ("trust", ChainPolicy::Trust)];
}

/// Declares a setting with a few named values.
macro_rules! choices {
    ($(
        $(#[doc = $about:literal])+
        pub enum $Type:ident { $( $(#[doc = $doc:literal])+ $Variant:ident = $name:literal, )+ }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $Type { $( $(#[doc = $doc])+ $Variant, )+ }

        impl Choice for $Type {
            const NAMES: &'static [(&'static str, Self)] = &[$( ($name, Self::$Variant), )+];
        }
    )+};
}

choices! {
    /// The protocol of a consumer group.
    pub enum GroupProtocol {
        /// A member of the group shares the partitions out.
        Classic = "classic",
        /// The brokers do (KIP-848).
        Consumer = "consumer",
    }

    /// How partitions are shared among the members of the group.
    pub enum AssignmentStrategy {
        /// Members keep what they have while others move.
        CooperativeSticky = "cooperative-sticky",
        /// Contiguous ranges of partitions.
        Range = "range",
        /// Partitions dealt out in turn.
        RoundRobin = "roundrobin",
    }

    /// How estimates are encoded.
    pub enum OutputEncoding {
        /// JSON.
        Json = "json",
        /// Avro single-object encoding.
        Avro = "avro",
        /// Avro in Confluent's wire format.
        ConfluentAvro = "confluent-avro",
    }

    /// How estimates and consumed offsets are written.
    pub enum Delivery {
        /// In one transaction: exactly once for committed readers.
        Transactional = "transactional",
        /// Estimates acknowledged before offsets: at least once, repeats with equal key and bytes.
        Idempotent = "idempotent",
    }

    /// How log lines are written.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}
