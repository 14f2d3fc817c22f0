//! `kvset config`: print, check and show the configuration.

use crate::cli::Failure;
use crate::cli::args::{ConfigArgs, ConfigCommand};
use kvset_service::features;
use kvset_settings::{Settings, default_toml, reference_markdown};
use std::io::Write as _;

/// Runs `kvset config`.
pub fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let text = match &args.command {
        ConfigCommand::Default => default_toml(),
        ConfigCommand::Reference => reference_markdown(),
        ConfigCommand::Check { file } => {
            let settings = Settings::load(Some(file))?;
            let name_file =
                |error| Failure::Usage(anyhow::Error::new(error).context(file.display().to_string()));
            features::check(&settings).map_err(name_file)?;
            format!("{}: valid, fingerprint {}\n", file.display(), settings.fingerprint_hex())
        }
        ConfigCommand::Show { config } => {
            let settings = Settings::load(config.file())?;
            format!("# fingerprint {}\n{}", settings.fingerprint_hex(), settings.to_toml())
        }
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}
