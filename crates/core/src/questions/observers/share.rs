//! What one request adds to windows beside its own counts, and what windows make of it.

use super::{LivedRules, LivedShape, LivedShare, LivedTally};
use crate::pool::config::PoolConfig;
use crate::questions::measured::{Counts, MeasuredShare, MeasuredTally, Modelled, PointShare, PointTally};
use crate::questions::routing::{RoutingShare, RoutingTally};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BesideShare {
    /// What it says of the cache in use; nothing where nobody asks.
    pub measured: Modelled<MeasuredShare, PointShare>,
    /// What it found behind each router; `None` where it could not be routed.
    pub routed: Vec<Option<RoutingShare>>,
    /// What it says of time, tenants and tiers; a snapshot keeps it apart.
    #[serde(skip)]
    pub lived: Option<Box<LivedShare>>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BesideShape {
    /// At how many capacities, where each is modelled on its own.
    measured: Modelled<(), usize>,
    routers: usize,
    targets: usize,
    lived: LivedShape,
}

/// The counts over a set of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BesideTally {
    /// Of those that say what they found, where that is asked.
    pub measured: Modelled<MeasuredTally, PointTally>,
    /// One a router asked about.
    pub routers: Vec<RoutingTally>,
    /// Time, tenants and tiers, where these are asked about; a snapshot keeps it apart.
    #[serde(skip)]
    pub lived: Option<Box<LivedTally>>,
}

impl BesideShape {
    /// What is counted at capacities that can be told, in followed pages.
    pub fn of(config: &PoolConfig, capacities: &[u64]) -> Self {
        let asked = &config.asked;
        if asked.is_nothing() {
            return Self::default();
        }
        Self {
            measured: match asked.compares_measured() {
                false => Modelled::Nothing,
                true if config.is_pointwise() => Modelled::Points(capacities.len()),
                true => Modelled::Curve(()),
            },
            routers: asked.routers.len(),
            targets: config.target_ratios.len(),
            lived: LivedRules::of(config, capacities).shape(),
        }
    }

    /// The same in a window that never ends.
    pub fn without_end(self) -> Self {
        Self { lived: self.lived.without_end(), ..self }
    }

    /// The same in a window that requests leave again, which counts [`BesideShape::when_shown`] later.
    pub fn of_latest(self) -> Self {
        let measured = if self.counts_curve() { Modelled::Nothing } else { self.measured };
        Self { lived: LivedShape::default(), measured, ..self }
    }

    /// What such a window counts when it is shown: what could not be taken out again, or costs more to take in and
    /// out than to count now and then.
    pub fn when_shown(self) -> Self {
        let measured = if self.counts_curve() { self.measured } else { Modelled::Nothing };
        Self { measured, routers: 0, ..self }
    }

    fn counts_curve(self) -> bool {
        matches!(self.measured, Modelled::Curve(()))
    }

    /// What is counted of time, tenants and tiers.
    pub fn lived(self) -> LivedShape {
        self.lived
    }

    /// Whether anything is counted.
    pub fn is_something(self) -> bool {
        !self.measured.is_nothing() || self.routers > 0 || self.lived.is_something()
    }

    /// Counts that hold nothing yet; `None` where nothing is counted.
    pub fn tally(self) -> Option<Box<BesideTally>> {
        let Self { measured, routers, targets, lived } = self;
        let tally = || BesideTally {
            measured: match measured {
                Modelled::Nothing => Modelled::Nothing,
                Modelled::Curve(()) => Modelled::Curve(MeasuredTally::default()),
                Modelled::Points(capacities) => Modelled::Points(PointTally::new(capacities)),
            },
            routers: vec![RoutingTally::new(targets); routers],
            lived: lived.tally().map(Box::new),
        };
        self.is_something().then(|| Box::new(tally()))
    }
}

impl BesideShare {
    /// Whether this, read back from a snapshot, is a share of what is counted.
    pub fn is_sound(&self, shape: BesideShape) -> bool {
        let measured = match (&self.measured, shape.measured) {
            (Modelled::Nothing, _) => true,
            (Modelled::Curve(share), Modelled::Curve(())) => share.is_sound(),
            (Modelled::Points(share), Modelled::Points(capacities)) => share.is_sound(capacities),
            _ => false,
        };
        measured
            && self.routed.len() == shape.routers
            && self.routed.iter().flatten().all(|routed| routed.is_sound(shape.targets))
            && self.lived.is_some() == shape.lived.is_something()
            && self.lived.iter().all(|lived| lived.is_sound(shape.lived))
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let routed = self.routed.iter().flatten().map(RoutingShare::memory_bytes).sum::<usize>();
        let lived = self.lived.as_ref().map_or(0, |lived| lived.memory_bytes());
        let measured = match &self.measured {
            Modelled::Nothing => 0,
            Modelled::Curve(share) => share.memory_bytes(),
            Modelled::Points(share) => share.memory_bytes(),
        };
        size_of::<Self>() + measured + routed + lived
    }
}

impl BesideTally {
    /// What the requests that say what they found add up to, where that is asked.
    pub fn measured_counts(&self) -> Option<&Counts> {
        match &self.measured {
            Modelled::Nothing => None,
            Modelled::Curve(tally) => Some(tally.counts()),
            Modelled::Points(tally) => Some(tally.counts()),
        }
    }

    /// Takes a request in.
    pub fn add(&mut self, share: &BesideShare) {
        match (&mut self.measured, &share.measured) {
            (Modelled::Curve(tally), Modelled::Curve(share)) => tally.add(share),
            (Modelled::Points(tally), Modelled::Points(share)) => tally.add(share),
            _ => {}
        }
        let routed = self.routers.iter_mut().zip(&share.routed);
        routed.for_each(|(tally, routed)| routed.iter().for_each(|routed| tally.add(routed)));
        if let Some((tally, lived)) = self.lived.as_mut().zip(share.lived.as_ref()) {
            tally.add(lived);
        }
    }

    /// Takes a request out that was taken in before, of what a window counts that requests leave again
    /// ([`BesideShape::of_latest`]).
    pub fn remove(&mut self, share: &BesideShare) {
        if let (Modelled::Points(tally), Modelled::Points(share)) = (&mut self.measured, &share.measured) {
            tally.remove(share);
        }
        let routed = self.routers.iter_mut().zip(&share.routed);
        routed.for_each(|(tally, routed)| routed.iter().for_each(|routed| tally.remove(routed)));
    }

    /// Takes in what is counted when a window is shown ([`BesideShape::when_shown`]).
    pub fn take_shown(&mut self, counts: Self) {
        let Self { measured, lived, .. } = counts;
        if !measured.is_nothing() {
            self.measured = measured;
        }
        self.lived = lived;
    }

    /// The union of several of one shape.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let routers = parts.clone().map(|part| part.routers.len()).max().unwrap_or(0);
        let curves = parts.clone().filter_map(|part| part.measured.as_ref().curve());
        let points = parts.clone().filter_map(|part| part.measured.as_ref().points());
        let measured = match parts.clone().map(|part| &part.measured).find(|part| !part.is_nothing()) {
            Some(Modelled::Curve(_)) => Modelled::Curve(MeasuredTally::merged(curves)),
            Some(Modelled::Points(_)) => Modelled::Points(PointTally::merged(points)),
            Some(Modelled::Nothing) | None => Modelled::Nothing,
        };
        let router =
            |index| RoutingTally::merged(parts.clone().filter_map(move |part| part.routers.get(index)));
        let lived = LivedTally::merged(parts.clone().filter_map(|part| part.lived.as_deref()));
        Self { measured, routers: (0..routers).map(router).collect(), lived: lived.map(Box::new) }
    }

    /// The same with nothing pending, to be read often; copies only where something is.
    pub fn consolidated(&self) -> Cow<'_, Self> {
        if self.is_consolidated() {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.consolidate();
        Cow::Owned(copy)
    }

    /// Measured requests are read as they are.
    fn is_consolidated(&self) -> bool {
        self.routers.iter().all(RoutingTally::is_consolidated)
            && self.lived.iter().all(|lived| lived.is_consolidated())
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.routers.iter_mut().for_each(RoutingTally::consolidate);
        self.lived.iter_mut().for_each(|lived| lived.consolidate());
    }

    /// Whether this, read back from a snapshot, counts what the shape says and can be added to.
    pub fn is_sound(&self, shape: BesideShape) -> bool {
        let measured = match (&self.measured, shape.measured) {
            (Modelled::Nothing, Modelled::Nothing) => true,
            (Modelled::Curve(tally), Modelled::Curve(())) => tally.is_sound(),
            (Modelled::Points(tally), Modelled::Points(capacities)) => tally.is_sound(capacities),
            _ => false,
        };
        measured
            && self.routers.len() == shape.routers
            && self.routers.iter().all(|tally| tally.is_sound(shape.targets))
            && self.lived.is_some() == shape.lived.is_something()
            && self.lived.iter().all(|lived| lived.is_sound(shape.lived))
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let routers = self.routers.iter().map(RoutingTally::memory_bytes).sum::<usize>();
        let lived = self.lived.as_ref().map_or(0, |lived| lived.memory_bytes());
        let measured = match &self.measured {
            Modelled::Nothing => 0,
            Modelled::Curve(tally) => tally.memory_bytes(),
            Modelled::Points(tally) => tally.memory_bytes(),
        };
        size_of::<Self>() + measured + routers + lived
    }
}
