//! What others can read or overhear is named, and nothing else is.

use super::*;

fn exposures(text: &str) -> usize {
    let settings = load(text, &[]).expect(text);
    settings.exposures().len()
}

#[test]
fn what_others_can_read_is_named_and_what_stays_here_is_not() {
    assert_eq!(exposures(""), 0);
    assert_eq!(exposures("[http]\nlisten = \"0.0.0.0:9464\""), 1);
    assert_eq!(exposures("[http]\nlisten = \"\""), 0);
    for (url, expected) in [
        ("http://registry:8081", 1),
        ("https://registry:8081", 0),
        ("http://localhost:8081", 0),
        ("http://[::1]:8081", 0),
    ] {
        assert_eq!(
            exposures(&format!("[schema_registry]\nurl = \"{url}\"\ntoken = \"t\"")),
            expected,
            "{url}"
        );
        assert_eq!(exposures(&format!("[schema_registry]\nurl = \"{url}\"")), 0, "{url}, without a secret");
    }
    for (brokers, expected) in [("kafka:9092", 1), ("localhost:9092,127.0.0.1:9093,[::1]:9094", 0)] {
        let sasl = "[kafka.properties]\n\"security.protocol\" = \"SASL_PLAINTEXT\"";
        assert_eq!(exposures(&format!("[kafka]\nbrokers = \"{brokers}\"\n{sasl}")), expected, "{brokers}");
    }
}

#[test]
fn a_page_on_every_address_is_named_in_both_families_and_one_on_loopback_in_neither() {
    for (listen, expected) in [
        ("0.0.0.0:9464", 1),
        ("[::]:9464", 1),
        ("10.1.2.3:9464", 1),
        ("127.0.0.1:9464", 0),
        ("[::1]:9464", 0),
        ("[::ffff:127.0.0.1]:9464", 0),
    ] {
        assert_eq!(exposures(&format!("[http]\nlisten = \"{listen}\"")), expected, "{listen}");
    }
}

/// The endpoint's address counts as a secret by its name, so that it was never looked at.
#[test]
fn a_client_secret_or_token_that_passes_the_network_in_plain_text_is_named() {
    let said = |properties: &str| {
        let text = format!("[kafka]\nbrokers = \"kafka:9092\"\n[kafka.properties]\n{properties}");
        load(&text, &[]).expect(&text).exposures().join("\n")
    };
    let endpoint = |url: &str| said(&format!("\"sasl.oauthbearer.token.endpoint.url\" = \"{url}\""));
    assert!(endpoint("http://issuer/token").contains("client's secret"));
    for url in ["https://issuer/token", "http://127.0.0.1:8080/token", "env:ISSUER"] {
        assert_eq!(endpoint(url), "", "{url}");
    }
    let protocol = |mechanism: &str| {
        said(&format!("\"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanism\" = \"{mechanism}\""))
    };
    assert!(protocol("PLAIN").contains("the password too"));
    assert!(protocol("OAUTHBEARER").contains("the token too"));
    let scram = protocol("SCRAM-SHA-512");
    assert!(scram.contains("sasl_plaintext") && !scram.contains("too"), "{scram}");
}
