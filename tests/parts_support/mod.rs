//! The real programs that tests run alongside the service: those that scripts/parts.sh brings, by variables.

/// What scripts/parts.sh says of a part. Where parts are demanded and this one is missing, the test fails.
pub fn named(variable: &str) -> Option<String> {
    if let Ok(value) = std::env::var(variable) {
        return Some(value);
    }
    missing(&format!("{variable} is not set; try scripts/parts.sh run -- cargo test"));
    None
}

/// Says that a test is skipped for want of a part, or fails it where parts are demanded.
pub fn missing(what: &str) {
    let demanded = std::env::var("KVSET_REQUIRE_PARTS").is_ok_and(|value| value == "1");
    assert!(!demanded, "KVSET_REQUIRE_PARTS=1, but {what}");
    println!("skipped: {what}");
}
