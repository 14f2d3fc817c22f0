//! By which of its two forms an engine's measured hits are followed.

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
