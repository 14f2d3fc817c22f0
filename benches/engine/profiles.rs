//! The profiles with a stack alongside one another, through the engine as a pool uses it.

use crate::loads::Load;
use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::Profile;
use kvset::core::request::event::RequestEvent;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::PageSize;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::trace::{self, ReadOptions, TraceItem};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Paper first: the others are shown as multiples of its time.
const PROFILES: [Profile; 3] = [Profile::Paper, Profile::LeafFirst, Profile::Vllm];

/// A request held in memory.
struct Request {
    scope: Scope,
    ids: Vec<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Request {
    fn event(&self) -> RequestEvent<'_> {
        RequestEvent {
            scope: self.scope,
            page_ids: PageIds::from_slice(&self.ids),
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            ..RequestEvent::default()
        }
    }
}

/// Compares the profiles on a generated load, each request with an output of some pages.
pub fn compare_on_load(load: &Load) {
    let page_size = PageSize::new(64).expect("not zero");
    let request = |(scope, pages): (Scope, PageIds<'_>)| {
        let input_tokens = Some(pages.len() as u64 * 64 + 7);
        Request { scope, ids: pages.iter().collect(), input_tokens, output_tokens: Some(500) }
    };
    compare(load.name, page_size, &load.iter().map(request).collect::<Vec<_>>());
}

/// Compares the profiles on a trace file.
pub fn compare_on_trace(path: PathBuf) {
    let name = path.display().to_string();
    let mut reader = trace::open(&[path], &ReadOptions::default()).expect("a trace");
    let (mut requests, mut page_size) = (Vec::new(), None);
    while let Some(item) = reader.next_item().expect("a readable trace") {
        let TraceItem::Request(row) = item else { continue };
        page_size = page_size.or(row.event.page_size);
        requests.push(Request {
            scope: row.event.scope,
            ids: row.event.page_ids.iter().collect(),
            input_tokens: row.event.input_tokens,
            output_tokens: row.event.output_tokens,
        });
    }
    compare(&name, page_size.expect("a trace that names its page size"), &requests);
}

fn compare(name: &str, page_size: PageSize, requests: &[Request]) {
    let pages: usize = requests.iter().map(|request| request.ids.len()).sum();
    println!("\nprofiles on {name}: {} requests, {pages} pages; median of 5", requests.len());
    let mut times = PROFILES.map(|_| Vec::new());
    // In turns, so that a busy moment of the machine hits all of them.
    for _ in 0..5 {
        for (profile, times) in PROFILES.iter().zip(&mut times) {
            times.push(time(*profile, page_size, requests));
        }
    }
    let medians = times.map(|mut times| {
        times.sort();
        times[2]
    });
    for (profile, elapsed) in PROFILES.iter().zip(medians) {
        let ratio = elapsed.as_secs_f64() / medians[0].as_secs_f64();
        let rate = pages as f64 / elapsed.as_secs_f64() / 1e6;
        println!(
            "  {:<12} {elapsed:>10.2?} {rate:>8.1} M pages/s  {ratio:>5.2}x the time of paper",
            profile.name()
        );
    }
}

fn time(profile: Profile, page_size: PageSize, requests: &[Request]) -> Duration {
    let mut engine = Engine::new(EngineConfig { profile, ..EngineConfig::default() });
    let mut outcome = Outcome::default();
    let started = Instant::now();
    for request in requests {
        engine
            .observe(&request.event(), page_size, &mut outcome)
            .expect("a request as the reader checked it");
    }
    started.elapsed()
}
