//! What must hold between settings, beyond the range of each.

use super::engine::refused_key;
use super::prepare::ModelDirectory;
use super::problem::Problem;
use super::{
    AssignmentStrategy, GroupProtocol, OutputEncoding, PoolQuestions, Price, Settings, field::Field,
};
use kvset_core::engines::rules::EngineRules;
use kvset_core::estimate::config::{MAX_TIERS, PoolConfigError};
use kvset_core::questions::question::QuestionsError;
use kvset_core::sizing::tiers::is_tier_name;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::keyed::HashKey;
use kvset_formats::codec::Encoding;
use kvset_prepare::template::TemplatePart;
use std::collections::BTreeSet;

/// Most pools that may have settings of their own.
const MAX_POOL_SETTINGS: usize = 10_000;

/// Notes problems under keys.
struct Notes<'a>(&'a mut Vec<Problem>);

impl Notes<'_> {
    fn add(&mut self, key: impl Into<String>, value: Option<String>, reason: impl Into<String>) {
        self.0.push(Problem { key: key.into(), value, reason: reason.into(), origin: None });
    }
}

impl Settings {
    /// Notes what contradicts itself.
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let mut found = Vec::new();
        let mut notes = Notes(&mut found);
        self.check_kafka(&mut notes);
        self.check_schema_registry(&mut notes);
        self.check_topics(&mut notes);
        self.check_folder(&mut notes);
        self.check_prepare(&mut notes);
        self.check_lists(&mut notes);
        self.check_tiers(&mut notes);
        self.check_pools(&mut notes);
        self.check_engine(&mut notes);
        self.check_hold_back(&mut notes);
        self.check_lateness(&mut notes);
        self.check_shared_store(&mut notes);
        // A key that was refused on its own kept its default, so what is said about that is moot.
        let refused = |key: &str| {
            problems.iter().any(|problem| key.strip_prefix(&problem.key).is_some_and(begins_deeper))
        };
        found.retain(|note| !refused(&note.key));
        problems.append(&mut found);
    }

    fn check_kafka(&self, notes: &mut Notes<'_>) {
        for (name, instead) in self.kafka.properties.controlled() {
            notes.add(format!("kafka.properties.\"{name}\""), None, format!("not yours to set: {instead}"));
        }
        if self.kafka.group_protocol == GroupProtocol::Consumer {
            for (name, instead) in self.kafka.properties.classic_only() {
                let reason =
                    format!("not a member's to set with kafka.group_protocol = \"consumer\": {instead}");
                notes.add(format!("kafka.properties.\"{name}\""), None, reason);
            }
            if self.kafka.assignment != AssignmentStrategy::CooperativeSticky {
                let reason = "with kafka.group_protocol = \"consumer\" the brokers share partitions out: leave it out; \
                              kafka.properties.\"group.remote.assignor\" may name one of their ways";
                notes.add("kafka.assignment", self.kafka.assignment.toml(), reason);
            }
            if self.kafka.leave_on_stop && !self.kafka.instance.is_empty() {
                let reason = "with kafka.group_protocol = \"consumer\" brokers keep the partitions of an instance with a name until \
                              its session ends: leave kafka.instance empty, or use \"classic\"";
                notes.add("kafka.leave_on_stop", self.kafka.leave_on_stop.toml(), reason);
            }
        }
        if self.kafka.brokers.split(',').any(|broker| broker.trim().is_empty()) {
            let reason = "expected host:port, more of them separated by commas";
            notes.add("kafka.brokers", self.kafka.brokers.toml(), reason);
        }
        let has_no_port = |broker: &str| broker.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
        let is_scheme = self.kafka.brokers.contains("://");
        if !is_scheme && self.kafka.brokers.split(',').map(str::trim).any(has_no_port) {
            let reason = "expected ports from 1 to 65535, as in \"kafka-1:9092,kafka-2:9092\"; an IPv6 address stands in brackets";
            notes.add("kafka.brokers", self.kafka.brokers.toml(), reason);
        }
        if is_scheme {
            let reason = "expected host:port without a scheme: TLS and SASL are for \"security.protocol\" under \
                          [kafka.properties]";
            notes.add("kafka.brokers", self.kafka.brokers.toml(), reason);
        }
    }

    fn check_schema_registry(&self, notes: &mut Notes<'_>) {
        let registry = &self.schema_registry;
        if registry.url.as_str().is_empty() {
            let (input, output) = (self.input.encoding, self.output.encoding);
            let framed = [
                ("input.encoding", input.toml(), input == Encoding::ConfluentAvro),
                ("output.encoding", output.toml(), output == OutputEncoding::ConfluentAvro),
            ];
            for (key, value, _) in framed.into_iter().filter(|(_, _, framed)| *framed) {
                notes.add(key, value, "needs a registry: set schema_registry.url");
            }
        }
        if registry.username.is_empty() != registry.password.is_empty() {
            notes.add(
                "schema_registry.username",
                None,
                "goes with schema_registry.password: set both or none",
            );
        }
        if !registry.username.is_empty() && !registry.token.is_empty() {
            notes.add(
                "schema_registry.token",
                None,
                "is in place of username and password: set one way only",
            );
        }
    }

    fn check_topics(&self, notes: &mut Notes<'_>) {
        let topics = [
            ("input.topic", &self.input.topic),
            ("output.topic", &self.output.topic),
            ("output.dead_letter_topic", &self.output.dead_letter_topic),
            ("prepare.topic", &self.prepare.topic),
            ("prepare.dead_letter_topic", &self.prepare.dead_letter_topic),
        ];
        for (index, (key, topic)) in topics.iter().enumerate() {
            if let Some((other, _)) = topics[..index].iter().find(|(_, earlier)| earlier == topic) {
                notes.add(*key, topic.toml(), format!("expected another topic than {other}"));
            }
        }
    }

    /// Lines of files are JSON, and so are those of estimates.
    fn check_folder(&self, notes: &mut Notes<'_>) {
        let (input, output) = (&self.input, &self.output);
        if input.folder.is_none() {
            return;
        }
        if !matches!(input.encoding, Encoding::Auto | Encoding::Json) {
            let reason = "lines of input.folder are JSON: expected \"auto\" or \"json\"";
            notes.add("input.encoding", input.encoding.toml(), reason);
        }
        if output.encoding != OutputEncoding::Json {
            let reason = "estimates of input.folder go to a file of JSON lines: expected \"json\"";
            notes.add("output.encoding", output.encoding.toml(), reason);
        }
        if output.file.file_name().is_none() {
            notes.add("output.file", output.file.toml(), "expected the name of a file");
        }
    }

    fn check_prepare(&self, notes: &mut Notes<'_>) {
        let prepare = &self.prepare;
        if prepare.group == self.kafka.group {
            notes.add("prepare.group", prepare.group.toml(), "expected another group than kafka.group");
        }
        if prepare.output_topic.as_ref() == Some(&prepare.topic) {
            notes.add(
                "prepare.output_topic",
                prepare.topic.toml(),
                "expected another topic than prepare.topic",
            );
        }
        if prepare.pool.is_empty() {
            notes.add("prepare.pool", prepare.pool.toml(), "expected a name, or a template like \"{model}\"");
        }
        let event_time = prepare.event_time.parts();
        if !matches!(event_time, [] | [TemplatePart::Place { optional: false, .. }]) {
            let reason = "expected one field like \"{created}\", or nothing for the record's time stamp";
            notes.add("prepare.event_time", prepare.event_time.toml(), reason);
        }
        if let Some(Err(reason)) = prepare.hash_key.literal().map(str::parse::<HashKey>) {
            notes.add("prepare.hash_key", prepare.hash_key.toml(), reason.to_string());
        }
        let names: Vec<_> = prepare.models.iter().map(ModelDirectory::name).collect();
        if let Some(repeated) = (1..names.len()).find(|index| names[..*index].contains(&names[*index])) {
            let reason = "its model already has a directory further up";
            notes.add("prepare.models", prepare.models[repeated].toml(), reason);
        }
    }

    fn check_lists(&self, notes: &mut Notes<'_>) {
        let estimate = &self.estimate;
        no_repeats(notes, "estimate.target_ratios", &estimate.target_ratios);
        no_repeats(notes, "estimate.coverages", &estimate.coverages);
        no_repeats(notes, "estimate.windows", &estimate.windows);
        no_repeats(notes, "estimate.capacities", &estimate.capacities);
        no_repeats(notes, "estimate.routers", estimate.questions.routers.as_deref().unwrap_or_default());
        no_repeats(notes, "estimate.ttls", estimate.questions.ttls.as_deref().unwrap_or_default());
        if estimate.kv_bytes_per_token.is_none() {
            let cost = "estimate.kv_bytes_per_token";
            needs_cost(notes, "estimate.capacities", &estimate.capacities, cost);
            needs_cost(notes, "estimate.provisioned", estimate.questions.provisioned.as_slice(), cost);
            for (key, size) in self.pool_config("").cache.rules.sizes() {
                needs_cost(notes, &format!("estimate.{key}"), &[size], cost);
            }
        }
    }

    /// What the engine itself refuses; it speaks of the same keys.
    fn check_engine(&self, notes: &mut Notes<'_>) {
        let estimate = &self.estimate;
        match self.pool_config("").check() {
            Err(error @ PoolConfigError::OpenPanes { .. }) => {
                notes.add("estimate.windows", estimate.windows.toml(), error.to_string());
            }
            Err(error @ PoolConfigError::NoSuchWindow { .. }) => {
                notes.add(
                    "estimate.act_on",
                    estimate.act_on.as_ref().and_then(Field::toml),
                    error.to_string(),
                );
            }
            Err(error @ PoolConfigError::NeverEnough { .. }) => {
                notes.add("estimate.min_requests", estimate.min_requests.toml(), error.to_string());
            }
            Err(error @ PoolConfigError::PlannedPointwise(_)) => notes.add("tiers", None, error.to_string()),
            Err(error) => {
                add_pointwise(notes, "estimate", &error, estimate.engine_options.0.keys().collect())
            }
            Ok(()) => {}
        }
    }

    /// A watermark that stays behind by so much at least does not stay behind by less at most.
    fn check_lateness(&self, notes: &mut Notes<'_>) {
        let (least, most) = (self.estimate.allowed_lateness, self.estimate.max_lateness);
        if most.as_ms() > 0 && most.as_ms() < least.as_ms() {
            let reason = "is the most that a window waits for late records, and estimate.allowed_lateness the least: raise it, \
                          lower the other, or set \"0s\" to wait for no more than that";
            notes.add("estimate.max_lateness", most.toml(), reason);
        }
    }

    /// A store needs a place of its own: snapshots at the root of a bucket lie among whatever else is there. The
    /// address may hold a credential, so it is not shown.
    fn check_shared_store(&self, notes: &mut Notes<'_>) {
        let Some((_, place)) = self.state.shared.split_once("://") else { return };
        let place = place.split(['?', '#']).next().unwrap_or_default();
        let path = place.split_once('/').map_or("", |(_, path)| path);
        if path.trim_matches('/').is_empty() {
            let reason = "names no place in the store: write a prefix after the bucket, as in \"s3://bucket/kvset\", or a \
                          directory, as in \"file:///mnt/shared\"";
            notes.add("state.shared", None, reason);
        }
    }

    /// Records are held back where requests that overlap are modelled, and nowhere else.
    fn check_hold_back(&self, notes: &mut Notes<'_>) {
        let engines: Vec<_> =
            EngineRules::options_named("overlap").map(|option| option.belongs_to(|_| true)).collect();
        let reason = &format!(
            "is for requests that overlap: leave it out, or choose the engine {}, and overlap \"on\"",
            engines.concat()
        );
        let estimate = &self.estimate;
        let of_pools = self.pools.iter().map(|pool| &pool.name[..]);
        let is_modelled =
            [""].into_iter().chain(of_pools).any(|name| self.pool_config(name).cache.models_overlap());
        if !is_modelled && estimate.hold_back.is_some() {
            notes.add("estimate.hold_back", estimate.hold_back.toml(), reason);
        }
        if !is_modelled && estimate.hold_back_bytes.is_some() {
            notes.add("estimate.hold_back_bytes", estimate.hold_back_bytes.toml(), reason);
        }
        for (index, pool) in self.pools.iter().enumerate() {
            if pool.hold_back.is_some() && !self.pool_config(&pool.name).cache.models_overlap() {
                notes.add(format!("pools[{index}].hold_back"), pool.hold_back.toml(), reason);
            }
        }
    }

    fn check_tiers(&self, notes: &mut Notes<'_>) {
        if self.tiers.len() > MAX_TIERS {
            notes.add("tiers", None, format!("expected at most {MAX_TIERS} tiers"));
        }
        for (index, tier) in self.tiers.iter().enumerate() {
            let key = |name| format!("tiers[{index}].{name}");
            if !is_tier_name(&tier.name) {
                let reason = "expected a name of 1 to 40 letters, digits, `.`, `_` or `-`";
                notes.add(key("name"), tier.name.toml(), reason);
            } else if self.tiers[..index].iter().any(|other| other.name == tier.name) {
                notes.add(key("name"), tier.name.toml(), "another tier has this name; choose another");
            }
            match &tier.unit {
                None => {
                    notes.add(key("unit"), None, "expected a size like \"80GiB\" or pages like \"5000p\"")
                }
                Some(unit) if self.estimate.kv_bytes_per_token.is_none() => {
                    needs_cost(
                        notes,
                        &key("unit"),
                        std::slice::from_ref(unit),
                        "estimate.kv_bytes_per_token",
                    );
                }
                Some(_) => {}
            }
        }
    }

    /// A pool's tiers are among those declared.
    fn check_names_of_tiers(&self, notes: &mut Notes<'_>, key: &str, names: &[String]) {
        no_repeats(notes, key, names);
        let declared: Vec<&str> = self.tiers.iter().map(|tier| tier.name.as_str()).collect();
        for name in names.iter().filter(|name| !declared.contains(&name.as_str())) {
            let known = match declared.is_empty() {
                true => "no [[tiers]] are declared".to_owned(),
                false => format!("declared are {}", declared.join(", ")),
            };
            notes.add(key, name.toml(), format!("no tier has this name; {known}"));
        }
    }

    /// Prices say what computing at a rate costs.
    fn check_prices(&self, notes: &mut Notes<'_>) {
        let mut check = |section: &str, prices: [Option<Price>; 2], has_rate: bool| {
            for (name, price) in ["gpu_price", "gib_price"].into_iter().zip(prices) {
                if let Some(price) = price.filter(|_| !has_rate) {
                    let reason = "what a cache is worth goes by how fast prompts are computed: set `prefill_rate`, or leave it out";
                    notes.add(format!("{section}.{name}"), price.toml(), reason);
                }
            }
        };
        let prices = |set: &PoolQuestions| [set.gpu_price, set.gib_price];
        let rate = |set: &PoolQuestions| set.prefill_rate.as_ref().map(|rate| rate.rate().is_some());
        let general = &self.estimate.questions;
        let has_rate = rate(general).unwrap_or_default();
        let of_pools = self.pools.iter().any(|pool| rate(&pool.questions) == Some(true));
        check("estimate", prices(general), has_rate || of_pools);
        for (index, pool) in self.pools.iter().enumerate() {
            let has_rate = rate(&pool.questions).unwrap_or(has_rate);
            check(&format!("pools[{index}]"), prices(&pool.questions), has_rate);
        }
    }

    fn check_pools(&self, notes: &mut Notes<'_>) {
        if self.pools.len() > MAX_POOL_SETTINGS {
            notes.add("pools", None, format!("expected at most {MAX_POOL_SETTINGS} pools with settings"));
        }
        self.check_prices(notes);
        let general = self.pool_config("").check().err();
        let mut names = BTreeSet::new();
        for (index, pool) in self.pools.iter().enumerate() {
            let key = format!("pools[{index}].name");
            if pool.name.is_empty() {
                notes.add(key, None, "expected the pool's name, of 1 to 256 characters");
            } else if !names.insert(&pool.name) {
                notes.add(key, pool.name.toml(), "this pool already has settings further up; merge them");
            }
            let names = pool.tiers.as_deref().unwrap_or_default();
            self.check_names_of_tiers(notes, &format!("pools[{index}].tiers"), names);
            let refused = self.pool_config(&pool.name).check().err();
            if let Some(error) = refused.filter(|error| Some(error) != general.as_ref()) {
                add_pointwise(
                    notes,
                    &format!("pools[{index}]"),
                    &error,
                    pool.engine_options.0.keys().collect(),
                );
            }
            let capacities = pool.capacities.as_deref().unwrap_or_default();
            let key = |name: &str| format!("pools[{index}].{name}");
            no_repeats(notes, &key("capacities"), capacities);
            no_repeats(notes, &key("routers"), pool.questions.routers.as_deref().unwrap_or_default());
            no_repeats(notes, &key("ttls"), pool.questions.ttls.as_deref().unwrap_or_default());
            if pool.kv_bytes_per_token.or(self.estimate.kv_bytes_per_token).is_none() {
                let cost = key("kv_bytes_per_token");
                needs_cost(notes, &key("capacities"), capacities, &cost);
                needs_cost(notes, &key("provisioned"), pool.questions.provisioned.as_slice(), &cost);
            }
        }
    }
}

/// Whether this is a port's number.
fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Whether the rest of a key, after a prefix, is nothing or a key below it.
fn begins_deeper(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

/// What an engine that is modelled at each capacity on its own cannot have.
fn add_pointwise(notes: &mut Notes<'_>, section: &str, error: &PoolConfigError, set: Vec<&'static str>) {
    let field = match error {
        PoolConfigError::TooManyPoints { .. } => "capacities",
        PoolConfigError::SampledPointwise { .. } => "sample_rate",
        // The page is at fault where the option is not this section's.
        PoolConfigError::Rules(error) => match refused_key(error) {
            key if set.contains(&key) => key,
            _ => "page_size",
        },
        PoolConfigError::PlannedPointwise(_) if set.contains(&"attention") => "attention",
        PoolConfigError::Questions(error) => match error {
            QuestionsError::NoStack { asked, .. } => asked,
            QuestionsError::TooManyCapacities { .. } => "capacities",
            QuestionsError::TooManyRequests { .. } => "windows",
            QuestionsError::TooFewTiers(_) => "traffic",
            QuestionsError::Sampled { asked } => asked,
            QuestionsError::PrefillRate(_) => "prefill_rate",
            QuestionsError::PriceWithoutCost => "gib_price",
            QuestionsError::Router(_) | QuestionsError::NoSession { .. } => "routers",
            // Ranges, repeated entries and sizes in bytes were checked before.
            QuestionsError::TooMany { .. }
            | QuestionsError::Duplicate { .. }
            | QuestionsError::Tenants(_)
            | QuestionsError::Price { .. }
            | QuestionsError::BytesWithoutCost(_) => return,
        },
        // Every other fault lies outside the ranges that were checked before.
        _ => return,
    };
    notes.add(format!("{section}.{field}"), None, error.to_string());
}

/// A list whose entries must differ.
fn no_repeats<T: Field + PartialEq>(notes: &mut Notes<'_>, key: &str, entries: &[T]) {
    let repeated = entries.iter().enumerate().find(|(index, entry)| entries[..*index].contains(entry));
    if let Some((_, entry)) = repeated {
        notes.add(key, entry.toml(), "is there twice; leave one out");
    }
}

/// Capacities in bytes are no pages without a cost per token.
fn needs_cost(notes: &mut Notes<'_>, key: &str, capacities: &[CapacitySpec], cost_key: &str) {
    let in_bytes = capacities.iter().find(|spec| spec.is_in_bytes());
    if let Some(spec) = in_bytes {
        let reason = format!("a size in bytes needs {cost_key}; set it, or give pages like \"5000p\"");
        notes.add(key, spec.toml(), reason);
    }
}
