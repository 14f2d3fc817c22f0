//! `kvset generate`: a synthetic workload as a trace file, or as request events on a topic.

use crate::cli::Failure;
use crate::cli::args::GenerateArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::produce::producing::{ProduceTarget, produce_generated};
use crate::commands::produce::{produced_line, stopped_early, target};
use crate::present::terminal::TerminalProgress;
use crate::present::words::integer;
use crate::telemetry::logging;
use anyhow::Context as _;
use kvset_formats::trace::write_row;
use kvset_formats::workload::Generator;
use kvset_settings::Settings;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Compression level of `.zst` traces: fast, and within a few percent of the slow ones on page ids.
const ZSTD_LEVEL: i32 = 3;

/// Requests between two looks at the stop flag and two steps of the progress bar.
const STEP: u64 = 64;

/// Runs `kvset generate`.
pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let generator = Generator::new(args.workload()).map_err(|error| Failure::Usage(error.into()))?;
    match &args.topic {
        Some(topic) => to_topic(args, generator, topic.as_str()),
        None => to_file(args, generator),
    }
}

/// Produces the requests, at the asked pace.
fn to_topic(args: &GenerateArgs, generator: Generator, topic: &str) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let target = ProduceTarget { requests: Some(args.requests), ..target(topic, &args.sending, &settings)? };
    let end_ms = args.end_ms();
    let requests = generator.take_while(|request| request.event_time.0 < end_ms);
    let mut bar = TerminalProgress::requests(args.duration.is_none().then_some(args.requests));
    let produced = produce_generated(requests, &target, &shutdown, &mut |sent| bar.advance_to(sent))?;
    bar.conclude(&produced_line(&produced, topic));
    stopped_early(&shutdown, &produced)
}

/// Writes the requests as a trace.
fn to_file(args: &GenerateArgs, generator: Generator) -> Result<(), Failure> {
    let shutdown = shutdown_by_signals()?;
    shutdown.begin();
    let mut progress = TerminalProgress::requests(args.duration.is_none().then_some(args.requests));
    let context = || format!("cannot write trace `{}`", args.output.display());
    let mut out = Writer::create(&args.output).with_context(context)?;
    let end_ms = args.end_ms();
    let mut written = 0;
    for request in generator {
        if written >= args.requests || request.event_time.0 >= end_ms {
            break;
        }
        if written % STEP == 0 {
            progress.advance_to(written);
            if shutdown.is_requested() {
                out.finish().with_context(context)?;
                let reached = integer(written);
                return Err(anyhow::anyhow!("stopped by a signal after {reached} whole requests").into());
            }
        }
        out.write(|mut writer| write_row(&mut writer, &request.as_row())).with_context(context)?;
        written += 1;
    }
    out.finish().with_context(context)?;
    progress.finish(&format!("{} requests", integer(written)));
    Ok(())
}

/// Where the rows go.
enum Writer {
    Plain(BufWriter<Box<dyn Write>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
}

impl Writer {
    /// Opens the file; `-` is standard output, and the name's ending chooses the compression.
    fn create(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Plain(BufWriter::new(Box::new(io::stdout()))));
        }
        let file = BufWriter::new(File::create(path)?);
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("zst") => Self::Zstd(zstd::Encoder::new(file, ZSTD_LEVEL)?),
            Some("gz") => Self::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
            _ => Self::Plain(BufWriter::new(Box::new(file))),
        })
    }

    /// Writes through the compression.
    fn write(&mut self, row: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Plain(writer) => row(writer),
            Self::Zstd(writer) => row(writer),
            Self::Gzip(writer) => row(writer),
        }
    }

    /// Ends the compressed stream and hands everything to the system.
    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut writer) => writer.flush(),
            Self::Zstd(writer) => writer.finish().and_then(|mut file| file.flush()),
            Self::Gzip(writer) => writer.finish().and_then(|mut file| file.flush()),
        }
    }
}
