//! Every setting there is. This file is the one source of the types, the defaults, the ranges, the
//! commented default configuration and the reference.

use super::engine::EngineOptions;
use super::prepare::ModelDirectory;
use super::properties::Properties;
use super::questions::PoolQuestions;
use super::secret::Secret;
use super::url::{HostName, HttpUrl};
use super::values::{
    AssignmentStrategy, Delivery, GroupProtocol, Listen, LogFilter, LogFormat, OutputEncoding, Price, Size,
    Span, TokenCost, TopicName,
};
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::engines::profile::{Outputs, Profile};
use kvset_core::estimate::config::{MAX_MIN_REQUESTS, MIN_REQUESTS};
use kvset_core::sizing::tiers::{Inclusion, TrendRules};
use kvset_core::stack::{ChainPolicy, MAX_REQUEST_PAGES, MAX_TRACKED_PAGES};
use kvset_core::units::PageSize;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::{Encoding, EstimateDetail, LetterContent};
use kvset_formats::position::{LostHistory, StartFrom};
use kvset_prepare::template::Template;
use kvset_prepare::{FieldPath, Preset, RawFormat, TimeUnit};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Most tokens a page may hold.
const MAX_PAGE_SIZE: u32 = 65_536;
/// The smallest share of pages that may be followed.
const MIN_SAMPLE_RATE: Ratio = Ratio::per_mille(1);
/// Fewest pages that a pool may remember: with less a single long prompt is beyond the bound.
const MIN_TRACKED_PAGES: u64 = 1024;

sections! {
    /// Where the log is and how this program joins its readers.
    pub struct Kafka {
        /// Brokers to begin with, host:port, separated by commas.
        brokers: String = "localhost:9092".to_owned(), in 1..=4096;
        /// Consumer group. Its committed offsets are where the service goes on.
        group: String = "kvset".to_owned(), in 1..=200;
        /// Stable name of this instance: its group.instance.id and part of its transactional.id, so
        /// that a restart takes up its own partitions without a rebalance. Empty for a dynamic member.
        instance: String = String::new(), in 0..=200;
        /// Whether an instance with a name leaves the group when it is stopped in order, so that others take its
        /// partitions at once; where it does not, they wait for it until its session ends. For groups that grow and
        /// shrink by themselves; every restart in order then moves partitions twice. Not with "consumer" below.
        leave_on_stop: bool = false;
        /// The protocol that the group speaks. "consumer" is that of KIP-848, for brokers from Apache Kafka 4.0 on: the
        /// brokers share the partitions out and say how long a silent member keeps its own, and one member after
        /// another may be restarted with it.
        group_protocol: GroupProtocol = GroupProtocol::Classic;
        /// How partitions are shared among the members of a group that speaks "classic".
        assignment: AssignmentStrategy = AssignmentStrategy::CooperativeSticky;
        /// How long a broker's passing troubles are waited out before the service gives up.
        retry_for: Span = Span::from_mins(2), in Span::from_secs(1)..=Span::from_days(1);
        /// Properties passed to librdkafka as they are, here or in a table [kafka.properties]. A value may
        /// be kept elsewhere: "file:/path" or "env:NAME" is looked up when connecting and never printed.
        /// In the environment, write sasl.password as KVSET__KAFKA__PROPERTIES__SASL_PASSWORD.
        properties: Properties = Properties::default(), like Properties::example();
    }

    /// The Schema Registry that knows the schemas of Avro records in Confluent's wire format.
    pub struct SchemaRegistry {
        /// Its address.
        url: HttpUrl = HttpUrl::default();
        /// User for basic authentication; empty for none.
        username: String = String::new(), in 0..=256;
        /// The user's password. Read anew for every request, so that it may change.
        password: Secret = Secret::default();
        /// Bearer token, in place of user and password. Read anew for every request.
        token: Secret = Secret::default();
        /// Certificates (PEM) of the authorities to trust; where it is left out, those the system trusts.
        ca_file: Option<PathBuf> = None, like Some(PathBuf::from("/etc/kvset/registry-ca.pem"));
        /// Longest time a request may take. One that fails in passing is made again until it is answered.
        timeout: Span = Span::from_secs(5), in Span::from_ms(100)..=Span::from_mins(1);
        /// Most schemas kept in memory.
        max_schemas: u32 = 1000, in 1..=100_000;
        /// Whether the schema of estimates is registered at the start, under `<output.topic>-value`, where
        /// estimates are "confluent-avro". If not, it must have been registered.
        auto_register: bool = false;
    }

    /// Request events that come in.
    pub struct InputSettings {
        /// Topic of request events, keyed by pool.
        topic: TopicName = TopicName::known("kvset.requests");
        /// Folder of event files, such as vLLM's connector writes, that is followed in place of the topic: `kvset
        /// run` then needs no broker, reads nothing of [kafka], and writes to output.file. JSON lines (.jsonl,
        /// .ndjson, .json) and Avro containers (.avro), also rotated and compressed (.1, .zst, .gz). One process
        /// follows a folder.
        folder: Option<PathBuf> = None, like Some(PathBuf::from("/var/log/kvset"));
        /// Where a group without committed offsets begins.
        start: StartFrom = StartFrom::Earliest;
        /// How records are encoded: "avro" is single-object encoding, "confluent-avro" is Avro in Confluent's wire
        /// format, whose schemas come from [schema_registry], "json" is JSON, also behind the id of a JSON Schema;
        /// "auto" tells them apart one by one.
        [results]
        encoding: Encoding = Encoding::Auto;
        /// Largest record that is decoded; larger ones become dead letters.
        [results]
        max_record_bytes: Size = Size::from_mib(16), in Size(1024)..=Size::from_mib(1024);
        /// Most pages a request may have; requests with more become dead letters.
        [results]
        max_pages_per_request: u32 = 1 << 20, in 1..=MAX_REQUEST_PAGES as u32;
        /// How far an event time may be ahead of its record's time stamp in Kafka; zero for any distance.
        /// One event in the far future would close every window of its pool, so that all others come late:
        /// records further ahead become dead letters, which count towards no limit of [dead_letters].
        [results]
        max_event_time_ahead: Span = Span::from_mins(5), in Span::from_ms(0)..=Span::from_days(366);
    }

    /// What goes out.
    pub struct OutputSettings {
        /// Topic of estimates.
        topic: TopicName = TopicName::known("kvset.estimates");
        /// Topic of records that could not be used, as they came, with a code that says why.
        dead_letter_topic: TopicName = TopicName::known("kvset.dead-letters");
        /// Where estimates of input.folder go, in place of the topic: a file of JSON lines, of which one of 64 MiB is
        /// kept beside the present one. Beside it are NAME.newest with the newest estimate of each window of each
        /// pool, NAME.dead-letters, and NAME.positions, which says how far the folder was read: they belong together.
        file: PathBuf = PathBuf::from("kvset-estimates.jsonl");
        /// How estimates are encoded; "confluent-avro" needs [schema_registry].
        encoding: OutputEncoding = OutputEncoding::Json;
        /// How much of an estimate its record holds. "summary": what to act on and to judge it by, and what was
        /// requested by name; at most 2 KB where nothing was. "full": the requirement distribution and the whole curve
        /// too, in some 20 KB.
        detail: EstimateDetail = EstimateDetail::Summary;
        /// How long the topic of estimates keeps records, where `--create-topics` creates it; its cleanup policy is
        /// then "compact,delete". The page draws its histories from what is kept.
        retention: Span = Span::from_days(30), in Span::from_mins(1)..=Span::from_days(3660);
        /// "transactional": estimates and offsets in one transaction, exactly once for committed readers. "idempotent":
        /// for brokers without transactions; at least once, where a repeat has the same key and the same bytes.
        delivery: Delivery = Delivery::Transactional;
    }

    /// How pools are estimated, where [[pools]] says nothing else.
    pub struct EstimateSettings {
        /// The engine whose cache is modelled. All but "paper", "leaf-first", and "vllm" with one group of attention,
        /// are modelled at each capacity on its own. There are then at most 64 capacities, each a cache in memory
        /// (8 bytes per page that it holds, and its nodes), and no required capacities, no [[tiers]] and no sampling.
        /// Capacities above max_tracked_pages are not modelled.
        [results]
        engine: Profile = Profile::Paper;
        /// What the engine is configured with besides its name.
        [results]
        engine_options: EngineOptions<false> = EngineOptions::default();
        /// Whether the tokens a model generates enter its cache too.
        [results]
        outputs: Outputs = Outputs::Cached;
        /// Where requests that overlap are modelled: how long a request may take and still be taken in the order of
        /// arrivals. Logs are written when requests end, so a record waits until its pool has one with an event time
        /// that is later by this, or until events say that they are complete before it (`complete_before`); 5m where
        /// it is left out. A request that took longer is taken as it comes, and
        /// counted. Zero takes records in the order of the log. A pool holds none back before an event of its own
        /// states `duration_ms`.
        [results]
        hold_back: Option<Span> = None, in Span::from_ms(0)..=Span::from_days(1), like Some(Span::from_mins(5));
        /// Most memory for the records of a partition that are held back, some 300 bytes each alongside their own;
        /// 256MiB where it is left out. Beyond, the earliest arrivals are taken early, and counted.
        [results]
        hold_back_bytes: Option<Size> = None, in Size::from_mib(1)..=Size::from_mib(65_536), like Some(Size::from_mib(256));
        /// Tokens per page. Where it is left out, a pool's first event decides.
        [results]
        page_size: Option<PageSize> = None, in 1..=MAX_PAGE_SIZE, like PageSize::new(64);
        /// Bytes of KV state per token (`kvset model` computes it). Where it is left out, capacities are in pages and
        /// tokens only.
        [results]
        kv_bytes_per_token: Option<TokenCost> = None, like TokenCost::new(131_072.0);
        /// Whether a last page that is not full counts.
        [results]
        include_partial_page: bool = false;
        /// Shares of its reusable prefix that a request must find for the capacity to count as enough.
        [results]
        target_ratios: Vec<Ratio> = vec![Ratio::per_mille(990)], in 1..=16;
        /// Shares of the requests that a capacity must be enough for.
        [results]
        coverages: Vec<Ratio> = [500, 900, 950, 990, 999].map(Ratio::per_mille).to_vec(), in 1..=64;
        /// Capacities to report hit rates for: sizes like "10GiB", pages like "5000p". An empty list stands for a grid
        /// of four steps per doubling, up to the first that holds every distinct page (of doublings from 64 to 2^20
        /// pages where each is modelled on its own).
        [results]
        capacities: Vec<CapacitySpec> = Vec::new(), in 0..=1024;
        /// Which requests an estimate covers.
        [results]
        windows: Vec<WindowKind> = vec![
            WindowKind::Tumbling { size_ms: 300_000 },
            WindowKind::Last { requests: 3000 },
            WindowKind::All,
        ], in 1..=16;
        /// The window to act on, one of `windows`: what every record, page, metric and alert recommends is what this
        /// one does. Where it is left out: the largest "last" window that can hold `min_requests`, else "all", else
        /// the longest.
        [results]
        act_on: Option<WindowKind> = None, like Some(WindowKind::Last { requests: 3000 });
        /// Requests that a window must have to recommend a capacity. With fewer its record says `too_few` and
        /// recommends nothing, and convergence and what automation follows pass it by. At 1000, ten requests lie
        /// above a coverage of 0.99.
        [results]
        min_requests: u64 = MIN_REQUESTS, in 1..=MAX_MIN_REQUESTS;
        /// Event time between two estimates of "last" and "all" windows.
        [results]
        publish_every: Span = Span::from_mins(1), in Span::from_ms(1)..=Span::from_days(1);
        /// How far event times may be out of order: a pool's watermark stays this far behind its latest, at least.
        [results]
        allowed_lateness: Span = Span::from_secs(10), in Span::from_ms(0)..=Span::from_days(7);
        /// How far a pool's watermark may stay behind its latest event time: it stays behind as far as the pool's
        /// events came out of order, up to this. Logs that are written when requests end are out of order by as
        /// much as requests take. Records further behind are late.
        [results]
        max_lateness: Span = Span::from_mins(10), in Span::from_ms(0)..=Span::from_days(7);
        /// How long a pool may be without a record, by the event times of the other pools, before it is idle: its
        /// windows then close as theirs do. Zero for never.
        [results]
        idle_timeout: Span = Span::from_mins(2), in Span::from_ms(0)..=Span::from_days(7);
        /// How much longer a window stays open for late records once the watermark passed its end.
        [results]
        grace: Span = Span::from_ms(0), in Span::from_ms(0)..=Span::from_days(7);
        /// History a pool must have before its windows are no longer marked `warm_up`.
        [results]
        min_history: Span = Span::from_ms(0), in Span::from_ms(0)..=Span::from_days(366);
        /// Share of the pages that are followed. Below 1, results are estimates with a stated error.
        [results]
        sample_rate: Ratio = Ratio::ONE, in MIN_SAMPLE_RATE..=Ratio::ONE;
        /// What happens to a request whose page ids are already known under another prefix: it is counted ("report"),
        /// or becomes a dead letter ("reject"). An event may declare that its ids are chained (`ids_chained`). "report"
        /// trusts that until a pool's first violation, "reject" never does, and "trust" takes the ids of all events as
        /// chained. A trusted request costs its runs, not its pages; one in 64 is checked page by page.
        [results]
        chain_policy: ChainPolicy = ChainPolicy::Report;
        /// The questions alongside the curve.
        [results]
        questions: PoolQuestions = PoolQuestions::default();
        /// Most pages a pool remembers, at about 9 bytes each. Results are exact up to this capacity;
        /// what lies beyond is reported as beyond the bound.
        [results]
        max_tracked_pages: u64 = 1 << 26, in MIN_TRACKED_PAGES..=MAX_TRACKED_PAGES;
        /// Most pools a partition may hold. With so many, a new pool takes the place of the one that was silent
        /// longest, or its records become dead letters.
        [results]
        max_pools: u32 = 10_000, in 1..=100_000;
        /// How long a pool may be without a record, by the event times of the others, before it makes room for a new
        /// one where there are `max_pools`. If it comes back, it begins anew, marked `warm_up`. Zero for never.
        [results]
        forget_after: Span = Span::from_days(1), in Span::from_ms(0)..=Span::from_days(366);
    }

    /// When a requirement has converged, and when the recommended units of [[tiers]] may change. Both look at steps:
    /// windows that bring new evidence.
    pub struct Plan {
        /// Event time between two steps. A step also needs `estimate.min_requests` requests in its window, and
        /// enough new ones since the step before: the steps of `converged_over` bring `min_requests` together.
        [results]
        step: Span = Span::from_ms(TrendRules::default().step_ms), in Span::from_ms(0)..=Span::from_days(7);
        /// Steps of one kind of window that a requirement must stay steady over to count as converged.
        [results]
        converged_over: u32 = TrendRules::default().converged_over, in 2..=TrendRules::MAX_STEPS;
        /// How far the largest requirement of these steps may exceed the smallest, as a share of it.
        [results]
        tolerance: Ratio = TrendRules::default().tolerance, in Ratio::ZERO..=Ratio::ONE;
        /// The recommended units rise at once where the requirement exceeds what they are for by more than this share.
        [results]
        min_change: Ratio = TrendRules::default().min_change, in Ratio::ZERO..=Ratio::ONE;
        /// Steps in a row after which any other difference changes the recommended units: 24 steps of an hour see a
        /// whole day before less counts as enough.
        [results]
        hold: u32 = TrendRules::default().hold, in 1..=TrendRules::MAX_STEPS;
    }

    /// `kvset prepare`: raw request logs to request events. Page sizes, partial pages and sample rates are
    /// those of [estimate] and [[pools]] (64 tokens per page where none is set); connections, commits,
    /// queues and the limits on dead letters are those of the other sections.
    pub struct Prepare {
        /// Topic of raw requests, in any partitioning.
        topic: TopicName = TopicName::known("kvset.raw");
        /// Consumer group. Its committed offsets are where prepare goes on.
        group: String = "kvset-prepare".to_owned(), in 1..=200;
        /// Topic of request events; input.topic where it is left out.
        output_topic: Option<TopicName> = None, like TopicName::new("kvset.requests");
        /// What records are: chat and completion requests, token ids, or page ids ready made; "auto" tells
        /// them apart one by one.
        format: RawFormat = RawFormat::Auto;
        /// Which known log the records are of: where the request is, what its answer's usage says, when it came and for
        /// whom. Your own settings override the preset's.
        preset: Option<Preset> = None, like Some(Preset::Kong);
        /// Where in a record the request is, for logs of gateways: the path to an object, or to JSON in a string. The
        /// record itself, or its field body, where it is left out.
        request: Option<FieldPath> = None, like "ai.proxy.payload.request".parse().ok();
        /// Where in a record the response is, whose usage says how many prompt tokens came from the cache; the field
        /// response where it is left out.
        response: Option<FieldPath> = None, like "ai.proxy.payload.response".parse().ok();
        /// Model directories (tokenizer.json, tokenizer_config.json, chat_template.jinja) by the name of the
        /// model whose requests they tokenise; one without a name is for every other model.
        models: Vec<ModelDirectory> = Vec::new(), in 0..=64, like ModelDirectory::examples();
        /// The engine that served the requests: prompts are made of their bodies as it makes them, and engines differ.
        /// That of [estimate] where it is left out and is one of these, else vllm.
        chat_engine: Option<ChatEngine> = None, like Some(ChatEngine::Vllm);
        /// The name of the model that a request is for.
        model: Template = template("{model}");
        /// The pool that a request belongs to: the key of its request event.
        pool: Template = template("{model}");
        /// What page ids are unique within: requests of two namespaces share no page. Where it is empty: the cache
        /// salt, the extra key, the LoRA adapter and the deployment that requests or logs name, as in kvset replay. A
        /// text without fields lets a whole pool share its pages.
        namespace: Template = Template::default();
        /// A secret key of 32 hexadecimal digits ("file:/path" or "env:NAME"), which page ids are then made with:
        /// nobody without it can test whether an id stands for a prompt. Another key gives other ids to the same
        /// prompts.
        hash_key: Secret = Secret::default();
        /// The field that holds the event time, like "{created}"; the record's time stamp where it is
        /// empty. Texts are dates and times, in UTC where they name no zone.
        event_time: Template = Template::default();
        /// The unit of event times that are numbers: "s", "ms", "us", "ns", or "auto": that in which they are
        /// dates of a log. A number that is a date in another unit than the one set here is refused.
        event_time_unit: TimeUnit = TimeUnit::Auto;
        /// Whether to leave out the pages that a pool's sample_rate does not follow, which makes its events
        /// smaller. The service must then have the same sample rates.
        sample: bool = false;
        /// Largest record that is decoded; larger ones become dead letters.
        max_record_bytes: Size = Size::from_mib(16), in Size(1024)..=Size::from_mib(1024);
        /// Most prompt tokens a record may have; records with more become dead letters.
        max_tokens: u32 = 1 << 22, in 1..=1 << 28;
        /// Largest request event that is written; records of larger ones become dead letters. A broker's
        /// own limit is max.message.bytes of the topic.
        max_event_bytes: Size = Size(960 << 10), in Size(1024)..=Size::from_mib(64);
        /// Memory for the token ids of texts met before, all models together: a conversation that grows is
        /// not tokenised from its start again.
        cache: Size = Size::from_mib(256), in Size(0)..=Size::from_mib(65_536);
        /// Threads that tokenise; 0 for one per core. They share the records of all partitions.
        threads: u32 = 0, in 0..=1024;
        /// What dead letters hold of their record: "raw" all of it, prompts too; "redacted" its place, its
        /// size and its hash; "off" writes none.
        dead_letters: LetterContent = LetterContent::Redacted;
        /// Topic of records that could not be used.
        dead_letter_topic: TopicName = TopicName::known("kvset.raw-dead-letters");
    }

    /// When records that cannot be used are too many: of a pool, to go unsaid; of a partition, to go on with it.
    pub struct DeadLetters {
        /// Most in a row. Of a pool more are a problem that is shown; where no pool of a partition can be read, the
        /// partition is held.
        max_consecutive: u32 = 1000, in 0..=u32::MAX;
        /// Largest share of a pool's last `share_over` records before that is a problem that is shown; `kvset prepare`
        /// holds a partition.
        max_share: Ratio = Ratio::per_mille(100), in Ratio::ZERO..=Ratio::ONE;
        /// How many records the share is taken over.
        share_over: u32 = 10_000, in 1..=1 << 20;
        /// Largest dead letter: a larger one is sent with the size and hash of the record's value in place of the
        /// value. A broker's own limit is max.message.bytes of the topic.
        max_bytes: Size = Size(960 << 10), in Size(8192)..=Size::from_mib(1024);
    }

    /// Snapshots: what makes a restart quick. The log alone is what makes it right.
    pub struct StateSettings {
        /// Directory of the snapshots.
        directory: PathBuf = PathBuf::from("kvset-state");
        /// Object store that all instances share, so that a partition that moves to another host finds
        /// its snapshot there: "s3://bucket/prefix", "gs://...", "az://..." or "file:///mnt/shared";
        /// empty for none. Credentials are taken from the environment (AWS_..., GOOGLE_..., AZURE_...).
        shared: String = String::new(), in 0..=2048;
        /// Time between two snapshots of a partition.
        checkpoint_every: Span = Span::from_secs(30), in Span::from_secs(1)..=Span::from_days(1);
        /// Snapshots kept for each partition.
        generations: u32 = 3, in 1..=100;
        /// Up to how many bytes a partition's state is written whole for every snapshot. Of a larger one a snapshot
        /// writes what is new, into a file of parts that later snapshots refer to.
        whole_up_to: Size = Size::from_mib(16), in Size(0)..=Size::from_mib(1 << 20);
        /// How long the state of a partition that moved to another member stays in memory, to go on at once
        /// should it come back untouched; zero to drop it.
        keep_revoked: Span = Span::from_mins(2), in Span::from_ms(0)..=Span::from_days(1);
        /// Most memory for such states; the oldest ones go first.
        keep_revoked_bytes: Size = Size::from_mib(1024), in Size(0)..=Size::from_mib(1 << 20);
        /// How far event time moves past the last record of a pool before the pool is put aside: its state is kept in
        /// as few bytes as a snapshot takes, until its next record; zero for never. For many pools of which few are in
        /// use at a time. Pools with questions alongside their estimates are not put aside.
        idle_after: Span = Span::from_ms(0), in Span::from_ms(0)..=Span::from_days(365);
        /// What happens when the log no longer holds what the state needs: "fail" stops and says so,
        /// "rebuild" starts from what is left and marks its output `warm_up`.
        lost_history: LostHistory = LostHistory::Refuse;
    }

    /// When estimates and offsets are committed: whichever comes first.
    pub struct Commit {
        /// Time between two commits.
        every: Span = Span::from_secs(1), in Span::from_ms(10)..=Span::from_mins(10);
        /// Records between two commits.
        max_records: u32 = 100_000, in 1..=10_000_000;
    }

    /// How the service stops.
    pub struct ShutdownSettings {
        /// Longest time to commit, snapshot and leave the group after Ctrl-C or SIGTERM.
        deadline: Span = Span::from_secs(25), in Span::from_secs(1)..=Span::from_mins(60);
    }

    /// Threads and the queues between them.
    pub struct WorkersSettings {
        /// Threads that estimate; 0 for one per core. A partition is on one at a time; those without records read
        /// JSON ahead for the others.
        threads: u32 = 0, in 0..=1024;
        /// Most records that wait for a partition; beyond, nothing more is taken in.
        queue_records: u32 = 10_000, in 1..=10_000_000;
        /// Most bytes that wait for a partition; beyond, nothing more is taken in. Where workers without records read
        /// JSON ahead for others, as much again is held at most.
        queue_bytes: Size = Size::from_mib(64), in Size::from_mib(1)..=Size::from_mib(65_536);
    }

    /// The server for /metrics, /livez and /readyz.
    pub struct Http {
        /// Address to listen on; empty for no server. Anyone who can connect can read.
        listen: Listen = Listen(Some(SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9464)));
        /// Names that requests may have for the server, such as that of a proxy on this machine that passes its own
        /// name on. Addresses and "localhost" are always allowed. On loopback all other names are refused, so that no
        /// web page reads the server through a browser. On other addresses any name is allowed where none is listed.
        allowed_hosts: Vec<HostName> = Vec::new(), in 0..=64, like vec![HostName::example()];
        /// Not live once the poll loop has not turned for this long.
        live_within: Span = Span::from_secs(60), in Span::from_secs(1)..=Span::from_mins(60);
        /// Not ready while more records than this are waiting in the log.
        ready_max_lag: u64 = 100_000, in 0..=1_000_000_000_000;
        /// Most pools with metrics of their own; further ones share the label "other".
        max_pool_labels: u32 = 100, in 0..=10_000;
    }

    /// What is logged, on standard error.
    pub struct LogSettings {
        /// A level, or directives like "info,kvset::kafka=debug".
        level: LogFilter = LogFilter::default();
        /// For people or for machines.
        format: LogFormat = LogFormat::Text;
    }

    /// Memory that can be bought, from the fastest tier to the slowest; every estimate then says how many
    /// units of each to have, the first with room for what requests in flight hold. Repeat the block for
    /// each tier, up to 8.
    pub struct TierSettings {
        /// What it is called, in estimates and metrics.
        [results]
        name: String = String::new(), in 1..=40, like "hbm".to_owned();
        /// Share of the requests whose required capacity this tier and those above are to hold.
        [results]
        coverage: Ratio = Ratio::per_mille(990), in Ratio::ZERO..=Ratio::ONE;
        /// "exclusive": it holds what the tiers above evicted, so capacities add up. "inclusive": it holds
        /// what they hold, too, so the larger capacity counts.
        [results]
        inclusion: Inclusion = Inclusion::Exclusive;
        /// What its capacity is bought in.
        [results]
        unit: Option<CapacitySpec> = None, like "80GiB".parse().ok();
        /// Price of a unit, in whatever currency.
        [results]
        unit_price: Option<Price> = None, like Price::new(25_000.0);
    }

    /// Settings of single pools, by exact name; what is left out is taken from [estimate]. Repeat the
    /// block for each pool.
    pub struct PoolSettings {
        /// The pool, as records are keyed.
        [results]
        name: String = String::new(), in 1..=256, like "llama-70b/eu-1".to_owned();
        /// Tokens per page.
        [results]
        page_size: Option<PageSize> = None, in 1..=MAX_PAGE_SIZE, like PageSize::new(16);
        /// Bytes of KV state per token.
        [results]
        kv_bytes_per_token: Option<TokenCost> = None, like TokenCost::new(327_680.0);
        /// What the engine is configured with for this pool.
        [results]
        engine_options: EngineOptions<true> = EngineOptions::default();
        /// How long a request may take and still be taken in the order of arrivals.
        [results]
        hold_back: Option<Span> = None, in Span::from_ms(0)..=Span::from_days(1), like Some(Span::from_mins(10));
        /// Capacities to report hit rates for.
        [results]
        capacities: Option<Vec<CapacitySpec>> = None, in 0..=1024, like Some(example_capacities());
        /// The questions alongside the curve.
        [results]
        questions: PoolQuestions = PoolQuestions::default();
        /// Share of the pages that are followed.
        [results]
        sample_rate: Option<Ratio> = None, in MIN_SAMPLE_RATE..=Ratio::ONE, like Some(Ratio::per_mille(100));
        /// Most pages the pool remembers.
        [results]
        max_tracked_pages: Option<u64> = None, in MIN_TRACKED_PAGES..=MAX_TRACKED_PAGES, like Some(1 << 20);
        /// Names of the [[tiers]] to plan it on, from the fastest; an empty list for no plan.
        [results]
        tiers: Option<Vec<String>> = None, in 0..=8, like Some(vec!["hbm".to_owned()]);
    }
}

/// A template that is known to be one.
fn template(text: &str) -> Template {
    text.parse().unwrap_or_default()
}

/// What the default configuration shows as a pool's capacities.
fn example_capacities() -> Vec<CapacitySpec> {
    ["1TiB", "5000p"].into_iter().filter_map(|text| text.parse().ok()).collect()
}
