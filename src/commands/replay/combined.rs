//! What cannot be had together in a replay, a row each: when, why, and what to do.

use super::model::FromModel;
use crate::cli::Failure;
use crate::cli::args::ReplayArgs;
use crate::replay::{BelowOption, ReplayOptions, TierBelow};
use kvset_core::engines::profile::Profile;
use kvset_core::engines::rules::EnginePart;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::clash::Clash;
use kvset_core::units::ratio::Ratio;

/// What a replay was asked for.
pub(super) struct Asked<'a> {
    pub args: &'a ReplayArgs,
    pub model: &'a FromModel,
    pub options: &'a ReplayOptions,
}

/// A row.
struct Conflict {
    when: fn(&Asked<'_>) -> bool,
    /// Why; `{engine}` stands for the engine.
    why: &'static str,
    /// What to do.
    cure: &'static str,
}

/// Most tiers below an engine.
const MOST_BELOW: usize = 4;

/// Most capacities with tiers below them.
const MOST_CHAINS: usize = 64;

/// What any replay refuses, the first reason first.
const CONFLICTS: &[Conflict] = &[
    Conflict {
        when: |asked| asked.args.growth.traffic_log.is_some() && asked.args.growth.traffic.len() != 1,
        why: "--traffic-log writes one log",
        cure: "name one factor with --traffic",
    },
    Conflict {
        when: |asked| asked.args.growth.given().is_some() && asked.options.has_stream(),
        why: "--certainty and --traffic read the trace again, which standard input cannot",
        cure: "give a file",
    },
    Conflict {
        when: |asked| asked.args.growth.given() == Some("--certainty on") && asked.is_pointwise(),
        why: "--certainty is of required capacities, which engines modelled a capacity at a time have none of",
        cure: "leave it out",
    },
    Conflict {
        when: |asked| asked.lacks_cost(asked.args.provisioned.as_slice()),
        why: "--provisioned is a size in bytes",
        cure: Clash::SIZE_IN_BYTES.flag,
    },
    Conflict {
        when: |asked| asked.args.search && asked.args.engines.len() == 1 && !asked.is_pointwise(),
        why: "--search is for engines modelled a capacity at a time",
        cure: "{engine} reports every requirement without it",
    },
    Conflict {
        when: |asked| asked.args.search && asked.args.engines.len() > 1,
        why: "--search is for one engine",
        cure: "name one with --engine",
    },
    Conflict {
        when: |asked| asked.args.restarts && asked.is_sampled(),
        why: "--restarts needs every page",
        cure: Clash::SAMPLE.flag,
    },
    Conflict {
        when: |asked| asked.args.prefill_rate.is_some() && asked.is_sampled(),
        why: "--prefill-rate counts what each request computes, which needs every page",
        cure: Clash::SAMPLE.flag,
    },
    Conflict {
        when: |asked| asked.args.restarts && asked.has_below(),
        why: "--restarts counts what the engine's own cache loses, and tiers of --below may outlive that or not",
        cure: "leave one of them out",
    },
    Conflict {
        when: |asked| asked.has_below() && asked.args.engines.len() > 1,
        why: "--below is for one engine",
        cure: "name one with --engine",
    },
    Conflict {
        when: |asked| asked.args.below.iter().skip(1).any(|below| below.tier == TierBelow::Hicache),
        why: "hicache is one tree with SGLang's device",
        cure: "name it once, as the first --below",
    },
    Conflict {
        when: |asked| asked.args.hicache().is_some() && asked.args.engines != [Profile::Sglang],
        why: "hicache is a part of SGLang",
        cure: "choose --engine sglang, or another tier",
    },
    Conflict {
        when: |asked| asked.args.offloads() && asked.args.engines != [Profile::Vllm],
        why: "vllm-offload is vLLM's own tier",
        cure: "choose --engine vllm, or another tier",
    },
    Conflict {
        when: |asked| asked.args.offloads() && asked.args.search && asked.has_block_pool(),
        why: "--search looks for one capacity, and vllm-offload below several groups of layers is a part of it",
        cure: "leave one out",
    },
    Conflict {
        when: |asked| asked.args.offloads() && asked.args.below.len() > 1,
        why: "vllm-offload is vLLM's one tier, and what may lie behind it keeps rules that are not modelled",
        cure: "name it alone",
    },
    Conflict {
        when: |asked| asked.args.below.len() > MOST_BELOW,
        why: "--below names more than 4 tiers",
        cure: "leave some out",
    },
    Conflict {
        when: |asked| asked.has_below() && asked.args.capacities.len() > MOST_CHAINS,
        why: "--below has a chain of tiers for each of the --capacities",
        cure: "give at most 64",
    },
    Conflict {
        when: |asked| asked.has_below() && asked.is_sampled(),
        why: "--below needs every page",
        cure: Clash::SAMPLE.flag,
    },
    Conflict {
        when: |asked| asked.prices_below() && asked.args.prefill_rate.is_none(),
        why: "bandwidth and price of --below say what a tier is worth",
        cure: "give --prefill-rate, or leave them out",
    },
    Conflict {
        when: |asked| asked.prices_below() && !asked.has_cost(),
        why: "bandwidth and price of --below are by bytes",
        cure: "give --kv-bytes-per-token or --model-config",
    },
    Conflict {
        when: |asked| asked.lacks_cost(asked.args.below.iter().map(|below| &below.capacity)),
        why: "--below has a size in bytes",
        cure: Clash::SIZE_IN_BYTES.flag,
    },
];

/// What one of several engines cannot have alone.
const OF_ONE_ENGINE: &[Conflict] = &[
    Conflict {
        when: |asked| asked.args.growth.given().is_some(),
        why: "--certainty and --traffic are of one engine",
        cure: "name one with --engine",
    },
    Conflict {
        when: |asked| {
            let engines = &asked.args.engines;
            engines.iter().enumerate().any(|(index, engine)| engines[..index].contains(engine))
        },
        why: "--engine names an engine twice",
        cure: "leave one out",
    },
    Conflict {
        when: |asked| asked.args.per_request.is_some(),
        why: "--per-request writes the rows of one engine",
        cure: "name one with --engine",
    },
    Conflict {
        when: |asked| asked.args.worth_plot.is_some(),
        why: "--worth-plot draws one engine",
        cure: "name one with --engine",
    },
];

impl ReplayArgs {
    /// Whether vLLM's own tier is below.
    pub(super) fn offloads(&self) -> bool {
        self.below.iter().any(|below| below.tier.is_vllm_offload())
    }
}

impl Asked<'_> {
    /// Refuses what cannot be had together.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.refuse(CONFLICTS)
    }

    /// Refuses what only one engine can have.
    pub(super) fn check_several_engines(&self) -> Result<(), Failure> {
        self.refuse(OF_ONE_ENGINE)
    }

    fn refuse(&self, conflicts: &[Conflict]) -> Result<(), Failure> {
        let Some(conflict) = conflicts.iter().find(|conflict| (conflict.when)(self)) else { return Ok(()) };
        let engine = self.args.engines.first().map_or("", |engine| engine.name());
        let reason = format!("{}: {}", conflict.why, conflict.cure).replace("{engine}", engine);
        Err(Failure::usage(reason))
    }

    fn is_pointwise(&self) -> bool {
        self.options.pool.cache.is_pointwise()
    }

    fn is_sampled(&self) -> bool {
        self.args.sample_rate != Ratio::ONE
    }

    fn has_cost(&self) -> bool {
        self.options.pool.cache.kv_bytes_per_token.is_some()
    }

    /// Whether one of these is a size in bytes, and nobody says how many pages that is.
    fn lacks_cost<'a>(&self, sizes: impl IntoIterator<Item = &'a CapacitySpec>) -> bool {
        !self.has_cost() && sizes.into_iter().any(CapacitySpec::is_in_bytes)
    }

    fn has_below(&self) -> bool {
        !self.args.below.is_empty()
    }

    /// Whether a tier below has a price, or a bandwidth.
    fn prices_below(&self) -> bool {
        let has_costs = |below: &BelowOption| below.bandwidth.is_some() || below.gib_hour.is_some();
        self.args.below.iter().any(has_costs)
    }

    /// Whether vLLM's pool of blocks is modelled at each capacity.
    fn has_block_pool(&self) -> bool {
        EnginePart::BLOCK_POOL.holds(&self.args.own_rules(self.model), Profile::Vllm)
    }
}
