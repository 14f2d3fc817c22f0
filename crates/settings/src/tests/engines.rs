//! Engines and their options, as settings say them.

use super::*;
use kvset_core::engines::profile::{OverlapMode, Profile};
use kvset_core::engines::rules::EngineRules;

#[test]
fn engines_are_told_what_the_settings_say_and_pools_may_differ() {
    let settings = load(
        "[estimate]\nengine = \"vllm\"\nattention = \"full+window:128\"\nretention_interval = \"none\"\n\
         [[pools]]\nname = \"plain\"\nattention = \"full\"\n\
         [[pools]]\nname = \"next\"\nattention = \"full+3*mamba\"\nretention_interval = 512\nprefill_chunk = 4096\n",
        &[("KVSET__ESTIMATE__PREFILL_CHUNK", "2048")],
    )
    .expect("valid");
    let told = |pool: &str| settings.pool_config(pool).cache.rules.options_of(Profile::Vllm);
    let texts = |told: Vec<(&str, String)>| told.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(texts(told("any")), ["full+window:128", "none", "2048", "on"]);
    assert_eq!(texts(told("next")), ["full+3*mamba", "512", "4096", "on"]);
    let plain = settings.pool_config("plain").cache.rules;
    let overlaps = EngineRules { overlap: OverlapMode::On, ..EngineRules::default() };
    assert_eq!(plain, overlaps, "one group retains nothing apart");
    let stores = load(
        "[estimate]\nengine = \"mooncake\"\nlease = \"5s\"\nwatermark = 0.95\neviction_ratio = 0.1\n",
        &[],
    )
    .expect("valid");
    let rules = stores.pool_config("any").cache.rules;
    assert_eq!(texts(rules.options_of(Profile::Mooncake)), ["5s", "0.95", "0.1", "on"]);
    assert_eq!(load(&stores.to_toml(), &[]).expect("as shown").pool_config("any").cache.rules, rules);
    let host = "[estimate]\nengine = \"sglang\"\nhicache = \"5000p\"\nhicache_write = \"write-back\"\n";
    let rules = load(host, &[]).expect("valid").pool_config("any").cache.rules;
    assert_eq!(texts(rules.options_of(Profile::Sglang)), ["5000p", "write-back", "on"]);
    let offload = "[estimate]\nengine = \"vllm\"\nattention = \"full+window:128\"\nvllm_offload = \"5000p\"\n\
                   offload_policy = \"arc\"\nstore_threshold = 2\n[[pools]]\nname = \"plain\"\nattention = \"full\"\n";
    let offload = load(offload, &[]).expect("valid");
    let told = |pool: &str| texts(offload.pool_config(pool).cache.rules.options_of(Profile::Vllm));
    assert_eq!(told("any"), ["full+window:128", "0", "8192", "5000p", "arc", "2", "1"], "one after another");
    assert_eq!(told("plain"), ["on"], "under full attention the tier changes nothing");
    let windows = "[estimate]\nengine = \"sglang\"\nattention = \"full+window:128\"\nswa_full_tokens_ratio = 0.5\n\
                   [[pools]]\nname = \"next\"\nswa_full_tokens_ratio = 0.1\n[[pools]]\nname = \"plain\"\nattention = \"full\"\n";
    let windows = load(windows, &[]).expect("valid");
    let told = |pool: &str| texts(windows.pool_config(pool).cache.rules.options_of(Profile::Sglang));
    assert_eq!(told("any"), ["full+window:128", "8192", "0.5"]);
    assert_eq!(told("next"), ["full+window:128", "8192", "0.1"]);
    assert_eq!(told("plain"), ["on"], "one pool has nothing to split");
}

#[test]
fn requests_that_overlap_are_modelled_and_taken_in_the_order_of_arrivals_where_that_can_be() {
    let of = |text: &str, pool: &str| {
        let config = load(&format!("[estimate]\n{text}"), &[]).expect("valid").pool_config(pool);
        (config.cache.rules.overlap, config.hold_back_ms)
    };
    let (on, off) = (OverlapMode::On, (OverlapMode::Off, 0));
    assert_eq!(
        [of("engine = \"vllm\"\n", "any"), of("engine = \"leaf-first\"\n", "any")],
        [(on, 300_000); 2]
    );
    assert_eq!(of("", "any"), off, "the paper's order");
    assert_eq!(of("engine = \"sglang\"\n", "any"), (on, 300_000));
    assert_eq!(of("engine = \"sglang\"\nattention = \"full+window:128\"\n", "any"), off);
    assert_eq!(of("engine = \"vllm\"\noverlap = \"off\"\n", "any"), off);
    let pools = "engine = \"vllm\"\nhold_back = \"1m\"\n[[pools]]\nname = \"hybrid\"\nattention = \"full+window:128\"\n\
                 [[pools]]\nname = \"slow\"\nhold_back = \"10m\"\n";
    assert_eq!(
        ["any", "hybrid", "slow"].map(|pool| of(pools, pool)),
        [(on, 60_000), (on, 60_000), (on, 600_000)]
    );
    let heads = pools.replace("attention = \"full+window:128\"", "draft_head = 3");
    assert_eq!(["any", "hybrid"].map(|pool| of(&heads, pool)), [(on, 60_000); 2]);
    let rules = load(&format!("[estimate]\n{heads}"), &[]).expect("valid").pool_config("hybrid").cache.rules;
    assert!(rules.options_of(Profile::Vllm).contains(&("draft_head", "3".to_owned())));
}

#[test]
fn holding_records_back_where_no_overlap_is_modelled_names_the_setting() {
    for (text, key) in [
        ("[estimate]\nhold_back = \"1m\"\n", "estimate.hold_back = "),
        (
            "[estimate]\nengine = \"vllm\"\noverlap = \"off\"\nhold_back_bytes = \"1MiB\"\n",
            "estimate.hold_back_bytes = ",
        ),
        ("[estimate]\n[[pools]]\nname = \"a\"\nhold_back = \"1m\"\n", "pools[0].hold_back = "),
    ] {
        let found = problems(text, &[]);
        assert!(found.len() == 1 && found[0].contains(key), "{found:?}");
    }
    assert!(load("[estimate]\nengine = \"vllm\"\nhold_back = \"1m\"\n", &[]).is_ok());
}

#[test]
fn what_an_engine_cannot_be_told_names_the_setting() {
    let says = |text: &str, expected: &[&str]| {
        let found = problems(text, &[]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}: {expected}");
        }
    };
    says(
        "[estimate]\nchunk_tokens = 512\n[[pools]]\nname = \"a\"\n",
        &["estimate.chunk_tokens: `chunk_tokens` is"],
    );
    says("[estimate]\nengine = \"sglang\"\nlease = \"1s\"\n", &["estimate.lease: "]);
    says("[estimate]\noverlap = \"on\"\n", &["estimate.overlap: "]);
    let sglang = "[estimate]\nengine = \"sglang\"\n";
    says(&format!("{sglang}attention = \"full+mamba\"\n"), &["estimate.attention: how large a state"]);
    let states = format!("{sglang}attention = \"full+mamba\"\nstate_tokens = 544\n");
    assert!(load(&format!("{states}hicache = \"9p\"\nhicache_write = \"write-back\"\n"), &[]).is_ok());
    says(&format!("{states}hicache = \"9p\"\noverlap = \"on\"\n"), &["estimate.overlap: "]);
    says(
        &format!("{states}page_size = 48\n"),
        &["estimate.page_size: a page of 48 tokens does not divide 256"],
    );
    assert!(load(&format!("{states}mamba_full_memory_ratio = 0.5\n"), &[]).is_ok());
    says(&format!("{sglang}swa_full_tokens_ratio = 0.5\n"), &["estimate.swa_full_tokens_ratio: "]);
    assert!(load(&format!("{sglang}attention = \"full+window:9\"\nhicache = \"9p\"\n"), &[]).is_ok());
    says(&format!("{sglang}attention = \"full+window:9\"\ndraft_head = 1\n"), &["estimate.attention: "]);
    says("[estimate]\ndraft_head = 1\n", &["estimate.draft_head: "]);
    says("[estimate]\nhicache = \"9p\"\n", &["estimate.hicache: "]);
    says("[estimate]\nengine = \"sglang\"\nhicache_write = \"write-back\"\n", &["estimate.hicache_write: "]);
    says("[estimate]\nengine = \"sglang\"\nhicache = \"9GiB\"\n", &["needs estimate.kv_bytes_per_token"]);
    let offload = "[estimate]\nengine = \"vllm\"\nattention = \"full+window:9\"\nvllm_offload = \"9p\"\n";
    assert!(load(&format!("{offload}overlap = \"off\"\n"), &[]).is_ok());
    says(&format!("{offload}overlap = \"on\"\n"), &["estimate.overlap: "]);
    assert!(load(&format!("{offload}draft_head = 1\n"), &[]).is_ok());
    assert!(load(&format!("{offload}draft_head = 1\ndraft_layers = \"full\"\n"), &[]).is_ok());
    says(&format!("{offload}draft_layers = \"full\"\n"), &["estimate.draft_layers: "]);
    let head = offload.replace("full+window:9", "full") + "draft_head = 1\n";
    assert!(load(&head, &[]).is_ok(), "a pool of one group");
    says(&format!("{offload}hold_back = \"1m\"\n"), &["estimate.hold_back = "]);
    says(&offload.replace("9p", "9GiB"), &["needs estimate.kv_bytes_per_token"]);
    says(&offload.replace("full+window:9", "full"), &["estimate.vllm_offload: "]);
    let groups = offload.replace("full+window:9", &["full"; 30].join("+"));
    says(&format!("{groups}page_size = 16\n"), &["estimate.attention: 30 groups"]);
    says(
        &format!("{offload}page_size = 16\nretention_interval = 64\nblocks_per_chunk = 8\n"),
        &["no multiple of a chunk of the tier below"],
    );
    says("[estimate]\nengine = \"vllm\"\noffload_policy = \"arc\"\n", &["estimate.offload_policy: "]);
    says("[estimate]\nengine = \"vllm\"\nattention = \"window:9\"\n", &["no group is `full`"]);
    says("[estimate]\nengine = \"vllm\"\nprefill_chunk = 512\n", &["estimate.prefill_chunk: "]);
    let lmcache =
        "[estimate]\nengine = \"lmcache\"\npage_size = 16\n[[pools]]\nname = \"a\"\npage_size = 512\n";
    says(lmcache, &["pools[0].page_size: a chunk of 256 tokens is not made of whole pages of 512"]);
    let tiers = "[estimate]\nengine = \"vllm\"\n[[tiers]]\nname = \"a\"\nunit = \"9p\"\n[[pools]]\nname = \"a\"\n\
                 attention = \"full+mamba\"\n";
    says(tiers, &["pools[0].attention: `engine` vllm has no required capacity"]);
    assert!(load(&format!("{tiers}tiers = []\n"), &[]).is_ok());
}
