//! The real program as a process: started, asked to stop, killed, listened to.

use super::Broker;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running `kvset run`, killed when dropped.
pub struct Instance {
    child: Child,
    log: PathBuf,
}

impl Instance {
    /// Starts it; what it says goes to `log`.
    pub fn start(config: &Path, log: PathBuf) -> Self {
        Self::start_command(&["run"], config, log)
    }

    /// The same with another command than `run`.
    pub fn start_command(words: &[&str], config: &Path, log: PathBuf) -> Self {
        Self::start_with(words, config, log, &[])
    }

    /// The same with this added to the environment.
    pub fn start_with(words: &[&str], config: &Path, log: PathBuf, environment: &[(&str, &str)]) -> Self {
        let said = File::create(&log).expect("a disk");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvset"));
        command.args(words).arg("--config").arg(config).envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Self { child: command.spawn().expect("the program starts"), log }
    }

    /// What it said so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let sent = kill.arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success(), "cannot signal: {}", self.said());
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our child")
    }

    /// How it ended, waited for.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(begin.elapsed() < limit, "still running after {limit:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it has said something.
    pub fn wait_for(&mut self, words: &str, limit: Duration) {
        let begin = Instant::now();
        while !self.said().contains(words) {
            assert!(self.ended().is_none(), "ended before it said `{words}`: {}", self.said());
            assert!(begin.elapsed() < limit, "no `{words}` after {limit:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Writes the configuration of the instance `name` of a run, with a state directory of its own; `extra`
/// holds further lines of `[kafka]` and, after them, whole sections. Every other instance keeps its states in parts.
pub fn configure(broker: &Broker, folder: &Path, run: &str, name: &str, extra: &str) -> PathBuf {
    let path = folder.join(format!("{name}.toml"));
    let (brokers, topic) = (&broker.connection.brokers, |name: &str| broker.topic(name));
    let is_even = name.bytes().next_back().is_some_and(|last| last % 2 == 0);
    let whole_up_to = if is_even { "0B" } else { "16MiB" };
    let text = format!(
        "[input]\ntopic = \"{}\"\n\
         [output]\ntopic = \"{}\"\ndead_letter_topic = \"{}\"\ndelivery = \"{}\"\n\
         [estimate]\nwindows = [\"tumbling:1m\", \"last:100\", \"all\"]\n\
         [state]\ndirectory = \"{}\"\ncheckpoint_every = \"1s\"\nwhole_up_to = \"{whole_up_to}\"\n\
         [http]\nlisten = \"\"\n\
         [kafka]\nbrokers = \"{brokers}\"\ngroup = \"{}\"\n{extra}",
        topic("requests"),
        topic(&format!("{run}.estimates")),
        topic(&format!("{run}.dead-letters")),
        if broker.is_real() { "transactional" } else { "idempotent" },
        folder.join(format!("state-{name}")).display(),
        topic(run),
    );
    std::fs::write(&path, text).expect("a disk");
    path
}
