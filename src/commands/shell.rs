//! Completion scripts and manual pages, made from the declaration of the arguments.

use crate::cli::{Cli, Failure};
use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::Path;

/// Prints the completion script for a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kvset", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Writes a manual page for each command into a directory, which is made if it is not there.
pub fn manual(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write manual pages to `{}`", directory.display()))?;
    Ok(())
}
