//! A backfill publishes what the live service published, byte for byte, and disturbs nobody.

mod command;
mod confirming;
mod log_ends;

use crate::kafka_support::asked::{asking_everything, tell};
use crate::kafka_support::{Broker, Bytes, Input, PATIENCE, Published, StopAfter, serve_records, stamp};
use kvset::codec::{EstimateDetail, decode_estimate};
use kvset::core::estimate::Estimate;
use kvset::core::sizing::tiers::Settled;
use kvset::core::units::window::WindowKind;
use kvset::kafka::offsets::Offsets;
use kvset::kafka::sink::{OutputTopic, OutputTopics};
use kvset::position::{NextOffset, Partition};
use kvset::service::backfill::{
    Backfill, BackfillError, BackfillOptions, BackfillOutcome, BackfillPlaces, BackfillWarmUp, LogPlace,
    NoteError, RangeError, RequestedRange,
};
use kvset::service::plan::ServicePlan;
use kvset::service::shutdown::Shutdown;
use kvset::settings::{Delivery, Settings, TokenCost, TopicName};
use kvset::workload::{Generator, Workload};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PARTITIONS: u32 = 2;
const DEADLINE: Duration = Duration::from_secs(30);

/// A log, the live service that read it, and the settings of both.
struct Bench {
    broker: Broker,
    folder: TempDir,
    settings: Settings,
}

impl Bench {
    fn on(broker: Broker) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |name: &str| TopicName::new(&broker.topic(name)).expect("a name");
        let mut settings = Settings::default();
        settings.kafka.brokers.clone_from(&broker.connection.brokers);
        settings.kafka.group = broker.topic("live");
        settings.input.topic = name("requests");
        settings.output.topic = name("live.estimates");
        settings.output.dead_letter_topic = name("live.dead-letters");
        // A run publishes whole estimates, whatever the service does.
        settings.output.detail = EstimateDetail::Full;
        settings.output.delivery =
            if broker.is_real() { Delivery::Transactional } else { Delivery::Idempotent };
        settings.estimate.windows =
            ["tumbling:1m", "last:100", "all"].map(|text| text.parse().expect("a window")).to_vec();
        settings.estimate.kv_bytes_per_token = TokenCost::new(131_072.0);
        settings.state.directory = folder.path().join("state");
        settings.workers.queue_records = 64;
        settings.http.listen.0 = None;
        Self { broker, folder, settings }
    }

    /// With every broker there is, the log on it.
    fn all(input: &Input) -> Vec<Self> {
        let bench = |broker| {
            let bench = Self::on(broker);
            bench.broker.create("requests", PARTITIONS);
            bench.produce(input);
            bench
        };
        Broker::all().into_iter().map(bench).collect()
    }

    fn produce(&self, input: &Input) {
        input.produce(&self.broker.connection, &self.broker.topic("requests"));
    }

    /// Runs the live service over so many records; gives what it published in all.
    fn live(&self, records: u64) -> Published {
        serve_records(&self.live_plan(), records).expect("a clean run");
        Published::read(&self.broker, &self.live_topics())
    }

    fn live_plan(&self) -> ServicePlan {
        for topic in [&self.settings.output.topic, &self.settings.output.dead_letter_topic] {
            self.create(topic.as_str());
        }
        ServicePlan { state: None, ..ServicePlan::make(&self.settings, false).expect("usable") }
    }

    /// Creates a topic unless it is there.
    fn create(&self, topic: &str) {
        let short = topic.strip_prefix(&self.broker.topic("")).expect("a topic of this test");
        let there = kvset::kafka::topics::Topics::new(&self.broker.connection, DEADLINE)
            .and_then(|topics| topics.partitions(topic));
        if there.expect("an answer").is_none() {
            self.broker.create(short, PARTITIONS);
        }
    }

    fn live_topics(&self) -> OutputTopics {
        let topic = |name: &TopicName| OutputTopic {
            name: name.as_str().to_owned(),
            partitions: NonZeroU32::new(PARTITIONS).expect("not zero"),
        };
        OutputTopics {
            results: topic(&self.settings.output.topic),
            dead_letters: topic(&self.settings.output.dead_letter_topic),
        }
    }

    fn options(&self, run: &str, from: &str, to: &str, warm_up: BackfillWarmUp) -> BackfillOptions {
        for topic in [&self.settings.output.topic, &self.settings.output.dead_letter_topic] {
            self.create(&format!("{topic}.backfill.{run}"));
        }
        BackfillOptions {
            settings: self.settings.clone(),
            run_id: run.parse().expect("a name"),
            range: RequestedRange {
                from: from.parse().expect("a place"),
                to: to.parse().expect("a place"),
                warm_up,
            },
            output_topic: None,
            state_directory: None,
            create_topics: false,
            full_detail: false,
        }
    }

    fn prepare(
        &self,
        run: &str,
        from: &str,
        to: &str,
        warm_up: BackfillWarmUp,
    ) -> Result<Backfill, BackfillError> {
        Backfill::prepare(&self.options(run, from, to, warm_up))
    }

    /// A run from beginning to end; gives what it published.
    fn backfill(&self, run: &str, from: &str, to: &str, warm_up: BackfillWarmUp) -> Published {
        let backfill = self.prepare(run, from, to, warm_up).expect("a range");
        let outcome = to_the_end(&backfill);
        assert!(outcome.complete, "{outcome:?}");
        Published::read(&self.broker, &backfill.plan.stream.outputs)
    }

    /// The live group's committed offsets.
    fn committed(&self) -> Vec<(Partition, Option<NextOffset>)> {
        let topic = self.broker.topic("requests");
        let offsets =
            Offsets::open(&self.broker.connection, &self.settings.kafka.group, &topic).expect("a client");
        offsets.committed(&[Partition(0), Partition(1)], DEADLINE).expect("an answer")
    }

    /// The configuration as a file.
    fn configure(&self) -> std::path::PathBuf {
        let path = self.folder.path().join("kvset.toml");
        let Settings { kafka, input, output, state, .. } = &self.settings;
        let delivery = if self.broker.is_real() { "transactional" } else { "idempotent" };
        let text = format!(
            "[kafka]\nbrokers = \"{}\"\ngroup = \"{}\"\nretry_for = \"5s\"\n[input]\ntopic = \"{}\"\n\
             [output]\ntopic = \"{}\"\ndead_letter_topic = \"{}\"\ndelivery = \"{delivery}\"\ndetail = \"full\"\n\
             [estimate]\nwindows = [\"tumbling:1m\", \"last:100\", \"all\"]\nkv_bytes_per_token = 131072\n\
             [state]\ndirectory = \"{}\"\ncheckpoint_every = \"1s\"\n[commit]\nmax_records = 20\n\
             [workers]\nqueue_records = 10\n",
            kafka.brokers,
            kafka.group,
            input.topic,
            output.topic,
            output.dead_letter_topic,
            state.directory.display(),
        );
        std::fs::write(&path, text).expect("a disk");
        path
    }
}

fn to_the_end(backfill: &Backfill) -> BackfillOutcome {
    // One that does not end by itself is ended by the observer's time limit.
    let shutdown = Shutdown::new();
    backfill.run(&shutdown, &StopAfter::new(&shutdown, u64::MAX)).expect("a clean run")
}

fn generated(requests: usize) -> Input {
    let mut input = Input::default();
    for (partition, pool) in ["alpha", "beta"].iter().enumerate() {
        let workload = Workload {
            seed: partition as u64,
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        for (number, request) in Generator::new(workload).expect("a workload").take(requests).enumerate() {
            let mut row = request.as_row();
            tell(&mut row, number);
            input.push_row(partition as i32, pool, &row);
            if number % 100 == 50 {
                input.push(partition as i32, pool, format!("broken {number}").into_bytes());
            }
        }
    }
    input
}

fn count(published: &Published) -> usize {
    published.estimates.values().map(Vec::len).sum()
}

fn estimates(published: &Published) -> impl Iterator<Item = Estimate> {
    let values = published.estimates.values().flatten();
    values.map(|(_, value)| decode_estimate(value.as_deref().unwrap_or_default()).expect("an estimate"))
}

#[test]
fn a_backfill_of_everything_publishes_what_the_live_service_published() {
    let input = generated(300);
    for bench in Bench::all(&input) {
        let live = bench.live(input.records());
        assert!(count(&live) > 30 && live.letters.len() == 6, "too little happened");
        let before = bench.committed();
        let published = bench.backfill("whole", "earliest", "latest", BackfillWarmUp::None);
        assert!(published == live, "real broker: {}", bench.broker.is_real());
        assert_eq!(bench.committed(), before, "the live group was moved");
        let upto = bench.backfill("upto", "earliest", "committed", BackfillWarmUp::None);
        assert!(upto == live, "up to where the live group is; real broker: {}", bench.broker.is_real());
    }
}

/// Time, tenants, tiers, measured hits and routers, each with something to say.
#[test]
fn a_backfill_answers_every_question_as_the_live_service_did() {
    let input = generated(300);
    for mut bench in Bench::all(&input) {
        bench.settings = asking_everything(bench.settings);
        let live = bench.live(input.records());
        let told = |told: fn(&Estimate) -> bool| estimates(&live).filter(&told).count();
        assert!(told(|estimate| estimate.retention.iter().any(|point| point.page_hits > Some(0))) > 20);
        assert!(
            told(|estimate| estimate.traffic.as_ref().is_some_and(|traffic| !traffic.tiers.is_empty())) > 10
        );
        assert!(told(|estimate| estimate.tenants.len() == 3) > 20);
        assert!(told(|estimate| estimate.measured.is_some() && estimate.routing.len() == 4) > 20);
        let is_worth = |estimate: &Estimate| {
            let worth = estimate.worth.as_ref();
            worth.is_some_and(|worth| worth.capacities.len() == 3 && worth.provisioned.is_some())
        };
        assert!(told(is_worth) > 20);
        assert!(told(|estimate| estimate.restarts.is_some()) > 20);
        let published = bench.backfill("asked", "earliest", "latest", BackfillWarmUp::None);
        assert!(published == live, "real broker: {}", bench.broker.is_real());
    }
}

/// The estimate without its trends, which look back over windows that a run from the middle does not count.
fn of_its_window_alone(mut estimate: Estimate) -> Estimate {
    for entry in estimate.required.iter_mut().flat_map(|required| &mut required.coverage) {
        (entry.convergence, entry.growth_per_window) = (Settled::default(), None);
    }
    Estimate { trend_windows: 0, plan: None, ..estimate }
}

#[test]
fn from_the_middle_whole_windows_are_those_of_the_live_service() {
    let input = generated(700);
    for bench in Bench::all(&input) {
        let live = bench.live(input.records());
        let published = bench.backfill("middle", "0:150,1:120", "latest", BackfillWarmUp::All);
        let mut whole = 0;
        let decoded =
            |value: &Bytes| decode_estimate(value.as_deref().expect("a value")).expect("an estimate");
        for (key, value) in published.estimates.values().flatten() {
            let estimate = decoded(value);
            if !estimate.warm_up {
                whole += 1;
                let same = live.estimates[&estimate.pool].iter().find(|(other, _)| other == key);
                let (_, same) = same.expect("the live service published that window");
                assert_eq!(of_its_window_alone(estimate), of_its_window_alone(decoded(same)));
            }
        }
        assert!(whole > 10, "only {whole} windows are whole: the comparison shows little");
        let cut = estimates(&published).find(|estimate| estimate.window == WindowKind::All).expect("some");
        assert!(cut.warm_up && cut.first_offset >= 120, "all since --from");
        assert!(published.letters.len() < live.letters.len(), "those of the warm-up are not published again");
    }
}

#[test]
fn less_warm_up_knows_fewer_hits_and_says_so() {
    let input = generated(300);
    let bench = Bench::all(&input).remove(0);
    let hits = |published: &Published| -> u64 {
        let tumbling = estimates(published).filter(|estimate| estimate.window != WindowKind::All);
        tumbling.map(|estimate| estimate.theoretical.page_hits).sum()
    };
    let runs =
        [("cold", BackfillWarmUp::None), ("some", BackfillWarmUp::Offsets(60)), ("all", BackfillWarmUp::All)]
            .map(|(run, warm_up)| bench.backfill(run, "150", "latest", warm_up));
    assert!(hits(&runs[0]) < hits(&runs[1]) && hits(&runs[1]) < hits(&runs[2]));
    assert!(estimates(&runs[0]).next().expect("some").warm_up, "a window that begins before --from");
    // As a span of event time the same is found by searching the log.
    let begin = |run: &str, warm_up| {
        let backfill = bench.prepare(run, "150", "latest", warm_up).expect("a range");
        backfill.offset_ranges.values().map(|offset_range| offset_range.begin.0).collect::<Vec<_>>()
    };
    let minutes = begin("minutes", BackfillWarmUp::Time(Duration::from_secs(120)));
    assert!(minutes.iter().all(|begin| (1..150).contains(begin)), "{minutes:?}");
    assert_eq!(
        begin("days", BackfillWarmUp::Time(Duration::from_secs(864_000))),
        [0, 0],
        "no further than the log"
    );
}

/// It ends where the log ended when it began, also after a restart, and publishes everything once.
#[test]
fn a_stopped_run_goes_on_within_the_bounds_it_began_with() {
    let input = generated(300);
    for bench in Bench::all(&input) {
        let live = bench.live(input.records());
        let first = bench.prepare("halves", "earliest", "latest", BackfillWarmUp::None).expect("a range");
        let shutdown = Shutdown::new();
        let outcome = first.run(&shutdown, &StopAfter::new(&shutdown, 250)).expect("a clean run");
        assert!(!outcome.complete && outcome.summary.results > 0, "{outcome:?}");
        drop(first);
        bench.produce(&input);
        let second = bench.prepare("halves", "earliest", "latest", BackfillWarmUp::None).expect("a range");
        assert_eq!(second.reached, outcome.reached);
        let ends: Vec<_> =
            second.offset_ranges.values().map(|offset_range| offset_range.end.0 as u64).collect();
        assert_eq!(ends, [input.records() / 2; 2], "captured when the run began");
        assert!(to_the_end(&second).complete);
        let published = Published::read(&bench.broker, &second.plan.stream.outputs);
        assert!(published == live, "real broker: {}", bench.broker.is_real());
        let third = bench.prepare("halves", "earliest", "latest", BackfillWarmUp::None).expect("a range");
        let outcome = third.run(&Shutdown::new(), &()).expect("nothing to do");
        assert!(outcome.complete && outcome.summary.records == 0, "{outcome:?}");
        let other = bench.prepare("halves", "earliest", "committed", BackfillWarmUp::None);
        assert!(matches!(other, Err(BackfillError::Note { error: NoteError::OtherRun, .. })));
    }
}

#[test]
fn a_report_shows_what_the_run_published() {
    let input = generated(300);
    let bench = Bench::all(&input).remove(0);
    let backfill = bench.prepare("shown", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    assert!(to_the_end(&backfill).complete);
    let shown = kvset::commands::backfill::report(&backfill).expect("readable").expect("windows closed");
    let names: Vec<_> = shown.pools.iter().filter_map(|pool| pool.name.as_deref()).collect();
    assert_eq!(names, ["alpha", "beta"]);
    let published = Published::read(&bench.broker, &backfill.plan.stream.outputs);
    for pool in &shown.pools {
        let of_pool = || estimates(&published).filter(|estimate| Some(&estimate.pool) == pool.name.as_ref());
        let all = of_pool().filter(|estimate| estimate.window == WindowKind::All).last().expect("some");
        assert_eq!(
            (pool.estimate.requests, pool.estimate.accumulated_pages),
            (all.requests, all.accumulated_pages)
        );
        let tumbling = of_pool().filter(|estimate| matches!(estimate.window, WindowKind::Tumbling { .. }));
        let requests: Vec<u64> = tumbling.map(|estimate| estimate.requests).collect();
        let points: Vec<u64> = pool.history.points.iter().map(|point| point.requests).collect();
        assert_eq!(points, requests);
    }
    assert!(kvset::present::html::render(&shown).expect("drawable").contains("Backfill run"));
}

fn refusal(bench: &Bench, run: &str, from: &str, to: &str) -> RangeError {
    match bench.prepare(run, from, to, BackfillWarmUp::None) {
        Err(BackfillError::Range(error)) => error,
        Err(error) => panic!("{from} to {to}: {error}"),
        Ok(_) => panic!("{from} to {to} should be refused"),
    }
}

#[test]
fn ranges_that_hold_nothing_are_refused_with_the_reason() {
    let input = generated(50);
    let bench = Bench::all(&input).remove(0);
    for (from, to, why) in [
        ("30", "10", "--from is after --to in partition 0"),
        ("10", "10", "there is no record between"),
        ("latest", "latest", "there is no record between"),
        ("99999", "latest", "past the end"),
        ("earliest", "0:5,1:99999", "past the end"),
        ("committed", "latest", "no committed offset"),
        ("7:1", "latest", "there is no partition 7"),
        ("0:1", "1:5", "--to names partition 1"),
    ] {
        let error = refusal(&bench, "refused", from, to).to_string();
        assert!(error.contains(why), "{from} to {to}: {error}");
    }
}
