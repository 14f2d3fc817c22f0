//! `kvset produce`: a trace to a topic.

pub mod producing;

use crate::cli::Failure;
use crate::cli::args::{ProduceArgs, SendArgs};
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::produce::producing::{PoolName, ProduceOptions, ProduceTarget, Produced, produce};
use crate::commands::serving::plan_failure;
use crate::present::terminal::TerminalProgress;
use crate::present::words::{bytes_up, integer};
use crate::telemetry::logging;
use kvset_formats::codec::{RequestEncoding, schema};
use kvset_kafka::kafka::topics::{FIRST_ANSWER, TopicPlan, Topics};
use kvset_service::plan::schemas::{self, RegistryError};
use kvset_service::plan::{PlanError, connection};
use kvset_service::shutdown::Shutdown;
use kvset_settings::{OutputEncoding, Settings};

/// Runs `kvset produce`.
pub fn run(args: &ProduceArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let topic = args.topic.as_ref().unwrap_or(&settings.input.topic).as_str();
    let options = ProduceOptions {
        traces: args.trace.traces.clone(),
        read: args.trace.read_options(),
        skip_bad_rows: args.trace.skip_bad_rows,
        target: ProduceTarget { requests: args.requests, ..target(topic, &args.sending, &settings)? },
    };
    let mut bar = TerminalProgress::requests(args.requests);
    let produced = produce(&options, &shutdown, &mut |sent, _| bar.advance_to(sent))?;
    produced.notes.iter().for_each(|line| bar.note(line));
    bar.conclude(&produced_line(&produced, topic));
    if produced.bad_rows > 0 {
        eprintln!("{} rows could not be used and were passed over", integer(produced.bad_rows));
    }
    stopped_early(&shutdown, &produced)
}

/// Where requests go: the topic is there, or is made if that was requested.
pub(super) fn target(topic: &str, args: &SendArgs, settings: &Settings) -> Result<ProduceTarget, Failure> {
    let connection = connection(&settings.kafka).map_err(|error| Failure::Usage(error.into()))?;
    let retry_for = settings.kafka.retry_for.as_duration();
    let topics = Topics::new(&connection, retry_for.min(FIRST_ANSWER)).map_err(anyhow::Error::from)?;
    if let Some(partitions) = args.create_topics {
        let plan = TopicPlan { name: topic.to_owned(), partitions, compacted_for: None };
        topics.create(&[plan]).map_err(anyhow::Error::from)?;
    }
    topics.require(topic, "--topic", "--create-topics").map_err(anyhow::Error::from)?;
    Ok(ProduceTarget {
        connection,
        topic: topic.to_owned(),
        pool: PoolName::new(&args.pool),
        encoding: encoding(topic, args.encoding, settings)?,
        speed: args.speed,
        requests: None,
        retry_for,
    })
}

/// What was produced, in a line.
pub(super) fn produced_line(produced: &Produced, topic: &str) -> String {
    format!("{} requests ({}) on topic {topic}", integer(produced.requests), bytes_up(produced.bytes))
}

/// Being stopped before the end is a failure, though everything sent was delivered.
pub(super) fn stopped_early(shutdown: &Shutdown, produced: &Produced) -> Result<(), Failure> {
    match shutdown.is_requested() {
        true => Err(anyhow::anyhow!("stopped by a signal after {} requests", produced.requests).into()),
        false => Ok(()),
    }
}

/// How records are encoded; the registry says under which id, where the encoding has one.
fn encoding(topic: &str, encoding: OutputEncoding, settings: &Settings) -> Result<RequestEncoding, Failure> {
    let refused = |error: RegistryError| plan_failure(PlanError::from(error));
    match encoding {
        OutputEncoding::Avro => Ok(RequestEncoding::Avro),
        OutputEncoding::Json => Ok(RequestEncoding::Json),
        OutputEncoding::ConfluentAvro => {
            let registry = &settings.schema_registry;
            let Some(opened) = schemas::open(registry).map_err(|error| refused(error.into()))? else {
                return Err(Failure::usage(
                    "--encoding confluent-avro needs a registry: set schema_registry.url",
                ));
            };
            let retry_for = settings.kafka.retry_for.as_duration().min(FIRST_ANSWER);
            let id =
                schemas::id_of_values(registry, opened.client(), topic, schema::REQUEST_EVENT, retry_for);
            Ok(RequestEncoding::ConfluentAvro(id.map_err(refused)?))
        }
    }
}
