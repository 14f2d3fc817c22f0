//! Arguments that ask how certain a replay is, and what other traffic would need.

use super::parse::{choice, traffic_factor};
use crate::replay::TrafficBy;
use clap::Args;
use kvset_core::families::overlay::TrafficGrowth;
use kvset_settings::Choice;
use std::path::PathBuf;

/// Whether something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

impl Choice for Switch {
    const NAMES: &'static [(&'static str, Self)] = &[("on", Self::On), ("off", Self::Off)];
}

/// How certain, and how much traffic.
#[derive(Debug, Clone, Args)]
pub struct GrowthArgs {
    /// How certain each required capacity is: the ends of a 90 % interval, by ten more replays of the log, each
    /// without a tenth of its conversations [default: on for engines with one curve and logs where it takes little].
    #[arg(long, value_name = "SWITCH", value_parser = choice::<Switch>())]
    pub certainty: Option<Switch>,
    /// What so many times the traffic would need, separated by commas, such as 0.5,2,4: more conversations like those
    /// of the log, at the same hours, with the same system prompts.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = traffic_factor)]
    pub traffic: Vec<f64>,
    /// What there is more of, and what is independent of the rest: conversation, tenant or field:NAME.
    #[arg(long, value_name = "WHAT", default_value = "conversation", hide_default_value = true)]
    pub traffic_by: TrafficBy,
    /// What chance begins from where copies of conversations are placed.
    #[arg(long, value_name = "N", requires = "traffic", default_value_t = 1)]
    pub traffic_seed: u64,
    /// Write the log with so many times the traffic here, as a trace: --traffic names one factor then.
    #[arg(long, value_name = "FILE", requires = "traffic")]
    pub traffic_log: Option<PathBuf>,
}

impl GrowthArgs {
    /// The factors.
    pub fn growths(&self) -> Vec<TrafficGrowth> {
        self.traffic.iter().map(|factor| TrafficGrowth { factor: *factor, seed: self.traffic_seed }).collect()
    }

    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        match self {
            Self { certainty: Some(Switch::On), .. } => Some("--certainty on"),
            Self { traffic, .. } if !traffic.is_empty() => Some("--traffic"),
            _ => None,
        }
    }
}
