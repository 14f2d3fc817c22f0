//! Whether several files are of several servers: their requests came in the same time, and no row names the cache
//! that served it.

use super::row::{RowBatch, StatedTimes};
use crate::time::Moment;
use hashbrown::HashMap;
use kvset_core::request::event::CachedTokens;
use kvset_core::request::labels::Label;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Most files whose times are kept.
const MAX_FILES: usize = 64;
/// Most names of caches that are told apart.
const MAX_REPLICAS: usize = 4096;
/// Replicas that are named.
const SHOWN_REPLICAS: usize = 4;
/// Fewest requests of a file that show when it was written, and of a replica that show whether it reports.
const MIN_REQUESTS: u64 = 4;

/// When the requests of each file came.
#[derive(Debug, Default)]
pub(crate) struct FileSpans {
    files: Vec<FileSpan>,
    /// The caches that rows name, by digest.
    replicas: HashMap<u64, ReplicaRows, foldhash::fast::FixedState>,
}

#[derive(Debug)]
struct ReplicaRows {
    name: Box<str>,
    requests: u64,
    /// Those that say what was cached, or have a usage that leaves it out.
    reporting: u64,
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
            if let Some(name) = draft.labels.get(Label::Replica) {
                self.add_replica(&batch.text[name.clone()], draft.cached_tokens);
            }
            if let Some(file) = self.files.last_mut().filter(|_| draft.when != StatedTimes::Unstated) {
                let (first, last) = file.span.unwrap_or((draft.moment, draft.moment));
                file.span = Some((first.min(draft.moment), last.max(draft.moment)));
                file.requests += 1;
            }
        }
    }

    fn add_replica(&mut self, name: &str, cached: CachedTokens) {
        let digest = xxh3_64(name.as_bytes());
        if self.replicas.len() >= MAX_REPLICAS && !self.replicas.contains_key(&digest) {
            return;
        }
        let rows = ReplicaRows { name: Box::default(), requests: 0, reporting: 0 };
        let rows = self.replicas.entry(digest).or_insert(rows);
        if rows.requests == 0 {
            rows.name = Box::from(name);
        }
        rows.requests += 1;
        rows.reporting += u64::from(cached != CachedTokens::Unstated);
    }

    /// Which caches never report what they found, where others do.
    pub fn silent_replicas(&self) -> Option<String> {
        let (reporting, mut silent): (Vec<_>, Vec<_>) =
            self.replicas.values().partition(|rows| rows.reporting > 0);
        silent.retain(|rows| rows.requests >= MIN_REQUESTS);
        silent.sort_by(|one, other| one.name.cmp(&other.name));
        let requests: u64 = silent.iter().map(|rows| rows.requests).sum();
        let mut names: Vec<_> =
            silent.iter().take(SHOWN_REPLICAS).map(|rows| rows.name.to_string()).collect();
        let more = silent.len() - names.len();
        names.extend((more > 0).then(|| format!("{more} more")));
        let have =
            if silent.len() == 1 { "never states what it found" } else { "never state what they found" };
        (!reporting.is_empty() && !silent.is_empty()).then(|| {
            format!(
                "of {} replicas, {} {have}: {requests} requests are left out where measured hits are compared, so what \
                 was measured is of the other replicas alone; log `cached_tokens` there, too",
                self.replicas.len(),
                names.join(", ")
            )
        })
    }

    /// How many caches the rows name.
    pub fn replicas(&self) -> u64 {
        self.replicas.len() as u64
    }

    /// That a file which was rotated away stands behind the one that came after it.
    pub fn rotated(&self) -> Option<String> {
        let mut pairs = self.files.windows(2);
        let [newer, older] = pairs.find(|pair| rotation(&pair[1].name) == Some(pair[0].name.to_string()))?
        else {
            return None;
        };
        Some(format!("{} is older than {}, which stands before it", older.name, newer.name))
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

/// The name that a file had before it was rotated away: `requests.jsonl` of `requests.jsonl.1`, or of
/// `requests.1.jsonl.gz`.
fn rotation(name: &str) -> Option<String> {
    let plain = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let is_number = |part: &&str| part.len() <= 3 && part.parse().is_ok_and(|number: u16| number > 0);
    let parts: Vec<_> = plain.split('.').collect();
    let at = parts.iter().rposition(is_number).filter(|at| *at > 0 && *at + 2 >= parts.len())?;
    Some([&parts[..at], &parts[at + 1..]].concat().join("."))
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
    fn a_rotated_file_behind_the_newer_one_is_reported() {
        let rotated = |names: &[&str]| {
            let mut spans = FileSpans::default();
            names.iter().for_each(|name| spans.begin(&Arc::from(*name)));
            spans.rotated()
        };
        for older in ["a/r.jsonl.1", "a/r.jsonl.1.gz", "a/r.1.jsonl"] {
            assert!(rotated(&["a/r.jsonl", older]).is_some_and(|said| said.starts_with(older)), "{older}");
            assert_eq!(rotated(&[older, "a/r.jsonl"]), None);
        }
        assert_eq!(rotated(&["part.001", "part.002"]).or(rotated(&["v1.5.jsonl", "v1.6.jsonl"])), None);
    }

    #[test]
    fn a_replica_that_never_reports_is_told() {
        let told = |cached: &[(&str, CachedTokens)]| {
            let mut spans = FileSpans::default();
            cached.iter().for_each(|(name, cached)| (0..5).for_each(|_| spans.add_replica(name, *cached)));
            spans.silent_replicas()
        };
        use CachedTokens::{LeftOut, Stated, Unstated};
        let said = told(&[("a", Stated(7)), ("b", Unstated), ("c", LeftOut)]).expect("told");
        assert!(said.contains("of 3 replicas, b never states"), "{said}");
        assert_eq!(told(&[("a", Stated(0)), ("b", LeftOut)]), None);
        assert_eq!(told(&[("a", Unstated), ("b", Unstated)]), None);
    }

    #[test]
    fn files_of_one_time_are_told_and_files_that_follow_each_other_are_not() {
        assert!(told(&[(0, 100), (10, 90)]) && told(&[(0, 100), (40, 140)]));
        assert!(!told(&[(0, 100), (95, 200)]) && !told(&[(0, 100)]) && !told(&[(0, 100), (100, 200)]));
    }
}
