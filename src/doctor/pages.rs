//! What page ids stand for, how large pages are, and what the engine found of them.

use super::LogEvidence;
use super::finding::{Finding, FindingVerdict, Subject};
use crate::present::words::{counted, integer, listed, rate, short_name};
use crate::replay::{PoolReplay, Replay};
use kvset_core::questions::measured::Verdict as MeasuredVerdict;
use kvset_core::sizing::curve::share;
use kvset_formats::trace::Format;

/// Tokens of a page from which on much may be shared within one.
const COARSE_PAGE: u32 = 256;
/// Ids below this are counted up rather than hashed.
const SMALLEST_HASH: u64 = 1 << 32;

/// Whether page ids are made here, of tokens or of text.
fn are_made_here(format: Format) -> bool {
    matches!(format, Format::TokenIds | Format::Openai | Format::Log(_))
}

/// What page ids stand for.
pub(super) fn ids(evidence: &LogEvidence<'_>) -> Finding {
    let census = evidence.census;
    let sum = |of: fn(&Replay) -> u64| evidence.pools().iter().map(|pool| of(&pool.replay)).sum::<u64>();
    let accesses = sum(|replay| replay.estimate().page_accesses);
    let hits = sum(|replay| replay.estimate().theoretical.prefix_hits);
    let violations = sum(|replay| replay.chain_violations);
    let on = Subject::Ids.with([
        ("page_accesses", accesses),
        ("prefix_hits", hits),
        ("distinct_pages", sum(|replay| replay.distinct_pages.0)),
        ("chained_requests", census.pages.chained),
        ("chain_violations", violations),
        ("requests_without_pages", census.pages.without),
        ("requests_with_scheme", census.id_schemes.requests),
        ("schemes", census.id_schemes.count()),
    ]);
    if accesses == 0 {
        let text = format!("no prompt of {} fills a page", counted(census.requests, "request", "requests"));
        return on
            .no(text, "there is nothing that a cache could keep")
            .cured_by("log the ids of all pages of each prompt, or its token ids, or its text");
    }
    let found = format!(
        "{} of {} accesses found their page ({})",
        integer(hits),
        integer(accesses),
        rate(share(hits, accesses))
    );
    let is_chained = census.pages.chained == census.requests && census.requests > 0;
    let made =
        !census.findings.formats.is_empty() && census.findings.formats.iter().copied().all(are_made_here);
    let schemes = &census.id_schemes;
    let kind = if schemes.count() > 0 && !made {
        let names: Vec<_> = schemes.shown.iter().map(|name| short_name(name, 48)).collect();
        let of = counted(schemes.requests, "request", "requests");
        format!(
            "ids of {of} are of {} {}",
            if names.len() == 1 { "scheme" } else { "schemes" },
            listed(&names)
        )
    } else if made {
        "kvset hashed each prompt's tokens into chained page ids".to_owned()
    } else if is_chained {
        "ids are declared chained: each stands for its page and all before it".to_owned()
    } else if census.pages.chained > 0 {
        format!(
            "ids of {} of {} requests are declared chained",
            integer(census.pages.chained),
            integer(census.requests)
        )
    } else if census.pages.largest_id < SMALLEST_HASH {
        "ids are numbers counted up, not declared chained".to_owned()
    } else {
        "ids are hashes, not declared chained".to_owned()
    };
    let text = format!("{kind}; {found}");
    if hits == 0 && census.requests > 1 {
        return on.no(
            format!("{text}: no page occurs again"),
            "either nothing is shared, or ids hold what differs in each request (a time, an id, a salt), and no cache would help",
        )
        .cured_by("log the engine's own block hashes, or token ids: kvset prefixes shows where prompts part");
    }
    let is_refused =
        census.ledger.reasons.keys().any(|reason| reason.contains("ids of two schemes never match"));
    if is_refused {
        return on.partly(
            text,
            "ids of two schemes never match: each pool takes the scheme of its first request that names one, and refuses the others",
        )
        .cured_by("give each scheme a pool of its own, or log all requests with one scheme");
    }
    match violations {
        0 => on.yes(text, "equal ids are taken as equal prefixes"),
        _ if census.pages.chained == 0 => on.yes(
            format!("{text}; {} of the ids watched stand behind different prefixes, as hashes of single pages do", integer(violations)),
            "kvset distinguishes pages by their whole prefix, so the counts are exact all the same",
        ),
        _ => on.partly(
            format!("{text}; {} of the ids watched stand behind different prefixes", integer(violations)),
            "ids that are declared chained are not, or of several schemes: counts are exact only from the first of these on",
        )
        .cured_by("declare ids_chained only where each id is a hash over its page and all before it"),
    }
}

/// How many tokens a page has.
pub(super) fn size(evidence: &LogEvidence<'_>) -> Finding {
    let sizes = &evidence.census.pages.sizes;
    let on = Subject::PageSize
        .with([("sizes", sizes.len() as u64), ("tokens", sizes.keys().next().copied().map_or(0, u64::from))]);
    let told: Vec<_> = sizes
        .iter()
        .take(8)
        .map(|(size, count)| format!("{size} tokens ({})", counted(*count, "request", "requests")))
        .collect();
    match sizes.keys().collect::<Vec<_>>().as_slice() {
        [] => on.no("no request says how many tokens a page has", "pages cannot be counted in tokens")
            .cured_by("name it with --page-size"),
        [size] if **size >= COARSE_PAGE => on.partly(
            listed(&told),
            "what prompts share within a page is not seen: an engine with blocks of 16 to 64 tokens finds more, and needs no more",
        )
        .cured_by("log pages of the engine's block size"),
        [_] => on.yes(listed(&told), "sizes in pages are sizes in tokens"),
        _ => on.partly(
            listed(&told),
            "a cache has pages of one size: each pool takes that of its first request and refuses the others",
        )
        .cured_by("log one size for each pool, and give another model or deployment a pool of its own"),
    }
}

/// Whether prompts say how many tokens they have.
pub(super) fn prompt_tokens(evidence: &LogEvidence<'_>) -> Finding {
    let (with, all) = (evidence.census.with_input_tokens, evidence.census.requests);
    let verdict = FindingVerdict::of_part(with, all);
    let text =
        format!("{} of {} state their prompt's tokens", integer(with), counted(all, "request", "requests"));
    let on = Subject::PromptTokens.with([("requests", all), ("with", with)]);
    match verdict {
        FindingVerdict::Yes => on.yes(text, "hit rates by tokens count the rest of the last page"),
        _ => on
            .finding(
                verdict,
                text,
                "prompts without them count as their pages, and a last page that is not full as a full one",
            )
            .cured_by("log input_tokens (input_length) with every request"),
    }
}

/// Whether the engine's own hits are in the log, and can be true.
pub(super) fn cached_tokens(evidence: &LogEvidence<'_>) -> Finding {
    let (cached, all) = (&evidence.census.cached, evidence.census.requests);
    let measured = evidence
        .pools()
        .iter()
        .filter_map(|pool| Some((pool, pool.replay.whole.as_ref()?.measured.as_ref()?)));
    let beyond: u64 = measured.clone().map(|(_, found)| found.pages_beyond_log).sum();
    let unlimited: u64 = measured.clone().map(|(_, found)| found.ledger.unlimited_pages).sum();
    let accesses: u64 = measured.clone().map(|(_, found)| found.ledger.page_accesses).sum();
    let on = Subject::CachedTokens.with([
        ("requests", all),
        ("with", cached.stated),
        ("left_out", cached.left_out),
        ("zero", cached.zero),
        ("broken_pages", cached.broken_pages),
        ("cached_tokens", cached.tokens),
        ("prompt_tokens", cached.prompt_tokens),
        ("pages_beyond_log", beyond),
    ]);
    if cached.stated == 0 {
        let left_out = match cached.left_out {
            0 => String::new(),
            some => format!("; usages of {} leave them out", counted(some, "request", "requests")),
        };
        let text =
            format!("none of {} states its cached tokens{left_out}", counted(all, "request", "requests"));
        return on.no(
            text,
            "the log shows the capacity that the traffic needs, but not what the cache in use behaves like and what is lost where",
        )
        .cured_by(
            "have the engine report them: vLLM --enable-prompt-tokens-details or the connector kvset.vllm, SGLang \
             --enable-cache-report",
        );
    }
    let by_tokens = rate(share(cached.tokens, cached.prompt_tokens));
    let unlimited_rate = rate(share(unlimited, accesses));
    let text = format!(
        "{} of {} state them, {} of them zero: {by_tokens} of their tokens; without limit {unlimited_rate} of pages",
        integer(cached.stated),
        counted(all, "request", "requests"),
        integer(cached.zero)
    );
    let partly = |why: &str, meaning: &str, cure: &str| {
        let text = if why.is_empty() { text.clone() } else { format!("{text}; {why}") };
        on.partly(text, meaning).cured_by(cure)
    };
    if measured.clone().any(|(_, found)| found.decode_side) {
        return on.no(
            format!("{text}; every request reports all of its prompt but the last token"),
            "that is the decode side of a split deployment, which is handed its prompts: it says nothing about a cache",
        )
        .cured_by("log the prefill workers");
    }
    if measured.clone().any(|(_, found)| found.verdict == Some(MeasuredVerdict::IdScope)) {
        let why = format!("{} more than the log's prompts explain", counted(beyond, "page", "pages"));
        return partly(
            &why,
            "the engine shares more than the ids say, or the log lacks requests: not plausible as they stand",
            MeasuredVerdict::IdScope.advice(1)[0],
        );
    }
    let has = |verdict| measured.clone().any(|(_, found)| found.verdict == Some(verdict));
    for (verdict, why, meaning) in [
        (
            MeasuredVerdict::NothingFound,
            "all are zero",
            "prefix caching is off, or the count is not reported, or a provider looked nothing up",
        ),
        (
            MeasuredVerdict::LargerBlocks,
            "they come in steps larger than a page",
            "the engine's blocks are larger than the page size: nothing shows what is lost at this one",
        ),
        (
            MeasuredVerdict::TimeLimit,
            "a limit of time explains them, and no capacity does",
            "the cache forgets by time, not by size",
        ),
    ] {
        if has(verdict) {
            return partly(why, meaning, verdict.advice(1)[0]);
        }
    }
    if let Some((pool, found)) =
        measured.clone().find(|(_, found)| found.verdict == Some(MeasuredVerdict::NoCapacity))
    {
        let of_pool = pool_name(pool);
        let agreement = found.effective_capacity.map_or(0.0, |capacity| capacity.agreement);
        let why = format!("only {} of requests{of_pool} agree on a capacity", rate(agreement));
        return partly(
            &why,
            "no cache of one size explains them",
            MeasuredVerdict::NoCapacity.advice(found.replicas)[0],
        );
    }
    match FindingVerdict::of_part(cached.stated, all) {
        FindingVerdict::Yes => on.yes(
            text,
            "plausible: what the cache in use behaves like, and what is lost to capacity, routing and the engine, can be reported",
        ),
        _ => partly(
            "",
            "those without are left out where measured hits are compared",
            "log cached_tokens with every request, zeros too",
        ),
    }
}

fn pool_name(pool: &PoolReplay) -> String {
    pool.name.as_deref().map(|name| format!(" of {}", short_name(name, 40))).unwrap_or_default()
}

/// What the log says of what was generated.
pub(super) fn outputs(evidence: &LogEvidence<'_>) -> Finding {
    let (census, all) = (evidence.census, evidence.census.requests);
    let (pages, tokens) = (census.pages.with_outputs, census.with_output_tokens);
    let unseen = evidence.pools().iter().any(|pool| pool.replay.estimate().output_reuse_unseen);
    let on = Subject::Outputs.with([("requests", all), ("with_tokens", tokens), ("with_pages", pages)]);
    let text = format!(
        "{} of {} state the tokens they generated, {} list the pages",
        integer(tokens),
        counted(all, "request", "requests"),
        integer(pages)
    );
    let finding = |verdict, meaning| on.finding(verdict, text.clone(), meaning);
    match (pages, tokens) {
        (pages, _) if pages == all => finding(FindingVerdict::Yes, "what an answer leaves in the cache is found by the turn that brings it back"),
        (0, 0) => finding(FindingVerdict::No, "answers take no room in the model: a live engine keeps them for the next turn")
            .cured_by("log output_tokens, and output_page_ids where they are known"),
        (0, _) if unseen => finding(
            FindingVerdict::Partly,
            "answers take room; whether a later prompt brings them back is seen by their prompts' ids only, and bounded from both sides",
        )
        .cured_by("log output_page_ids"),
        _ => finding(FindingVerdict::Partly, "answers take room where their tokens or pages are stated; reuse of the others is not seen")
            .cured_by("log output_tokens and output_page_ids with every request"),
    }
}
