//! Agentic traffic for benches: sessions behind a shared prefix grow by some 70 pages a request, in random
//! turns; one request in sixteen is a sub-agent's that leaves its session half-way.

use kvset::core::units::pages::mix;

/// Sessions alive at once.
const SESSIONS: u64 = 5000;

/// The page ids of request after request.
pub struct Agentic {
    sessions: Vec<Vec<u64>>,
    turn: u64,
    longest: usize,
}

impl Agentic {
    /// Sessions that begin anew once a request has this many pages.
    pub fn new(longest: usize) -> Self {
        let shared: Vec<u64> = (0..200).map(mix).collect();
        Self { sessions: vec![shared; SESSIONS as usize], turn: 0, longest }
    }
}

impl Iterator for Agentic {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        self.turn += 1;
        let chance = mix(self.turn);
        let session = &mut self.sessions[(chance % SESSIONS) as usize];
        let grown = 40 + (chance >> 32) % 60;
        let branch = chance >> 60 == 0;
        let kept = if branch { session.len() / 2 } else { session.len() };
        let mut request = session[..kept].to_vec();
        request.extend((0..grown).map(|page| mix(self.turn << 8 | page)));
        if request.len() > self.longest {
            session.truncate(200);
        } else if !branch {
            session.clone_from(&request);
        }
        Some(request)
    }
}
