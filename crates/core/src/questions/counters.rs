//! What windows count of a question, and how the counts of several questions are those of one.
//!
//! A question implements [`Counter`] for its counts and [`Share`] for what one request adds. [`counted!`] puts several
//! together, and derives from each one's what windows do with all of them.

use crate::units::heap::HeapBytes;

/// What one request adds to the counts of a question.
pub trait Share: HeapBytes {
    /// How many of everything are counted.
    type Shape: Copy;

    /// Whether this, read back from a snapshot, is a share of what is counted.
    fn is_sound(&self, shape: Self::Shape) -> bool;
}

/// The counts of a question over a set of requests.
pub trait Counter: Sized + HeapBytes {
    /// What one request adds.
    type Share: Share;

    /// Counts that hold nothing yet.
    fn new(shape: <Self::Share as Share>::Shape) -> Self;

    /// Takes a request in.
    fn add(&mut self, share: &Self::Share);

    /// Whether windows that requests leave again take these out; else they count those that are left whenever the
    /// window is shown, because what was counted cannot be taken out, or costs more than to count now and then.
    fn takes_out(_shape: <Self::Share as Share>::Shape) -> bool {
        false
    }

    /// Takes a request out that was taken in before, where windows that requests leave count it.
    fn remove(&mut self, _share: &Self::Share) {}

    /// The union of several of one shape; `None` of none.
    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self>
    where
        Self: 'a;

    /// Merges what is pending, so that reading copies nothing.
    fn consolidate(&mut self) {}

    /// Whether nothing is pending.
    fn is_consolidated(&self) -> bool {
        true
    }

    /// Whether this, read back from a snapshot, counts what the shape says and can be added to.
    fn is_sound(&self, shape: <Self::Share as Share>::Shape) -> bool;
}

impl<S: Share> Share for Option<S> {
    type Shape = Option<S::Shape>;

    fn is_sound(&self, shape: Self::Shape) -> bool {
        match (self, shape) {
            (Some(share), Some(shape)) => share.is_sound(shape),
            (share, shape) => share.is_none() && shape.is_none(),
        }
    }
}

impl<C: Counter> Counter for Option<C> {
    type Share = Option<C::Share>;

    fn new(shape: <Self::Share as Share>::Shape) -> Self {
        shape.map(C::new)
    }

    fn add(&mut self, share: &Self::Share) {
        if let Some((counter, share)) = self.as_mut().zip(share.as_ref()) {
            counter.add(share);
        }
    }

    fn remove(&mut self, share: &Self::Share) {
        if let Some((counter, share)) = self.as_mut().zip(share.as_ref()) {
            counter.remove(share);
        }
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self>
    where
        Self: 'a,
    {
        parts.clone().next()?;
        Some(C::merged(parts.filter_map(Option::as_ref)))
    }

    fn consolidate(&mut self) {
        self.iter_mut().for_each(C::consolidate);
    }

    fn is_consolidated(&self) -> bool {
        self.iter().all(C::is_consolidated)
    }

    fn is_sound(&self, shape: <Self::Share as Share>::Shape) -> bool {
        match (self, shape) {
            (Some(counter), Some(shape)) => counter.is_sound(shape),
            (counter, shape) => counter.is_none() && shape.is_none(),
        }
    }
}

impl<S: Share> Share for Box<S> {
    type Shape = S::Shape;

    fn is_sound(&self, shape: Self::Shape) -> bool {
        S::is_sound(self, shape)
    }
}

impl<C: Counter> Counter for Box<C> {
    type Share = Box<C::Share>;

    fn new(shape: <Self::Share as Share>::Shape) -> Self {
        Self::new(C::new(shape))
    }

    fn add(&mut self, share: &Self::Share) {
        C::add(self, share);
    }

    fn remove(&mut self, share: &Self::Share) {
        C::remove(self, share);
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self>
    where
        Self: 'a,
    {
        C::merged(parts.map(AsRef::as_ref)).map(Self::new)
    }

    fn consolidate(&mut self) {
        C::consolidate(self);
    }

    fn is_consolidated(&self) -> bool {
        C::is_consolidated(self)
    }

    fn is_sound(&self, shape: <Self::Share as Share>::Shape) -> bool {
        C::is_sound(self, shape)
    }
}

/// Several of one kind: how many, and the shape of each.
impl<S: Share> Share for Vec<Option<S>> {
    type Shape = (usize, S::Shape);

    fn is_sound(&self, (count, shape): Self::Shape) -> bool {
        self.len() == count && self.iter().flatten().all(|share| share.is_sound(shape))
    }
}

impl<C: Counter + Clone> Counter for Vec<C> {
    type Share = Vec<Option<C::Share>>;

    fn new((count, shape): <Self::Share as Share>::Shape) -> Self {
        (0..count).map(|_| C::new(shape)).collect()
    }

    fn add(&mut self, shares: &Self::Share) {
        let each = self.iter_mut().zip(shares);
        each.for_each(|(counter, share)| share.iter().for_each(|share| counter.add(share)));
    }

    fn takes_out((_, shape): <Self::Share as Share>::Shape) -> bool {
        C::takes_out(shape)
    }

    fn remove(&mut self, shares: &Self::Share) {
        let each = self.iter_mut().zip(shares);
        each.for_each(|(counter, share)| share.iter().for_each(|share| counter.remove(share)));
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self>
    where
        Self: 'a,
    {
        parts.clone().next()?;
        let count = parts.clone().map(Vec::len).max().unwrap_or(0);
        let of = |index| C::merged(parts.clone().filter_map(move |part| part.get(index)));
        Some((0..count).filter_map(of).collect())
    }

    fn consolidate(&mut self) {
        self.iter_mut().for_each(C::consolidate);
    }

    fn is_consolidated(&self) -> bool {
        self.iter().all(C::is_consolidated)
    }

    fn is_sound(&self, (count, shape): <Self::Share as Share>::Shape) -> bool {
        self.len() == count && self.iter().all(|counter| counter.is_sound(shape))
    }
}

/// Declares counts that are those of several parts: what one request adds, what is counted, the counts over a set of
/// requests, and what windows do with these.
macro_rules! counted {
    ($Share:ident, $Shape:ident, $Tally:ident {
        $($(#[$attribute:meta])* $part:ident: $counts:ty,)+
    }) => {
        /// What one request adds.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $Share {
            $($(#[$attribute])* pub $part: <$counts as Counter>::Share,)+
        }

        /// What is counted.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $Shape {
            $(pub(super) $part: <<$counts as Counter>::Share as Share>::Shape,)+
        }

        /// The counts over a set of requests.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $Tally {
            $($(#[$attribute])* pub $part: $counts,)+
        }

        $crate::units::heap::heap_bytes!($Share { $($part),+ });
        $crate::units::heap::heap_bytes!($Tally { $($part),+ });

        impl Share for $Share {
            type Shape = $Shape;

            fn is_sound(&self, shape: $Shape) -> bool {
                $(Share::is_sound(&self.$part, shape.$part))&&+
            }
        }

        impl Counter for $Tally {
            type Share = $Share;

            fn new(shape: $Shape) -> Self {
                Self { $($part: Counter::new(shape.$part),)+ }
            }

            fn add(&mut self, share: &$Share) {
                $(self.$part.add(&share.$part);)+
            }

            fn remove(&mut self, share: &$Share) {
                $(Counter::remove(&mut self.$part, &share.$part);)+
            }

            fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
                Some(Self { $($part: Counter::merged(parts.clone().map(|part| &part.$part))?,)+ })
            }

            fn consolidate(&mut self) {
                $(self.$part.consolidate();)+
            }

            fn is_consolidated(&self) -> bool {
                $(self.$part.is_consolidated())&&+
            }

            fn is_sound(&self, shape: $Shape) -> bool {
                $(Counter::is_sound(&self.$part, shape.$part))&&+
            }
        }
    };
}

pub(super) use counted;
