//! Whose requests they are: models, replicas, sessions, tenants, and what keeps equal prompts apart.

use super::LogEvidence;
use super::census::NameCounts;
use super::finding::{Finding, FindingVerdict, Subject};
use crate::present::pool::Replicas;
use crate::present::words::{counted, integer, listed, short_name};

/// Characters of a name that are shown.
const SHOWN: usize = 40;
/// Models that are named.
const SHOWN_MODELS: usize = 4;

/// Which models the log is of.
pub(super) fn models(evidence: &LogEvidence<'_>) -> Finding {
    let pools = evidence.pools();
    let named = pools.iter().filter(|pool| pool.name.is_some()).count() as u64;
    let on = Subject::Models.with([("pools", pools.len() as u64), ("named", named)]);
    let told = |pool: &crate::replay::PoolReplay| {
        let name =
            pool.name.as_deref().map_or_else(|| "(no model)".to_owned(), |name| short_name(name, SHOWN));
        format!("{name} ({})", counted(pool.replay.requests, "request", "requests"))
    };
    let mut list: Vec<_> = pools.iter().take(SHOWN_MODELS).map(told).collect();
    if pools.len() > SHOWN_MODELS {
        list.push(format!("{} more", pools.len() - SHOWN_MODELS));
    }
    match (pools.len(), named) {
        (0, _) => on.no("no pool took a request", "no pool can be named")
            .cured_by("do what is said of the rows"),
        (1, 0) => on.partly(
            "no row names its model",
            "all requests count as one model's; if the log has several models, the answer fits none of their caches",
        )
        .cured_by("log the field model (in events pool), or make sure that the log is of one model"),
        (1, _) => on.yes(listed(&list), "one pool, one answer"),
        _ => on.yes(
            listed(&list),
            "each model is a pool with a cache and an answer of its own; --pool chooses one",
        ),
    }
}

/// Which cache served each request.
pub(super) fn replicas(evidence: &LogEvidence<'_>) -> Finding {
    let names = &evidence.census.replicas;
    let shown: Vec<_> = names.shown.iter().map(|name| short_name(name, SHOWN)).collect();
    let among = if shown.is_empty() { String::new() } else { format!(", such as {}", listed(&shown)) };
    let finding = named(evidence, Subject::Replicas, names, ("replica", "replicas"), &among);
    match finding.verdict {
        FindingVerdict::No => finding
            .meaning("the log is taken as that of one cache: with several replicas behind it, what routing loses is unknown")
            .cured_by("log which instance served each request (replica)"),
        FindingVerdict::Partly => finding
            .meaning("requests without a name count as those of one more replica")
            .cured_by("log replica with every request"),
        FindingVerdict::Yes => {
            let apart = evidence.pools().iter().filter_map(|pool| {
                let whole = pool.replay.whole.as_ref()?;
                Some(Replicas::of(whole)?.apart(whole.recommendation()?.coverage, whole.page_bytes))
            });
            let mut meaning = vec!["measured hits are compared with the cache of each replica".to_owned()];
            meaning.extend(apart.map(|said| said.trim_end_matches('.').to_owned()));
            finding.meaning(meaning.join("; "))
        }
    }
}

/// Which requests are of one conversation.
pub(super) fn sessions(evidence: &LogEvidence<'_>) -> Finding {
    let times = &evidence.census.findings.times;
    let finding = named(evidence, Subject::Sessions, &evidence.census.sessions, ("session", "sessions"), "")
        .with([
            ("later_requests_same_start", times.same_start),
            ("later_requests_other_start", times.other_start),
        ]);
    if times.same_start == 0 && times.other_start > 0 {
        let text = format!(
            "{}; none of {} later requests begins with the page its session began with",
            finding.evidence,
            integer(times.other_start)
        );
        return Finding { evidence: text, verdict: FindingVerdict::Partly, ..finding }
            .meaning("rows may list only what a turn adds, and then nothing is found again")
            .cured_by("read them with --format mooncake-delta, or log whole prompts");
    }
    match finding.verdict {
        FindingVerdict::No => finding
            .meaning("capacities need no sessions; --router hash by session and --id-scope session cannot be tried")
            .cured_by("log session_id where these matter"),
        _ => finding.meaning("routing by session can be tried: --router hash:N"),
    }
}

/// On whose behalf requests were made.
pub(super) fn tenants(evidence: &LogEvidence<'_>) -> Finding {
    let finding = named(evidence, Subject::Tenants, &evidence.census.tenants, ("tenant", "tenants"), "");
    match finding.verdict {
        FindingVerdict::No => finding
            .meaning("capacities need no tenants; --tenants cannot say whose pages they are")
            .cured_by("log tenant where that matters"),
        FindingVerdict::Partly => finding
            .meaning("--tenants attributes the others to nobody")
            .cured_by("log tenant with every request"),
        FindingVerdict::Yes => finding.meaning("--tenants says whose pages they are"),
    }
}

/// What keeps equal prompts apart.
pub(super) fn scopes(evidence: &LogEvidence<'_>) -> Finding {
    let names = &evidence.census.scopes;
    let finding = named(evidence, Subject::Scopes, names, ("scope of ids", "scopes of ids"), "");
    match finding.verdict {
        FindingVerdict::No => finding
            .meaning("equal ids are one page: right where the engine has no cache salts and adapters, or its ids hold them")
            .cured_by("log cache_salt and the adapter's name where requests have them"),
        _ => finding.meaning("equal prompts of two scopes are two pages, as in the engine"),
    }
}

/// What the log names of a kind; `among` follows the count.
fn named(
    evidence: &LogEvidence<'_>,
    subject: Subject,
    names: &NameCounts,
    (one, many): (&str, &str),
    among: &str,
) -> Finding {
    let all = evidence.census.requests;
    let text = match names.requests {
        0 => format!("none of {} names one", counted(all, "request", "requests")),
        some => format!(
            "{}{among}; {} of {} have one",
            counted(names.count(), one, many),
            integer(some),
            counted(all, "request", "requests")
        ),
    };
    let verdict = FindingVerdict::of_part(names.requests, all);
    let numbers = [("requests", all), ("with", names.requests), ("different", names.count())];
    subject.with(numbers).finding(verdict, text, "")
}
