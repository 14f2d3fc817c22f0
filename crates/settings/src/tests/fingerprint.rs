//! What the fingerprint of a configuration follows.

use super::*;

#[test]
fn the_fingerprint_follows_what_shapes_results_and_nothing_else() {
    let of = |text: &str| load(text, &[]).expect(text).fingerprint_hex();
    let default = of("");
    assert_eq!(
        default, "b7fdd44176bf7fef",
        "a change rebuilds every state there is: raise VERSION knowingly"
    );
    for same in [
        "[kafka]\nbrokers = \"other:1\"\ngroup = \"g\"",
        "[input]\ntopic = \"other\"",
        "[output]\nencoding = \"avro\"",
        "[state]\ndirectory = \"/elsewhere\"",
        "[log]\nlevel = \"debug\"",
        "[estimate]\nprovisioned = \"70p\"",
        "[estimate]\npublish_every = \"60s\"",
        "[estimate]\ntarget_ratios = [0.990]",
    ] {
        assert_eq!(of(same), default, "{same}");
    }
    let mut seen = BTreeSet::from([default]);
    for other in [
        "[estimate]\npage_size = 64",
        "[estimate]\nengine = \"vllm\"",
        "[estimate]\noutputs = \"ignored\"",
        "[estimate]\ntarget_ratios = [1.0]",
        "[estimate]\nwindows = [\"all\"]",
        "[estimate]\nmax_tracked_pages = 5000",
        "[input]\nmax_record_bytes = \"1MiB\"",
        "[input]\nmax_event_time_ahead = \"0s\"",
        "[plan]\nhold = 2",
        "[[tiers]]\nname = \"a\"\nunit = \"1p\"",
        "[[tiers]]\nname = \"a\"\nunit = \"2p\"",
        "[[pools]]\nname = \"a\"\npage_size = 16",
        "[[pools]]\nname = \"b\"\npage_size = 16",
        "[estimate]\nengine = \"vllm\"\noverlap = \"off\"",
        "[estimate]\nengine = \"vllm\"\nhold_back = \"1m\"",
        "[estimate]\nengine = \"vllm\"\nhold_back_bytes = \"1MiB\"",
        "[estimate]\nengine = \"vllm\"\n[[pools]]\nname = \"a\"\nhold_back = \"1m\"",
        "[estimate]\nmeasured = true",
        "[estimate]\nmeasured = true\nprovisioned = \"70p\"",
        "[estimate]\nmeasured = true\nprovisioned = \"80p\"",
        "[[pools]]\nname = \"a\"\nmeasured = true\nprovisioned = \"80p\"",
        "[estimate]\nrouters = [\"hash:4:tenant\"]",
        "[estimate]\nrouters = [\"hash:4:first-page\"]",
        "[estimate]\nttls = [\"5m\"]\ncapacities = [\"9p\"]",
        "[estimate]\nttls = [\"5m\", \"1h\"]\ncapacities = [\"9p\"]",
        "[estimate]\ntenants = 5\ncapacities = [\"9p\"]",
    ] {
        assert!(seen.insert(of(other)), "{other}");
    }
    let pools = ["a", "b"].map(|name| format!("[[pools]]\nname = \"{name}\"\npage_size = 16\n"));
    assert_eq!(of(&pools.concat()), of(&format!("{}{}", pools[1], pools[0])), "order does not matter");
}
