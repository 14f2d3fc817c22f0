//! A reader's terminal: one directory, one broker, the commands of the pages one after another.

use super::blocks::{Block, Manner, Needs};
use super::kafka_support::wait_for;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest time a block may take; the first use of a producer fetches and builds libraries.
const BLOCK_LIMIT: Duration = Duration::from_secs(600);
/// How long a block is repeated for what is expected of it.
const REPEAT_LIMIT: Duration = Duration::from_secs(120);
/// How long what runs in the background may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The directory the commands are typed in.
pub struct Session {
    directory: PathBuf,
    brokers: Option<String>,
    http: String,
    background: Vec<Background>,
    runs: usize,
}

/// A command left running.
struct Background {
    place: String,
    child: Child,
    said: Said,
}

/// Where a command's output goes.
struct Said {
    out: PathBuf,
    err: PathBuf,
}

impl Said {
    fn text(path: &Path) -> String {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // After a failure it is still running; after an orderly stop there is nothing to kill.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Session {
    /// A fresh directory with what readers have: the repository's folders, a model's configuration and a
    /// trace. It lies below the repository, so that cargo finds its manifest, and has the reader's name.
    pub fn begin(reader: &str, brokers: Option<String>) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs").join(reader);
        if directory.exists() {
            std::fs::remove_dir_all(&directory).expect("the last run's directory can go");
        }
        std::fs::create_dir_all(directory.join("bin")).expect("a directory");
        for folder in ["docs", "examples", "schemas", "deploy", "scripts", "python"] {
            symlink(root.join(folder), directory.join(folder)).expect("a link");
        }
        symlink(env!("CARGO_BIN_EXE_kvset"), directory.join("bin/kvset")).expect("a link");
        for (model, name) in [
            ("llama-3.1-8b", "config"),
            ("gpt-oss-120b", "gpt-oss-120b"),
            ("qwen3-next-80b-a3b", "qwen3-next"),
        ] {
            let (from, to) = (format!("tests/fixtures/model/{model}.json"), format!("{name}.json"));
            std::fs::copy(root.join(from), directory.join(to)).expect("a model's configuration");
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let http = free.expect("a free port").to_string();
        let mut session = Self { directory, brokers, http, background: Vec::new(), runs: 0 };
        let trace = "kvset generate --requests 2000 --start 32400000 --output requests.jsonl.zst";
        session.run("the trace", trace, &Needs::default());
        session
    }

    /// Runs a block as its comment says.
    pub fn take(&mut self, block: &Block) {
        let Manner::Run(needs) = &block.manner else { return };
        if needs.kafka && self.brokers.is_none() {
            println!(
                "skipped: {} needs a broker; try scripts/kafka.sh run -- cargo test --test docs",
                block.place
            );
            return;
        }
        println!("run {}", block.place);
        let output = self.run(&block.place, &block.commands, needs);
        if let Some(shown) = &block.shown {
            assert!(output.starts_with(shown.trim_end()), "{}: printed\n{output}", block.place);
        }
        for running in &mut self.background {
            let ended = running.child.try_wait().expect("our child");
            let said = Said::text(&running.said.err);
            assert!(
                ended.is_none(),
                "{} ended with {ended:?} during {}:\n{said}",
                running.place,
                block.place
            );
        }
    }

    /// Stops what was left running, which must end in order. One that has only just begun is given the time to listen.
    pub fn end_page(&mut self) {
        for mut running in self.background.drain(..) {
            let child = &mut running.child;
            wait_for(|| listens_for_term(child) || child.try_wait().expect("our child").is_some());
            signal(&running.child, "TERM", false);
            let status = wait(&mut running.child, STOP_LIMIT);
            let said = Said::text(&running.said.err);
            assert!(
                status.is_some_and(|status| status.success()),
                "{} ended with {status:?} after SIGTERM:\n{said}",
                running.place
            );
        }
    }

    /// Runs commands and gives what they printed.
    fn run(&mut self, place: &str, commands: &str, needs: &Needs) -> String {
        if needs.background {
            let (child, said) = self.spawn(&format!("exec {commands}"));
            self.background.push(Background { place: place.to_owned(), child, said });
            return String::new();
        }
        let begin = Instant::now();
        loop {
            let (mut child, said) = self.spawn(commands);
            let status = wait(&mut child, BLOCK_LIMIT);
            if status.is_none() {
                signal(&child, "KILL", true);
            }
            let (out, err) = (Said::text(&said.out), Said::text(&said.err));
            let said = format!("-- standard output:\n{out}\n-- standard error:\n{err}");
            let succeeded = status.is_some_and(|status| status.success());
            match &needs.until {
                None => assert!(succeeded, "{place}: {status:?} of\n{commands}\n{said}{}", hint(commands)),
                // What it waits for may not even be there yet.
                Some(text) if !succeeded || !out.contains(text) => {
                    assert!(begin.elapsed() < REPEAT_LIMIT, "{place}: {status:?}, no {text}\n{said}");
                    std::thread::sleep(Duration::from_millis(200));
                    continue;
                }
                Some(_) => {}
            }
            return out;
        }
    }

    /// Starts commands in a shell that stops at the first failure.
    fn spawn(&mut self, commands: &str) -> (Child, Said) {
        self.runs += 1;
        let file = |kind: &str| self.directory.join(format!("{}.{kind}", self.runs));
        let said = Said { out: file("out"), err: file("err") };
        let brokers = self.brokers.as_deref().unwrap_or("localhost:9092");
        let commands = commands.replace("localhost:9092", brokers).replace("127.0.0.1:9464", &self.http);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")) {
            bash.env_remove(name);
        }
        bash.args(["-euo", "pipefail", "-c", &commands])
            .current_dir(&self.directory)
            .env("PATH", format!("{}:{path}", self.directory.join("bin").display()))
            .env("KVSET__KAFKA__BROKERS", brokers)
            .env("KVSET__HTTP__LISTEN", &self.http)
            .stdin(Stdio::null())
            .stdout(File::create(&said.out).expect("a disk"))
            .stderr(File::create(&said.err).expect("a disk"))
            .process_group(0);
        (bash.spawn().expect("bash starts"), said)
    }
}

/// Whether SIGTERM is taken by the child and does not just end it; where the system does not tell, it is believed.
fn listens_for_term(child: &Child) -> bool {
    const SIGTERM: u32 = 15;
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", child.id())) else { return true };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("its signals");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask of signals");
    caught >> (SIGTERM - 1) & 1 == 1
}

/// How it ended; `None` where it did not within the limit.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait().expect("our child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Sends a signal to the child, or to everything it started.
fn signal(child: &Child, name: &str, group: bool) {
    let target = format!("{}{}", if group { "-" } else { "" }, child.id());
    let sent = Command::new("kill").args([&format!("-{name}"), "--", &target]).status();
    assert!(sent.expect("kill runs").success(), "cannot signal {target}");
}

/// What a machine must have for these commands, where that is more than the program.
fn hint(commands: &str) -> &'static str {
    if commands.contains("pip install") {
        "\nneeds python3 with venv, and a package index in reach"
    } else if commands.contains("go run") {
        "\nneeds Go 1.26 or later, and a module proxy in reach"
    } else {
        ""
    }
}
