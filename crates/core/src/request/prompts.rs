//! Prompts in memory: what several begin with is kept once.

use crate::units::pages::Scope;
use std::collections::HashMap;
use std::ops::Range;

/// Prompts as paths of a tree, whose segments are runs of ids. Two prompts are on one path as far as they are equal
/// within one scope.
#[derive(Debug, Default)]
pub struct PromptTree {
    ids: Vec<u64>,
    segments: Vec<PromptSegment>,
    /// The segment that goes on behind another one, or begins a scope, with this id.
    next: HashMap<(Above, u64), u32, foldhash::fast::RandomState>,
}

/// What a segment lies under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Above {
    Scope(u64),
    Segment(u32),
}

impl Above {
    fn segment(self) -> Option<usize> {
        match self {
            Self::Segment(above) => Some(above as usize),
            Self::Scope(_) => None,
        }
    }
}

/// A run of ids that nothing branches off within.
#[derive(Debug, Clone, Copy)]
struct PromptSegment {
    above: Above,
    /// Ids of the path before it.
    depth: u32,
    /// Where its ids lie.
    start: usize,
    length: u32,
}

/// A prompt among [`PromptTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptPath {
    /// The segment that it ends in; none of an empty prompt.
    segment: Option<u32>,
    length: u32,
}

impl PromptPath {
    /// Ids of the prompt.
    pub fn ids(self) -> usize {
        self.length as usize
    }
}

impl PromptTree {
    /// Ids that are kept.
    pub fn kept(&self) -> usize {
        self.ids.len()
    }

    /// Segments that there are.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// A segment: the one above it, where it does not begin a scope, and the ids of a path before it and up to its end.
    pub fn segment(&self, number: usize) -> (Option<usize>, Range<usize>) {
        let found = self.segments[number];
        let depth = found.depth as usize;
        (found.above.segment(), depth..depth + found.length as usize)
    }

    /// The first id of a segment.
    pub fn first_id(&self, number: usize) -> u64 {
        self.ids[self.segments[number].start]
    }

    /// Adds a prompt of fewer than 2^32 ids; gives where it is, and how many of its leading ids an earlier one had.
    pub fn add(&mut self, scope: Scope, ids: &[u64]) -> (PromptPath, usize) {
        let (mut above, mut at) = (Above::Scope(scope.value()), 0);
        while at < ids.len() {
            let Some(segment) = self.next.get(&(above, ids[at])).copied() else {
                return (self.branch(above, ids, at), at);
            };
            let found = self.segments[segment as usize];
            let own = &self.ids[found.start..found.start + found.length as usize];
            let shared = own.iter().zip(&ids[at..]).take_while(|(one, other)| one == other).count();
            at += shared;
            if at == ids.len() {
                let path = PromptPath { segment: Some(segment), length: at as u32 };
                return (path, at);
            }
            if shared < own.len() {
                let upper = self.split(segment, shared);
                return (self.branch(Above::Segment(upper), ids, at), at);
            }
            above = Above::Segment(segment);
        }
        (PromptPath { segment: None, length: 0 }, 0)
    }

    /// Puts what is new of a prompt under `above`.
    fn branch(&mut self, above: Above, ids: &[u64], known: usize) -> PromptPath {
        let new = &ids[known..];
        let length = ids.len() as u32;
        let count = self.segments.len();
        if let Above::Segment(last) = above
            && last as usize + 1 == count
            && let Some(open) = self.segments.last_mut()
            && open.start + open.length as usize == self.ids.len()
        {
            // Nothing lies behind the newest segment: it grows.
            open.length += new.len() as u32;
            self.ids.extend_from_slice(new);
            return PromptPath { segment: Some(last), length };
        }
        let segment = self.segments.len() as u32;
        self.next.insert((above, new[0]), segment);
        self.segments.push(PromptSegment {
            above,
            depth: known as u32,
            start: self.ids.len(),
            length: new.len() as u32,
        });
        self.ids.extend_from_slice(new);
        PromptPath { segment: Some(segment), length }
    }

    /// Cuts a segment behind its first `length` ids; the new one is the upper part.
    fn split(&mut self, segment: u32, length: usize) -> u32 {
        let upper = self.segments.len() as u32;
        let lower = &mut self.segments[segment as usize];
        let above = PromptSegment { length: length as u32, ..*lower };
        lower.above = Above::Segment(upper);
        lower.depth += length as u32;
        lower.start += length;
        lower.length -= length as u32;
        let goes_on = self.ids[lower.start];
        self.next.insert((above.above, self.ids[above.start]), upper);
        self.next.insert((Above::Segment(upper), goes_on), segment);
        self.segments.push(above);
        upper
    }

    /// Puts the ids of a prompt into `ids`.
    pub fn read(&self, path: PromptPath, ids: &mut Vec<u64>) {
        ids.clear();
        ids.resize(path.ids(), 0);
        self.segments_of(path).for_each(|(_, segment)| {
            let (from, end) =
                (segment.depth as usize, (segment.depth + segment.length).min(path.length) as usize);
            let own = &self.ids[segment.start..segment.start + (end - from)];
            ids[from..end].copy_from_slice(own);
        });
    }

    /// The segments that a path passes, from its end: the number of each, that of the one above it, where it does not
    /// begin a scope, and the ids of the path up to its end.
    pub fn passed(&self, path: PromptPath) -> impl Iterator<Item = (usize, Option<usize>, usize)> + '_ {
        self.segments_of(path).map(|(number, segment)| {
            (number as usize, segment.above.segment(), (segment.depth + segment.length) as usize)
        })
    }

    /// The segment that the last of the first `ids` of a path lies in.
    pub fn segment_at(&self, path: PromptPath, ids: usize) -> Option<usize> {
        let mut passed = self.segments_of(path);
        let found = passed.find(|(_, segment)| (segment.depth as usize) < ids && ids <= path.ids());
        found.map(|(number, _)| number as usize)
    }

    fn segments_of(&self, path: PromptPath) -> impl Iterator<Item = (u32, PromptSegment)> + '_ {
        let segment = move |at: u32| (at, self.segments[at as usize]);
        let above = move |(_, below): &(u32, PromptSegment)| match below.above {
            Above::Segment(above) => Some(segment(above)),
            Above::Scope(_) => None,
        };
        // A segment that was cut since the prompt was added may begin behind its end.
        let all = std::iter::successors(path.segment.map(segment), above);
        all.filter(move |(_, own)| own.depth < path.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prompts_are_read_as_they_were_added_and_known_as_far_as_an_earlier_one_goes(
            all in prop::collection::vec((0u64..3, prop::collection::vec(0u64..3, 0..12)), 0..40),
        ) {
            let scope = |scope: u64| if scope == 0 { Scope::GLOBAL } else { Scope::named(&[scope as u8]) };
            let (mut prompts, mut paths, mut read) = (PromptTree::default(), Vec::new(), Vec::new());
            for (at, (of, ids)) in all.iter().enumerate() {
                let (path, known) = prompts.add(scope(*of), ids);
                let shared = |(other, earlier): &(u64, Vec<u64>)| match other == of {
                    true => earlier.iter().zip(ids).take_while(|(one, two)| one == two).count(),
                    false => 0,
                };
                prop_assert_eq!(known, all[..at].iter().map(shared).max().unwrap_or(0));
                paths.push(path);
            }
            for (path, (_, ids)) in paths.iter().zip(&all) {
                prompts.read(*path, &mut read);
                prop_assert_eq!(&read, ids);
            }
            // Two prompts are in one segment exactly as far as they are equal.
            for (one, (scope, ids)) in paths.iter().zip(&all) {
                for (two, (other, others)) in paths.iter().zip(&all) {
                    for count in 1..=ids.len().min(others.len()) {
                        let same = scope == other && ids[..count] == others[..count];
                        prop_assert_eq!(prompts.segment_at(*one, count) == prompts.segment_at(*two, count), same);
                    }
                }
            }
        }
    }
}
