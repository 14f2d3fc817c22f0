//! No secret of any setting reaches standard output, standard error or the log, at any level.

use assert_cmd::Command;

const MARKER: &str = "hunter2-marker";

/// Properties of librdkafka that hold secrets, and what else they need to get as far as connecting.
const PROPERTIES: [(&str, &str); 9] = [
    ("sasl.password", "\"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanisms\" = \"PLAIN\""),
    ("ssl.key.password", "\"security.protocol\" = \"ssl\""),
    ("ssl.key.pem", "\"security.protocol\" = \"ssl\""),
    ("ssl.keystore.password", "\"security.protocol\" = \"ssl\""),
    ("sasl.oauthbearer.config", "\"sasl.mechanisms\" = \"OAUTHBEARER\""),
    (
        "sasl.oauthbearer.client.secret",
        "\"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanisms\" = \"OAUTHBEARER\"\n\
         \"sasl.oauthbearer.method\" = \"oidc\"\n\"sasl.oauthbearer.client.id\" = \"kvset\"\n\
         \"sasl.oauthbearer.token.endpoint.url\" = \"http://127.0.0.1:1/token\"",
    ),
    ("sasl.oauthbearer.client.credentials.client.secret", ""),
    ("sasl.oauthbearer.assertion.private.key.passphrase", ""),
    ("no.such.secret", ""),
];

/// Runs a command on a configuration; everything it says, and whether it went well.
fn said(configuration: &str, args: &[&str]) -> (String, bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kvset.toml");
    std::fs::write(&path, configuration).expect("written");
    let mut command = Command::cargo_bin("kvset").expect("the program");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")) {
        command.env_remove(name);
    }
    let path = path.to_str().expect("UTF-8");
    let args = args.iter().map(|arg| if *arg == "CONFIG" { path } else { arg });
    let output = command.args(args).write_stdin("").output().expect("run");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

fn hides(configuration: &str) -> String {
    let mut all = String::new();
    for args in [
        ["config", "show", "--config", "CONFIG"].as_slice(),
        &["config", "check", "CONFIG"],
        &["produce", "--config", "CONFIG", "--encoding", "confluent-avro", "-"],
        &["run", "--config", "CONFIG"],
    ] {
        let (text, went_well) = said(configuration, args);
        let lines: Vec<_> = text.lines().filter(|line| line.contains(MARKER)).collect();
        assert!(lines.is_empty(), "{args:?} of\n{configuration}\nshows {lines:?}");
        // A build without TLS refuses what asks for it, and so may not talk of the rest.
        let unbuilt = !cfg!(feature = "tls") && args[1] != "show" && text.contains("--features tls`");
        // A name that the client does not know is refused, too.
        let is_refused = unbuilt || (args[1] != "show" && text.contains("knows no property"));
        assert_eq!(went_well, args[0] == "config" && !is_refused, "{args:?} of\n{configuration}\n{text}");
        all.push_str(&text);
    }
    all
}

#[test]
fn secrets_of_the_kafka_connection_are_shown_nowhere() {
    let brokers = std::env::var("KVSET_TEST_SASL").unwrap_or_else(|_| "127.0.0.1:1".to_owned());
    for (name, more) in PROPERTIES {
        let said = hides(&format!(
            "[log]\nlevel = \"trace\"\n[http]\nlisten = \"\"\n[kafka]\nbrokers = \"{brokers}\"\n\
             retry_for = \"1s\"\n[kafka.properties]\n\"sasl.username\" = \"kvset\"\n{more}\n\
             \"{name}\" = \"{MARKER}\"\n\"debug\" = \"all\"\n"
        ));
        assert!(said.contains(name), "the property is spoken of by its name:\n{said}");
        if name == "sasl.password" {
            // So the log was really written at its most talkative.
            assert!(said.contains("DEBUG kvset::librdkafka"), "{said}");
        }
    }
}

#[test]
fn secrets_of_the_schema_registry_are_shown_nowhere() {
    for login in [format!("username = \"kvset\"\npassword = \"{MARKER}\""), format!("token = \"{MARKER}\"")] {
        let said = hides(&format!(
            "[log]\nlevel = \"trace\"\n[http]\nlisten = \"\"\n[kafka]\nbrokers = \"127.0.0.1:1\"\n\
             retry_for = \"1s\"\n[output]\nencoding = \"confluent-avro\"\n[schema_registry]\n\
             url = \"http://127.0.0.1:1\"\n{login}\n"
        ));
        assert!(said.contains("schema registry http://127.0.0.1:1/"), "the registry was asked:\n{said}");
    }
}
