//! Examples of `kvset tune`, which takes the options of a replay: the engine with its options, at most one --router
//! and one --ttl, tiers --below are the present configuration; --provisioned, or --capacities with one size, is what
//! the cache holds.

/// Examples under the help: those of a replay stand there otherwise.
pub const TUNE_EXAMPLES: &str = "\
Examples:
  kvset tune --provisioned 5000p trace.jsonl
  kvset tune --engine vllm --model-config gpt-oss.json --page-size 16 --provisioned 80GiB trace.jsonl
  kvset tune --router round-robin:4 --provisioned 320GiB --kv-bytes-per-token 131072 trace.jsonl
  kvset tune --engine vllm --provisioned 20000p --below lmcache:100000p --chunk-tokens 1024 trace.jsonl
  kvset tune --ttl 5m --provisioned 80GiB --kv-bytes-per-token 61464 --json trace.jsonl | jq .changes[0]";
