//! `kvset config`: print, check and show the configuration.

use crate::cli::Failure;
use crate::cli::args::{ConfigCommand, found};
use crate::commands::connect::{self, CheckVerdict};
use kvset_kafka::kafka::config::check_properties;
use kvset_service::plan::features;
use kvset_settings::{Settings, default_toml, reference_markdown};
use std::io::Write as _;
use std::path::Path;

/// Runs `kvset config`.
pub fn run(command: &ConfigCommand) -> Result<(), Failure> {
    let text = match command {
        ConfigCommand::Default => default_toml(),
        ConfigCommand::Reference => reference_markdown(),
        ConfigCommand::Check { file, config, connect } => {
            return check(config.as_deref().or(file.as_deref()), *connect);
        }
        ConfigCommand::Show { config } => {
            let settings = Settings::load(config.file())?;
            format!("# fingerprint {}\n{}", settings.fingerprint_hex(), settings.to_toml())
        }
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Checks a configuration, and with `connect` whether what it names is there.
fn check(file: Option<&Path>, connect: bool) -> Result<(), Failure> {
    let file = found(file);
    let settings = Settings::load(file)?;
    let name =
        file.map_or_else(|| "the defaults and the environment".to_owned(), |f| f.display().to_string());
    let name_file = |error| Failure::Usage(anyhow::Error::new(error).context(name.clone()));
    features::check(&settings).map_err(name_file)?;
    check_properties(settings.kafka.properties.shown()).map_err(|error| Failure::Usage(error.into()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{name}: valid, fingerprint {}", settings.fingerprint_hex())?;
    if let Some(preset) = settings.prepare.preset {
        writeln!(out, "prepare.preset is {preset}, whose shape is that of {}", preset.source())?;
    }
    for exposure in settings.exposures() {
        writeln!(out, "note: {exposure}")?;
    }
    if !connect {
        return Ok(());
    }
    let mut written = Ok(());
    let findings = connect::check(&settings, &mut |finding| {
        if written.is_ok() {
            written = writeln!(out, "{finding}");
        }
    });
    written?;
    let bad = findings.iter().filter(|finding| finding.verdict == CheckVerdict::Bad).count();
    match bad {
        0 => Ok(()),
        _ => Err(anyhow::anyhow!("{bad} of {} checks failed, as listed", findings.len()).into()),
    }
}
