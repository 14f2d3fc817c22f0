//! A Python with the libraries of the examples, and programs that must succeed.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Runs a program on this input and gives what it prints; it must succeed.
pub fn output_of(command: &mut Command, input: &str, needs: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; {needs}"));
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads its input");
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{needs}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A Python with the examples' libraries, which is made once.
pub fn python() -> PathBuf {
    python_with(&["confluent-kafka", "xxhash"])
}

/// A Python with these packages of the index, which is made once in a test program.
pub fn python_with(packages: &[&str]) -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let needs =
        format!("needs python3 with venv, and a package index to install {} from", packages.join(" and "));
    let made = PYTHON.get_or_init(|| {
        // Each test program has its own: two may be made at a time.
        let name = concat!("examples-venv-", env!("CARGO_CRATE_NAME"));
        let venv = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        output_of(Command::new("python3").args(["-m", "venv"]).arg(&venv), "", &needs);
        // Not `bin/pip`, which names its interpreter by the place where it was made: a checkout may be moved.
        let mut pip = Command::new(venv.join("bin/python"));
        output_of(pip.args(["-m", "pip", "install", "--quiet"]).args(packages), "", &needs);
        venv.join("bin/python")
    });
    made.clone()
}
