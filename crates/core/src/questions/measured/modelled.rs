//! By which of its two forms an engine's measured hits are followed.

use crate::questions::counters::{Counter, Share};
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Something of the measured hits: of an engine with one curve, or of one that is modelled a capacity at a time.
///
/// Snapshots kept an option of the first before there was the second, which the numbers of these variants still read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Modelled<Curve, Points> {
    /// It is not asked about, or says nothing.
    #[default]
    Nothing,
    /// One stack tells of every capacity.
    Curve(Curve),
    /// One cache a capacity.
    Points(Points),
}

heap_bytes!(
    enum Modelled<Curve, Points> {
        Nothing,
        Curve(curve),
        Points(points),
    }
);

impl<Curve, Points> Modelled<Curve, Points> {
    /// Whether there is nothing.
    pub const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The same, borrowed.
    pub const fn as_ref(&self) -> Modelled<&Curve, &Points> {
        match self {
            Self::Nothing => Modelled::Nothing,
            Self::Curve(curve) => Modelled::Curve(curve),
            Self::Points(points) => Modelled::Points(points),
        }
    }

    /// What is of a curve.
    pub fn curve(self) -> Option<Curve> {
        match self {
            Self::Curve(curve) => Some(curve),
            Self::Nothing | Self::Points(_) => None,
        }
    }

    /// What is of single capacities.
    pub fn points(self) -> Option<Points> {
        match self {
            Self::Points(points) => Some(points),
            Self::Nothing | Self::Curve(_) => None,
        }
    }
}

impl<A: Share, B: Share> Share for Modelled<A, B> {
    type Shape = Modelled<A::Shape, B::Shape>;

    fn is_sound(&self, shape: Self::Shape) -> bool {
        match (self, shape) {
            (Self::Nothing, _) => true,
            (Self::Curve(share), Modelled::Curve(shape)) => share.is_sound(shape),
            (Self::Points(share), Modelled::Points(shape)) => share.is_sound(shape),
            _ => false,
        }
    }
}

impl<A: Counter, B: Counter> Counter for Modelled<A, B> {
    type Share = Modelled<A::Share, B::Share>;

    fn new(shape: <Self::Share as Share>::Shape) -> Self {
        match shape {
            Modelled::Nothing => Self::Nothing,
            Modelled::Curve(shape) => Self::Curve(A::new(shape)),
            Modelled::Points(shape) => Self::Points(B::new(shape)),
        }
    }

    fn add(&mut self, share: &Self::Share) {
        match (self, share) {
            (Self::Curve(counter), Modelled::Curve(share)) => counter.add(share),
            (Self::Points(counter), Modelled::Points(share)) => counter.add(share),
            _ => {}
        }
    }

    fn takes_out(shape: <Self::Share as Share>::Shape) -> bool {
        match shape {
            Modelled::Nothing => true,
            Modelled::Curve(shape) => A::takes_out(shape),
            Modelled::Points(shape) => B::takes_out(shape),
        }
    }

    fn remove(&mut self, share: &Self::Share) {
        match (self, share) {
            (Self::Curve(counter), Modelled::Curve(share)) => counter.remove(share),
            (Self::Points(counter), Modelled::Points(share)) => counter.remove(share),
            _ => {}
        }
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self>
    where
        Self: 'a,
    {
        parts.clone().next()?;
        let curves = A::merged(parts.clone().filter_map(|part| part.as_ref().curve()));
        let points = B::merged(parts.filter_map(|part| part.as_ref().points()));
        Some(curves.map(Self::Curve).or(points.map(Self::Points)).unwrap_or_default())
    }

    fn consolidate(&mut self) {
        match self {
            Self::Nothing => {}
            Self::Curve(counter) => counter.consolidate(),
            Self::Points(counter) => counter.consolidate(),
        }
    }

    fn is_consolidated(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Curve(counter) => counter.is_consolidated(),
            Self::Points(counter) => counter.is_consolidated(),
        }
    }

    fn is_sound(&self, shape: <Self::Share as Share>::Shape) -> bool {
        match (self, shape) {
            (Self::Nothing, Modelled::Nothing) => true,
            (Self::Curve(counter), Modelled::Curve(shape)) => counter.is_sound(shape),
            (Self::Points(counter), Modelled::Points(shape)) => counter.is_sound(shape),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_an_option_reads_back() {
        let read = |bytes: &[u8]| postcard::from_bytes::<Modelled<u32, u32>>(bytes).expect("reads back");
        let written = |value: Option<u32>| postcard::to_allocvec(&value).expect("serialises");
        assert_eq!(read(&written(None)), Modelled::Nothing);
        assert_eq!(read(&written(Some(300))), Modelled::Curve(300));
        assert_eq!(read(&[2, 7]), Modelled::Points(7));
    }
}
