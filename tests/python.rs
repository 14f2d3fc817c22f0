//! The Python package: its own tests, with the program that was built, pandas and matplotlib.

// Each test program uses its part of what they share.
#[allow(dead_code)]
mod python_support;

use python_support::{output_of, python_with};
use std::path::Path;
use std::process::Command;

#[test]
fn the_python_package_passes_its_tests() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut command = Command::new(python_with(&["pandas", "matplotlib", "confluent-kafka"]));
    command.args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "--start-directory"]);
    command.arg(package.join("tests")).env("PYTHONPATH", package.join("src"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("KVSET_PROGRAM", env!("CARGO_BIN_EXE_kvset"));
    output_of(&mut command, "", "python/tests fails");
}
