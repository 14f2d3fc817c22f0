//! Schemas by their name in a registry: bounded, each requested by one thread at a time, waited for while the
//! registry is away.
//!
//! A record whose schema cannot be had is kept waiting and not refused: which records are refused
//! must not hang on the registry's health. Only an id that the registry does not know refuses its
//! records; it is requested a few times before, as a replica of a registry may lag behind the
//! producer that has just registered it.

use super::client::{RegistryClient, RegistryFailure};
use kvset_formats::codec::{LookupError, SchemaRef, WriterSchema, WriterSchemas};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Questions for a schema before its absence is believed.
const ABSENT_AFTER: u32 = 4;
/// How long an absence is believed.
const ABSENT_FOR: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Schemas of one registry, shared by all who decode.
#[derive(Debug)]
pub struct SchemaCache {
    client: RegistryClient,
    max_schemas: NonZeroUsize,
    inner: Mutex<CacheState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<SchemaRef, CachedSchema>,
    /// Counts looks into the cache, to tell what was used least lately.
    clock: u64,
    /// Threads that wait for a registry which does not answer.
    waiting: usize,
    stopped: bool,
}

#[derive(Debug)]
enum CachedSchema {
    /// Somebody is asking.
    Asked,
    Known {
        schema: Arc<WriterSchema>,
        used: u64,
    },
    Absent {
        until: Instant,
        used: u64,
    },
}

impl SchemaCache {
    /// Keeps at most so many schemas, absent ones included.
    pub fn new(client: RegistryClient, max_schemas: NonZeroUsize) -> Self {
        Self { client, max_schemas, inner: Mutex::default(), changed: Condvar::new() }
    }

    /// The registry itself.
    pub fn client(&self) -> &RegistryClient {
        &self.client
    }

    /// Whether a record waits for a registry that does not answer.
    pub fn is_waiting(&self) -> bool {
        self.lock().waiting > 0
    }

    /// Schemas kept, absent ones included.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets callers wait again, after a stop.
    pub fn start(&self) {
        self.lock().stopped = false;
    }

    /// Sends home whoever waits, now and until the next start: the service stops.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        // Every statement under the lock leaves it whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks until there is an answer.
    fn ask(&self, name: SchemaRef) -> Result<Option<Arc<WriterSchema>>, LookupError> {
        let (mut pause, mut absences) = (FIRST_PAUSE, 0);
        let mut waiting = None;
        loop {
            match self.client.schema(name) {
                Ok(Some(schema)) => return Ok(Some(Arc::new(schema))),
                Ok(None) => {
                    absences += 1;
                    waiting = None;
                    if absences == ABSENT_AFTER {
                        tracing::warn!(
                            "the schema registry has no schema with {name}: its records are refused"
                        );
                        return Ok(None);
                    }
                }
                Err(RegistryFailure::Lasting(reason)) => return Err(LookupError::Refused(reason)),
                Err(RegistryFailure::Passing(reason)) => {
                    tracing::warn!("{reason}; records of this schema wait, the next try is in {pause:?}");
                    waiting.get_or_insert_with(|| WaitingGuard::of(self));
                }
            }
            self.rest(pause)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until it is time to ask again.
    fn rest(&self, pause: Duration) -> Result<(), LookupError> {
        let rested = self.changed.wait_timeout_while(self.lock(), pause, |inner| !inner.stopped);
        let (inner, _) = rested.unwrap_or_else(PoisonError::into_inner);
        if inner.stopped { Err(LookupError::Stopped) } else { Ok(()) }
    }
}

impl WriterSchemas for SchemaCache {
    fn find(&self, name: SchemaRef) -> Result<Option<Arc<WriterSchema>>, LookupError> {
        let mut inner = self.lock();
        loop {
            if let Some(answer) = inner.recall(name) {
                return Ok(answer);
            }
            if inner.stopped {
                return Err(LookupError::Stopped);
            }
            if !matches!(inner.entries.get(&name), Some(CachedSchema::Asked)) {
                break;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.make_room(self.max_schemas);
        inner.entries.insert(name, CachedSchema::Asked);
        drop(inner);
        let answer = self.ask(name);
        self.lock().note(name, &answer);
        self.changed.notify_all();
        answer
    }
}

impl CacheState {
    /// The answer that is known, an absence that is recent included.
    fn recall(&mut self, name: SchemaRef) -> Option<Option<Arc<WriterSchema>>> {
        self.clock += 1;
        match self.entries.get_mut(&name)? {
            CachedSchema::Known { schema, used } => {
                *used = self.clock;
                Some(Some(Arc::clone(schema)))
            }
            CachedSchema::Absent { until, used } if Instant::now() < *until => {
                *used = self.clock;
                Some(None)
            }
            CachedSchema::Asked | CachedSchema::Absent { .. } => None,
        }
    }

    /// Forgets what was used least lately. What is being requested stays: there are no more of these
    /// than threads.
    fn make_room(&mut self, max_schemas: NonZeroUsize) {
        while self.entries.len() >= max_schemas.get() {
            let used = |entry: &CachedSchema| match entry {
                CachedSchema::Asked => None,
                CachedSchema::Known { used, .. } | CachedSchema::Absent { used, .. } => Some(*used),
            };
            let oldest = self.entries.iter().filter_map(|(name, entry)| Some((used(entry)?, *name))).min();
            let Some((_, name)) = oldest else { return };
            self.entries.remove(&name);
        }
    }

    fn note(&mut self, name: SchemaRef, answer: &Result<Option<Arc<WriterSchema>>, LookupError>) {
        let used = self.clock;
        match answer {
            Ok(Some(schema)) => {
                self.entries.insert(name, CachedSchema::Known { schema: Arc::clone(schema), used });
            }
            Ok(None) => {
                self.entries.insert(name, CachedSchema::Absent { until: Instant::now() + ABSENT_FOR, used });
            }
            Err(_) => {
                self.entries.remove(&name);
            }
        }
    }
}

/// Counts a thread among those that wait, for as long as it lives.
struct WaitingGuard<'a>(&'a SchemaCache);

impl<'a> WaitingGuard<'a> {
    fn of(cache: &'a SchemaCache) -> Self {
        cache.lock().waiting += 1;
        Self(cache)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}
