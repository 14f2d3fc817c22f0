//! The real program as a command, without what the environment would tell it.

use assert_cmd::Command;

/// Has a replay leave out how certain its figures are, which takes ten more replays: for tests that look at none of it.
#[allow(dead_code, reason = "each test program uses its part of what they share")]
pub const WITHOUT_CERTAINTY: [&str; 2] = ["--certainty", "off"];

/// The program with these arguments and no setting from the environment.
pub fn kvset(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")) {
        command.env_remove(name);
    }
    command.args(args);
    command
}
