//! Whether several files are of several servers: their requests came in the same time, and no row names the cache
//! that served it.

use super::row::{RowBatch, StatedTimes};
use crate::time::Moment;
use hashbrown::HashSet;
use kvset_core::request::labels::Label;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Most files whose times are kept.
const MAX_FILES: usize = 64;
/// Most names of caches that are told apart.
const MAX_REPLICAS: usize = 4096;
/// Fewest requests of a file that show when it was written.
const MIN_REQUESTS: u64 = 4;

/// When the requests of each file came.
#[derive(Debug, Default)]
pub(crate) struct FileSpans {
    files: Vec<FileSpan>,
    /// Digests of the caches that rows name.
    replicas: HashSet<u64, foldhash::fast::FixedState>,
}

#[derive(Debug)]
struct FileSpan {
    name: Arc<str>,
    requests: u64,
    span: Option<(Moment, Moment)>,
}

impl FileSpans {
    pub fn begin(&mut self, name: &Arc<str>) {
        if self.files.len() < MAX_FILES {
            self.files.push(FileSpan { name: Arc::clone(name), requests: 0, span: None });
        }
    }

    /// Adds requests of the file begun last, whose moments are known.
    pub fn add(&mut self, batch: &RowBatch) {
        for draft in &batch.drafts {
            if let Some(name) = draft.labels.get(Label::Replica)
                && self.replicas.len() < MAX_REPLICAS
            {
                self.replicas.insert(xxh3_64(batch.text[name.clone()].as_bytes()));
            }
            if let Some(file) = self.files.last_mut().filter(|_| draft.when != StatedTimes::Unstated) {
                let (first, last) = file.span.unwrap_or((draft.moment, draft.moment));
                file.span = Some((first.min(draft.moment), last.max(draft.moment)));
                file.requests += 1;
            }
        }
    }

    /// How many caches the rows name.
    pub fn replicas(&self) -> u64 {
        self.replicas.len() as u64
    }

    /// That files overlap for half of the shorter one's time or more.
    pub fn sentence(&self) -> Option<String> {
        if self.replicas() > 0 {
            return None;
        }
        let mut spans = self.files.iter().filter(|file| file.requests >= MIN_REQUESTS);
        let (first, others): (_, Vec<_>) = (spans.next()?, spans.collect());
        let other = others.into_iter().find(|other| overlap(first, other))?;
        Some(format!(
            "{} and {} have requests of the same time and none names a replica: where they are the logs of several \
             servers, each has a cache of its own, and here all requests went to one; write `replica` into the rows, \
             another name for each file",
            first.name, other.name
        ))
    }
}

fn overlap(one: &FileSpan, other: &FileSpan) -> bool {
    let Some(((from, to), (other_from, other_to))) = one.span.zip(other.span) else { return false };
    let length = |from: Moment, to: Moment| to.ms().saturating_sub(from.ms());
    let both = length(from.max(other_from), to.min(other_to));
    both > 0 && both * 2 >= length(from, to).min(length(other_from, other_to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::row::Draft;
    use crate::time::{TimeBase, TimeForm};
    use std::time::Duration;

    fn told(files: &[(u64, u64)]) -> bool {
        let mut spans = FileSpans::default();
        for (number, (from, to)) in files.iter().enumerate() {
            spans.begin(&Arc::from(format!("f{number}")));
            let drafts = (0..5).map(|at| Draft {
                moment: Moment::default().after(Duration::from_secs(from + (to - from) * at / 4)),
                when: StatedTimes::At { clock: TimeBase::Epoch, form: TimeForm::Date },
                ..Draft::default()
            });
            let mut batch = RowBatch::default();
            batch.drafts.extend(drafts);
            spans.add(&batch);
        }
        spans.sentence().is_some()
    }

    #[test]
    fn files_of_one_time_are_told_and_files_that_follow_each_other_are_not() {
        assert!(told(&[(0, 100), (10, 90)]) && told(&[(0, 100), (40, 140)]));
        assert!(!told(&[(0, 100), (95, 200)]) && !told(&[(0, 100)]) && !told(&[(0, 100), (100, 200)]));
    }
}
