mod engines;
mod exposure;
mod fingerprint;
mod worth;

use super::*;
use kvset_core::units::ratio::Ratio;
use std::collections::BTreeSet;
use std::io::Write as _;

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Settings::load_with(Some(file.path()), variables.collect::<Vec<_>>())
}

fn problems(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let error = load(text, variables).expect_err("refused");
    let list = error.problems().iter();
    list.map(|problem| Problem { origin: None, ..problem.clone() }.to_string()).collect()
}

#[test]
fn the_default_file_is_the_default() {
    assert_eq!(load(&default_toml(), &[]).expect("valid"), Settings::default());
    assert_eq!(load("", &[]).expect("valid"), Settings::default());
}

/// The default file with its examples in force, but for those of settings that begin like one of `left_out`.
fn with_examples(left_out: &[&str]) -> String {
    let uncommented = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if left_out.iter().any(|key| rest.starts_with(key)) => line.to_owned(),
        Some(rest) if rest.contains(" = ") && !rest.ends_with('.') => rest.to_owned(),
        Some(block @ ("[[pools]]" | "[[tiers]]")) => block.to_owned(),
        _ => line.to_owned(),
    };
    default_toml().lines().map(|line| uncommented(line) + "\n").collect()
}

const OF_VLLM: [&str; 5] =
    ["attention = ", "retention_interval = ", "prefill_chunk = ", "draft_head = ", "draft_layers = "];
const OF_OFFLOAD: [&str; 7] = [
    "attention = ",
    "retention_interval = ",
    "prefill_chunk = ",
    "vllm_offload = ",
    "offload_policy = ",
    "store_threshold = ",
    "blocks_per_chunk = ",
];
const OF_SGLANG: [&str; 2] = ["hicache = ", "hicache_write = "];
const OF_WINDOWS: [&str; 3] = ["attention = ", "prefill_chunk = ", "swa_full_tokens_ratio = "];
const OF_STATES: [&str; 4] =
    ["attention = ", "prefill_chunk = ", "mamba_full_memory_ratio = ", "state_tokens = "];
const OF_LMCACHE: [&str; 1] = ["chunk_tokens = "];
const OF_LMCACHE_MP: [&str; 3] = ["chunk_tokens = ", "watermark = ", "eviction_ratio = "];
const OF_TRTLLM: [&str; 1] = ["host_cache = "];
const OF_MOONCAKE: [&str; 3] = ["lease = ", "watermark = ", "eviction_ratio = "];

#[test]
fn every_example_in_the_default_file_is_valid() {
    // Of the one tier that is shown nothing passes to another.
    let further = ["traffic = true", "overlap = ", "hold_back"];
    let of_engines = [
        &OF_VLLM[..],
        &OF_OFFLOAD,
        &OF_SGLANG,
        &OF_WINDOWS,
        &OF_STATES,
        &OF_LMCACHE,
        &OF_MOONCAKE,
        &OF_TRTLLM,
        &further,
    ]
    .concat();
    let settings = load(&with_examples(&of_engines), &[]).expect("valid");
    assert_eq!(settings.pools.len(), 1);
    assert!(settings.estimate.page_size.is_some() && settings.pools[0].capacities.is_some());
    let engines = [
        ("vllm", &OF_VLLM[..]),
        ("vllm", &OF_OFFLOAD),
        ("sglang", &OF_SGLANG),
        ("sglang", &OF_WINDOWS),
        ("sglang", &OF_STATES),
        ("lmcache", &OF_LMCACHE),
        ("lmcache-mp", &OF_LMCACHE_MP),
        ("mooncake", &OF_MOONCAKE),
        ("trtllm", &OF_TRTLLM),
    ];
    for (engine, own) in engines {
        // Each capacity is modelled on its own: no tiers, no sampling.
        let others = of_engines.iter().copied().filter(|key| !own.contains(key));
        let left_out: Vec<_> = others
            .chain([
                "[[tiers]]",
                "tiers = ",
                "name = \"hbm\"",
                "coverage = ",
                "inclusion = ",
                "unit",
                "sample_rate = ",
                "measured = ",
                "routers = ",
                "ttls = ",
                "tenants = ",
                "traffic = ",
                "restarts = ",
                "retention_classes = ",
            ])
            .collect();
        let text = with_examples(&left_out).replace("engine = \"paper\"", &format!("engine = \"{engine}\""));
        // Of groups that have states where these are needed.
        let groups = if own.contains(&"state_tokens = ") { "full+3*mamba" } else { "full+window:128" };
        let settings = load(&text.replace("full+window:128", groups), &[]).expect(engine);
        assert_eq!(settings.estimate.engine_options.0.keys().count(), own.len(), "{engine}");
    }
}

#[test]
fn sections_have_names_of_their_own_and_no_line_is_too_long() {
    for line in default_toml().lines() {
        assert!(line.len() <= 110, "{line}");
    }
    let keys = Settings::default().sections();
    let names: BTreeSet<_> = keys.iter().map(|section| section.name).collect();
    assert_eq!(names.len(), keys.len());
}

#[test]
fn the_environment_wins_over_the_file() {
    let settings = load(
        "[estimate]\npage_size = 16\ncoverages = [0.5]\n[kafka.properties]\n\"sasl.username\" = \"file\"\n",
        &[
            ("KVSET__ESTIMATE__PAGE_SIZE", "32"),
            ("KVSET__ESTIMATE__COVERAGES", "0.9, 0.999"),
            ("KVSET__ESTIMATE__WINDOWS", "all,last:10"),
            ("KVSET__ESTIMATE__INCLUDE_PARTIAL_PAGE", "true"),
            ("KVSET__ESTIMATE__KV_BYTES_PER_TOKEN", "61505.5"),
            ("KVSET__KAFKA__PROPERTIES__SASL_USERNAME", "environment"),
            ("KVSET_SHARED", "ignored"),
        ],
    )
    .expect("valid");
    let estimate = &settings.estimate;
    assert_eq!(estimate.page_size.map(|size| size.get()), Some(32));
    assert_eq!(estimate.coverages, [900, 999].map(Ratio::per_mille));
    assert_eq!(estimate.windows.len(), 2);
    assert!(estimate.include_partial_page);
    assert_eq!(estimate.kv_bytes_per_token.map(TokenCost::get), Some(61505.5));
    assert_eq!(
        settings.kafka.properties.resolve().expect("no references"),
        [("sasl.username".to_owned(), "environment".to_owned())]
    );
}

#[test]
fn a_list_of_brokers_is_refused_with_how_to_write_it() {
    let found = problems("[kafka]\nbrokers = [\"a:9092\", \"b:9092\"]\n", &[]);
    let expected = "kafka.brokers = [\"a:9092\", \"b:9092\"]: expected one text, not a list: write several values \
                    as \"a,b\"";
    assert!(found.iter().any(|problem| problem.starts_with(expected)), "{found:?}");
}

/// Refused once, though the range begins there.
#[test]
fn a_size_of_nothing_is_one_where_nothing_is_allowed() {
    for (text, bytes) in [("0B", 0), ("0 MiB", 0), ("1KiB", 1024)] {
        let settings =
            load(&format!("[state]\nwhole_up_to = \"{text}\"\nkeep_revoked_bytes = \"{text}\"\n"), &[]);
        let state = settings.expect("within the range").state;
        assert_eq!((state.whole_up_to.0, state.keep_revoked_bytes.0), (bytes, bytes), "{text}");
    }
    let found = problems("[input]\nmax_record_bytes = \"0B\"\n[state]\nwhole_up_to = \"-0B\"\n", &[]);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn all_problems_are_named_at_once_with_key_value_and_range() {
    let found = problems(
        "[estimate]\npage_sise = 64\ncoverages = []\nsample_rate = 1.5\nwindows = [\"sliding:3\"]\n\
         capacities = [\"10GiB\"]\n[estimat]\n[commit]\nevery = \"1\"\n[output]\nencoding = \"xml\"\n\
         topic = \"a b\"\n[http]\nlisten = \"nowhere\"\n[log]\nlevel = \"==\"\n",
        &[("KVSET__WORKERS__THREADS", "many"), ("KVSET__STATE__GENERATION", "3")],
    );
    let expected = [
        "estimat: unknown key; did you mean `estimate`?",
        "output.topic = \"a b\": expected a topic name of 1 to 249 letters, digits, `.`, `_` or `-`",
        "output.encoding = \"xml\": expected \"json\", \"avro\" or \"confluent-avro\"",
        "estimate.page_sise: unknown key; did you mean `page_size`?",
        "estimate.coverages = []: expected a list of 1 to 64 entries, each a decimal with at most 9 places \
         from 0 to 1",
        "estimate.windows = [\"sliding:3\"]: `sliding:3` is no window: unknown kind (expected tumbling:5m, \
         hopping:5m/1m, last:3000 or all)",
        "estimate.sample_rate = 1.5: expected a decimal with at most 9 places from 0.001 to 1",
        "state.generation: unknown key; did you mean `generations`?",
        "commit.every = \"1\": expected a duration like \"30s\" or \"5m\", from 10ms to 10m",
        "workers.threads = \"many\": expected a whole number from 0 to 1024",
        "http.listen = \"nowhere\": expected an address and port like \"127.0.0.1:9464\", or \"\" for none",
        "log.level = \"==\": expected error, warn, info, debug, trace, or directives like \
         \"info,kvset::kafka=debug\"",
        "estimate.capacities = \"10GiB\": a size in bytes needs estimate.kv_bytes_per_token; set it, or \
         give pages like \"5000p\"",
    ];
    assert_eq!(found, expected);
}

#[test]
fn properties_of_the_service_itself_are_refused() {
    let found = problems(
        "[kafka.properties]\nisolation.level = \"read_uncommitted\"\n\"transactional.id\" = \"x\"\n\
         session.timeout.ms = 45000\nenable.auto.commit = true\n",
        &[("KVSET__KAFKA__PROPERTIES__GROUP_ID", "x")],
    );
    let keys: Vec<_> = found.iter().filter_map(|problem| problem.split(": ").next()).collect();
    assert_eq!(
        keys,
        ["enable.auto.commit", "group.id", "isolation.level", "transactional.id"]
            .map(|name| format!("kafka.properties.\"{name}\""))
    );
}

#[test]
fn what_the_brokers_of_a_group_of_the_new_protocol_say_is_refused() {
    let classic = "assignment = \"range\"\n[kafka.properties]\n\"session.timeout.ms\" = 6000\n\
                   \"heartbeat.interval.ms\" = 500\n";
    load(&format!("[kafka]\n{classic}"), &[]).expect("a member of a classic group says all of it");
    let found = problems(&format!("[kafka]\ngroup_protocol = \"consumer\"\n{classic}"), &[]);
    for (found, expected) in
        found.iter().zip(["heartbeat.interval.ms", "session.timeout.ms", "kafka.assignment"])
    {
        assert!(found.contains(expected) && found.contains("kafka.group_protocol"), "{found}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    let way =
        "[kafka]\ngroup_protocol = \"consumer\"\nproperties = { \"group.remote.assignor\" = \"range\" }\n";
    load(way, &[]).expect("what the brokers offer may be chosen");
}

#[test]
fn topics_and_pools_must_differ() {
    let found = problems(
        "[output]\ntopic = \"kvset.requests\"\n[[pools]]\nname = \"a\"\n[[pools]]\npage_size = 0\n\
         [[pools]]\nname = \"a\"\npage_sizes = 1\n",
        &[],
    );
    assert_eq!(
        found,
        [
            "pools[1].page_size = 0: expected 1 to 65536 tokens",
            "pools[2].page_sizes: unknown key; did you mean `page_size`?",
            "output.topic = \"kvset.requests\": expected another topic than input.topic",
            "pools[1].name: expected the pool's name, of 1 to 256 characters",
            "pools[2].name = \"a\": this pool already has settings further up; merge them",
        ]
    );
}

#[test]
fn what_prepare_could_not_work_with_is_refused() {
    let found = problems(
        "[prepare]\ntopic = \"kvset.requests\"\ngroup = \"kvset\"\npool = \"{model\"\nmodel = \"{messages}\"\n\
         event_time = \"{a}{b}\"\nmodels = [\"m=/a\", \"/b\", \"m=/c\"]\nformat = \"chat\"\n",
        &[],
    );
    assert_eq!(
        found,
        [
            "prepare.format = \"chat\": expected \"auto\", \"openai\", \"token-ids\" or \"page-ids\"",
            "prepare.model = \"{messages}\": `messages` leads to `messages`, which holds a prompt and must not \
             leave the log",
            "prepare.pool = \"{model\": `{model` has a brace without its other half",
            "prepare.topic = \"kvset.requests\": expected another topic than input.topic",
            "prepare.group = \"kvset\": expected another group than kafka.group",
            "prepare.event_time = \"{a}{b}\": expected one field like \"{created}\", or nothing for the record's \
             time stamp",
            "prepare.models = \"m=/c\": its model already has a directory further up",
        ]
    );
}

#[test]
fn a_pool_takes_what_it_does_not_say_from_the_general_settings() {
    let text = "[estimate]\npage_size = 64\nkv_bytes_per_token = 10\nmax_tracked_pages = 7000\n\
                [[pools]]\nname = \"a\"\npage_size = 16\nsample_rate = 0.5\n";
    let settings = load(text, &[]).expect("valid");
    let (a, b) = (settings.pool_config("a"), settings.pool_config("b"));
    assert_eq!([&a, &b].map(|pool| pool.cache.page_size.map(|size| size.get())), [Some(16), Some(64)]);
    assert_eq!([&a, &b].map(|pool| pool.cache.sample_rate), [500, 1000].map(Ratio::per_mille));
    assert_eq!([&a, &b].map(|pool| pool.cache.max_tracked_pages.0), [7000, 7000]);
    assert_eq!([a.check(), b.check()], [Ok(()), Ok(())]);
    assert_eq!(Settings::default().pool_config("a"), kvset_core::estimate::config::PoolConfig::default());
}

const TIERS: &str = "[[tiers]]\nname = \"hbm\"\ncoverage = 0.95\nunit = \"80GiB\"\nunit_price = 25000\n\
                     [[tiers]]\nname = \"dram\"\ninclusion = \"inclusive\"\nunit = \"5000p\"\n";

#[test]
fn tiers_hold_for_every_pool_that_names_no_others() {
    let pools = "[[pools]]\nname = \"a\"\ntiers = [\"dram\"]\n[[pools]]\nname = \"b\"\ntiers = []\n";
    let text = format!("[estimate]\nkv_bytes_per_token = 10\n[plan]\nhold = 2\n{TIERS}{pools}");
    let settings = load(&text, &[]).expect("valid");
    let names = |pool: &str| -> Vec<String> {
        settings.pool_config(pool).tiers.iter().map(|tier| tier.name.clone()).collect()
    };
    assert_eq!([names("a"), names("b"), names("c")].map(|names| names.join("+")), ["dram", "", "hbm+dram"]);
    let general = settings.pool_config("c");
    assert_eq!((general.check(), general.trend.hold), (Ok(()), 2));
    assert_eq!(general.tiers[0].unit_price, Some(25_000.0));
    assert_eq!(load(&settings.to_toml(), &[]).expect("valid"), settings);
}

#[test]
fn tiers_that_cannot_be_planned_are_named() {
    let nameless =
        "[[tiers]]\nname = \"hbm 1\"\n[[tiers]]\nname = \"dram\"\nunit = \"1p\"\nunit_price = -1\n";
    let found = problems(
        &format!(
            "{TIERS}{nameless}[[pools]]\nname = \"a\"\ntiers = [\"disk\"]\n[plan]\nconverged_over = 1\n"
        ),
        &[],
    );
    assert_eq!(
        found,
        [
            "plan.converged_over = 1: expected a whole number from 2 to 100",
            "tiers[3].unit_price = -1: expected a number from 0 to 1e15",
            "tiers[0].unit = \"80GiB\": a size in bytes needs estimate.kv_bytes_per_token; set it, or give \
             pages like \"5000p\"",
            "tiers[2].name = \"hbm 1\": expected a name of 1 to 40 letters, digits, `.`, `_` or `-`",
            "tiers[2].unit: expected a size like \"80GiB\" or pages like \"5000p\"",
            "tiers[3].name = \"dram\": another tier has this name; choose another",
            "pools[0].tiers = \"disk\": no tier has this name; declared are hbm, dram, hbm 1, dram",
        ]
    );
    let many: String = (0..9).map(|tier| format!("[[tiers]]\nname = \"t{tier}\"\nunit = \"1p\"\n")).collect();
    assert_eq!(problems(&many, &[]), ["tiers: expected at most 8 tiers"]);
}

#[test]
fn what_a_pool_holds_today_is_its_own_or_the_general_and_shapes_nothing() {
    let text = "[estimate]\nkv_bytes_per_token = 10\nprovisioned = \"1GiB\"\n\
                [[pools]]\nname = \"a\"\nprovisioned = \"70p\"\n";
    let settings = load(text, &[]).expect("valid");
    let provisioned = settings.provisioned();
    let size = |pool| provisioned.of(pool).map(ToString::to_string);
    assert_eq!([size("a"), size("b")], [Some("70p".to_owned()), Some("1GiB".to_owned())]);
    assert!(Settings::default().provisioned().of("a").is_none());
    let without = load("[estimate]\nkv_bytes_per_token = 10\n[[pools]]\nname = \"a\"\n", &[]).expect("valid");
    assert_eq!(settings.fingerprint(), without.fingerprint());
    let uncosted = problems("[estimate]\nprovisioned = \"1GiB\"", &[]);
    assert!(uncosted[0].starts_with("estimate.provisioned") && uncosted.len() == 1, "{uncosted:?}");
}

#[test]
fn what_the_engine_refuses_is_refused_here() {
    let sampled = problems("[estimate]\nengine = \"sglang\"\nsample_rate = 0.5", &[]);
    assert!(sampled[0].starts_with("estimate.sample_rate"), "{sampled:?}");
    let many = (1..=65).map(|pages| format!("\"{pages}p\"")).collect::<Vec<_>>().join(",");
    let pool = format!("[estimate]\nengine = \"sglang\"\n[[pools]]\nname = \"a\"\ncapacities = [{many}]");
    assert!(problems(&pool, &[])[0].starts_with("pools[0].capacities"));
    let planned = problems("[estimate]\nengine = \"sglang\"\n[[tiers]]\nname = \"hbm\"\nunit = \"5p\"", &[]);
    assert!(planned[0].starts_with("tiers: ") && planned[0].contains("nothing to plan from"), "{planned:?}");
    assert!(load("[estimate]\nengine = \"sglang\"", &[]).is_ok());
    let panes = problems("[estimate]\nwindows = [\"tumbling:1ms\"]\ngrace = \"1d\"", &[]);
    assert!(panes[0].starts_with("estimate.windows") && panes[0].contains("panes"), "{panes:?}");
    // Everything else the engine checks lies within the ranges here.
    assert_eq!(Settings::default().pool_config("").check(), Ok(()));
}

#[test]
fn hostile_files_are_refused_and_quote_no_secret() {
    for text in ["[kafka", "a = ", "[kafka.properties]\n\"sasl.password\" = \"hunter2", "\u{0}"] {
        let error = load(text, &[]).expect_err(text);
        assert!(matches!(error, SettingsError::Syntax { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    for text in [
        "estimate = 5",
        "[[estimate]]",
        "\"a[99999999999]\" = 1",
        "\"kafka.brokers\" = \"x\"",
        "pools = 3",
        "pools = [3]",
        "[estimate]\npage_size = 9223372036854775807",
        "[estimate]\npage_size = \"64\"",
        "[estimate]\nkv_bytes_per_token = nan",
        "[estimate]\nkv_bytes_per_token = inf",
        "[estimate]\nsample_rate = 0",
        "[kafka.properties]\nx = [1]",
        "[kafka]\nproperties = \"sasl.password=hunter2\"",
    ] {
        let found = problems(text, &[]);
        assert_eq!(found.len(), 1, "{text}");
        assert!(!found[0].contains("hunter2"), "{found:?}");
    }
    assert_eq!(problems("", &[("KVSET__POOLS[99999999999]__NAME", "x")]).len(), 1);
    assert_eq!(problems("", &[("KVSET__POOLS", "x")]).len(), 1);
    assert!(matches!(
        Settings::load_with(Some(Path::new("/no/such/file")), []),
        Err(SettingsError::Read { .. })
    ));
}

#[test]
fn what_is_shown_reads_back_the_same_with_secrets_masked() {
    let text = "[estimate]\npage_size = 16\nkv_bytes_per_token = 61505\ncapacities = [\"10GiB\", \"5p\"]\n\
                grace = \"90s\"\n[[pools]]\nname = \"a \\\"b\\\"\"\nsample_rate = 0.25\n[http]\nlisten = \"\"\n";
    let settings = load(text, &[]).expect("valid");
    assert_eq!(load(&settings.to_toml(), &[]).expect("valid"), settings);

    let text = "[kafka.properties]\n\"sasl.password\" = \"hunter2\"\n\"sasl.username\" = \"me\"\n";
    let shown = load(text, &[]).expect("valid").to_toml();
    assert!(shown.contains("\"sasl.password\" = \"********\""), "{shown}");
    assert!(shown.contains("\"sasl.username\" = \"me\""), "{shown}");
    assert!(!shown.contains("hunter2"));
}

#[test]
fn the_default_file_in_the_repository_is_what_the_types_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/kvset.toml");
    let kept = std::fs::read_to_string(path).expect("config/kvset.toml");
    assert!(kept == default_toml(), "run `kvset config default > config/kvset.toml`");
}

#[test]
fn what_is_asked_beside_the_estimates_is_refused_where_it_cannot_be_told() {
    let said = |text: &str| problems(text, &[]).join("\n");
    let capacities: Vec<_> = (1..=65).map(|pages| format!("\"{pages}p\"")).collect();
    let many = said(&format!("[estimate]\nttls = [\"5m\"]\ncapacities = [{}]", capacities.join(", ")));
    assert!(many.contains("estimate.capacities") && many.contains("list at most 64"), "{many}");
    let long = said("[estimate]\ntenants = 3\ncapacities = [\"9p\"]\nwindows = [\"last:70000\"]");
    assert!(long.contains("estimate.windows") && long.contains("at most last:65536"), "{long}");
    let alone = said("[estimate]\ntraffic = true");
    assert!(alone.contains("estimate.traffic") && alone.contains("at least two `tiers`"), "{alone}");
    let twice = said("[estimate]\nttls = [\"60s\", \"1m\"]\ncapacities = [\"9p\"]");
    assert!(twice.contains("estimate.ttls") && twice.contains("is there twice"), "{twice}");
    let unknown = said("[estimate]\nttls = [\"soon\"]");
    assert!(unknown.contains("`soon` is no time to live"), "{unknown}");
    let engine =
        said("[[pools]]\nname = \"a\"\ntenants = 3\ncapacities = [\"9p\"]\n[estimate]\nengine = \"sglang\"");
    assert!(engine.contains("pools[0].tenants"), "{engine}");
    let one = "[[tiers]]\nname = \"a\"\nunit = \"1p\"\n[[tiers]]\nname = \"b\"\nunit = \"1p\"\n";
    let all = "[estimate]\ncapacities = [\"9p\"]\nttls = [\"5m\"]\ntenants = 3\ntraffic = true\n";
    let settings = load(&format!("{one}{all}prefill_rate = 9000"), &[]).expect("valid");
    let asked = settings.pool_config("any").questions;
    assert_eq!(
        (asked.reuse.ttls.len(), asked.reuse.tenants, asked.reuse.prefill_rate),
        (1, Some(3), Some(9000.0))
    );
    assert!(asked.reuse.traffic);
    let none =
        load(&format!("{one}{all}[[pools]]\nname = \"a\"\nttls = []\ntenants = 0"), &[]).expect("valid");
    let asked = none.pool_config("a").questions;
    assert!(asked.reuse.ttls.is_empty() && asked.reuse.tenants.is_none() && asked.reuse.traffic);
}

#[test]
fn a_schema_registry_is_demanded_where_it_is_needed_and_has_one_way_in() {
    let said = |text: &str| problems(text, &[]).join("\n");
    let needs = said("[input]\nencoding = \"confluent-avro\"\n[output]\nencoding = \"confluent-avro\"");
    assert_eq!(needs.matches("set schema_registry.url").count(), 2, "{needs}");
    let registry = "[schema_registry]\nurl = \"https://registry:8081\"\n";
    assert!(said(&format!("{registry}username = \"me\"")).contains("both or none"));
    let both = said(&format!("{registry}username = \"me\"\npassword = \"hunter2\"\ntoken = \"hunter3\""));
    assert!(both.contains("one way only") && !both.contains("hunter"), "{both}");
    let inside = said("[schema_registry]\nurl = \"https://me:hunter2@registry\"\npassword = 3");
    assert!(inside.contains("do not belong") && !inside.contains("hunter2"), "{inside}");
}

#[test]
fn a_level_that_does_not_exist_is_not_taken_for_a_module() {
    for known in ["info", "WARN", "off", "info,kvset::kafka=debug", "kvset=trace", "warn,kvset[commit]=info"]
    {
        assert!(LogFilter::new(known).is_some(), "{known}");
    }
    for unknown in ["verbose", "warning", "info,kvset", "", "info,==", "kvset=loud"] {
        assert!(LogFilter::new(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn what_a_question_cannot_be_told_names_its_setting_also_where_it_was_passed_over() {
    let said = |text: &str| problems(text, &[]).join("\n");
    let router = said("[estimate]\nrouters = [\"precise-prefix:4:at=40GiB\"]");
    assert!(router.contains("estimate.routers"), "{router}");
    let sampled = said("[estimate]\nprefill_rate = 4000.0\nsample_rate = 0.5");
    assert!(sampled.contains("estimate.prefill_rate"), "{sampled}");
}

#[test]
fn a_key_that_is_none_is_refused_before_the_service_starts_and_is_not_shown() {
    let said = problems("[prepare]\nhash_key = \"hunter2\"", &[]).join("\n");
    assert!(said.contains("prepare.hash_key") && !said.contains("hunter2"), "{said}");
    let key = "0123456789abcdef0123456789abcdef";
    for held in [key, "env:KVSET_TEST_KEY", "file:/run/secrets/kvset"] {
        load(&format!("[prepare]\nhash_key = \"{held}\""), &[]).expect("valid");
    }
}

#[test]
fn leaving_on_stop_is_refused_where_brokers_keep_the_place_of_a_name_all_the_same() {
    let text = |protocol: &str, instance: &str| {
        format!("[kafka]\nleave_on_stop = true\ngroup_protocol = \"{protocol}\"\ninstance = \"{instance}\"")
    };
    for (protocol, instance) in [("classic", "one"), ("classic", ""), ("consumer", "")] {
        load(&text(protocol, instance), &[]).expect("valid");
    }
    let said = problems(&text("consumer", "one"), &[]).join("\n");
    assert!(said.contains("kafka.leave_on_stop") && said.contains("classic"), "{said}");
}

/// A port that is none, and a lateness that contradicts the other, were accepted.
#[test]
fn ports_and_times_that_cannot_be_are_refused() {
    for (brokers, is_fine) in [
        ("kafka:0", false),
        ("kafka:99999", false),
        ("kafka:port", false),
        ("a:9092, b:", false),
        ("kafka", true),
        ("a:9092, b:9093", true),
        ("[::1]:9092", true),
    ] {
        let loaded = load(&format!("[kafka]\nbrokers = \"{brokers}\""), &[]);
        assert_eq!(loaded.is_ok(), is_fine, "{brokers}");
    }
    let of = |least, most| format!("[estimate]\nallowed_lateness = \"{least}\"\nmax_lateness = \"{most}\"");
    let said = problems(&of("5m", "1m"), &[]);
    assert!(said.len() == 1 && said[0].contains("estimate.max_lateness"), "{said:?}");
    for fine in [of("1m", "5m"), of("5m", "5m"), of("5m", "0s")] {
        assert!(load(&fine, &[]).is_ok(), "{fine}");
    }
}

/// Ten tracked pages, and a bucket's root were accepted. A window that never holds enough may be looked at, and not
/// acted on.
#[test]
fn settings_that_can_never_give_a_number_are_refused() {
    let first = |text: &str| problems(text, &[]).join("\n");
    for (text, key) in [
        ("[estimate]\nmax_tracked_pages = 10", "estimate.max_tracked_pages"),
        ("[[pools]]\nname = \"a\"\nmax_tracked_pages = 1023", "pools[0].max_tracked_pages"),
        (
            "[estimate]\nact_on = \"last:999\"\nwindows = [\"last:3000\", \"last:999\"]",
            "estimate.min_requests",
        ),
        ("[estimate]\nmin_requests = 5000\nwindows = [\"last:3000\"]", "estimate.min_requests"),
        ("[estimate]\nwindows = [\"last:500\"]", "estimate.min_requests"),
        ("[state]\nshared = \"s3://bucket\"", "state.shared"),
        ("[state]\nshared = \"gs://bucket//?key=SECRET\"", "state.shared"),
        ("[state]\nshared = \"s3://\"", "state.shared"),
        ("[state]\nshared = \"file:///\"", "state.shared"),
    ] {
        let said = first(text);
        assert!(said.starts_with(key) && said.lines().count() == 1, "{text}: {said}");
        assert!(!said.contains("SECRET"), "{said}");
    }
    for fine in [
        "[estimate]\nmax_tracked_pages = 1024",
        "[estimate]\nwindows = [\"last:3000\", \"last:100\", \"tumbling:1s\"]",
        "[estimate]\nmin_requests = 10\nwindows = [\"last:10\"]",
        "[state]\nshared = \"s3://bucket/kvset\"",
        "[state]\nshared = \"az://container/a/b?key=c\"",
        "[state]\nshared = \"file:///mnt\"",
    ] {
        assert!(load(fine, &[]).is_ok(), "{fine}: {}", first(fine));
    }
}
