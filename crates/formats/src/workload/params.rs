//! What a workload looks like.

use kvset_core::units::PageSize;

/// Activity at each of 24 equal parts of a day, in thousandths of the peak: quiet before dawn, a
/// morning and an afternoon peak, a fall in the evening.
const RHYTHM: [u64; 24] = [
    60, 40, 30, 20, 20, 40, 120, 300, 600, 850, 950, 900, 700, 800, 950, 1000, 950, 800, 600, 450, 350, 250,
    150, 90,
];

/// Parameters of a workload. The defaults give a small team of coding agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Same seed and parameters, same requests.
    pub seed: u64,
    /// Event time of the first possible arrival, in milliseconds; a day begins at 0.
    pub start_ms: i64,
    /// Length of a day in milliseconds: a shorter one shows the rhythm sooner.
    pub day_ms: u64,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Sessions that begin in a day, on average.
    pub sessions_per_day: u64,
    /// Sessions and sub-agents alive at once; whoever comes beyond that goes away.
    pub max_sessions: usize,
    /// System prompts that users' sessions share.
    pub system_prompts: u64,
    /// System prompts that sub-agents share.
    pub agent_prompts: u64,
    /// Tokens of a system prompt and its tools, on average.
    pub system_tokens: u64,
    /// Turns of a session, on average; none has more than eight times as many.
    pub mean_turns: u64,
    /// Turns of a sub-agent, on average.
    pub mean_agent_turns: u64,
    /// Tokens a turn adds to the prompt, on average.
    pub mean_turn_tokens: u64,
    /// Tokens generated a turn, on average.
    pub mean_output_tokens: u64,
    /// Pause between an answer and the next turn, in milliseconds, on average.
    pub mean_pause_ms: u64,
    /// Context at which a session is compacted, in tokens.
    pub max_context_tokens: u64,
    /// Turns in a thousand that send the same prompt again.
    pub retry_permille: u64,
    /// Turns in a thousand that cut up to four turns and go on differently.
    pub edit_permille: u64,
    /// Turns in a thousand that start a sub-agent.
    pub agent_permille: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            seed: 1,
            start_ms: 0,
            day_ms: 86_400_000,
            page_size: const { PageSize::new(64).unwrap() },
            sessions_per_day: 400,
            max_sessions: 1000,
            system_prompts: 5,
            agent_prompts: 3,
            system_tokens: 16_000,
            mean_turns: 30,
            mean_agent_turns: 8,
            mean_turn_tokens: 1_800,
            mean_output_tokens: 300,
            mean_pause_ms: 25_000,
            max_context_tokens: 180_000,
            retry_permille: 15,
            edit_permille: 30,
            agent_permille: 30,
        }
    }
}

/// A parameter is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("workload parameter {name} is {value}: expected {low} to {high}")]
pub struct WorkloadError {
    name: &'static str,
    value: u64,
    low: u64,
    high: u64,
}

impl Workload {
    /// Refuses what would not terminate, overflow or grow without bound.
    pub(super) fn check(&self) -> Result<(), WorkloadError> {
        const YEAR_MS: u64 = 366 * 86_400_000;
        const TOKENS: u64 = 10_000_000;
        let page_tokens = u64::from(self.page_size.get());
        let ranges = [
            ("day_ms", self.day_ms, 24, YEAR_MS),
            ("page_size", page_tokens, 1, 1 << 20),
            ("sessions_per_day", self.sessions_per_day, 1, 100_000_000),
            ("max_sessions", self.max_sessions as u64, 1, 1_000_000),
            ("system_prompts", self.system_prompts, 1, 10_000),
            ("agent_prompts", self.agent_prompts, 1, 10_000),
            ("system_tokens", self.system_tokens, 0, TOKENS / 10),
            ("mean_turns", self.mean_turns, 0, 100_000),
            ("mean_agent_turns", self.mean_agent_turns, 0, 100_000),
            ("mean_turn_tokens", self.mean_turn_tokens, 1, TOKENS / 100),
            ("mean_output_tokens", self.mean_output_tokens, 1, TOKENS / 100),
            ("mean_pause_ms", self.mean_pause_ms, 0, YEAR_MS),
            ("max_context_tokens", self.max_context_tokens, 2 * self.system_tokens, TOKENS),
            ("retry_permille", self.retry_permille, 0, 1000),
            ("edit_permille", self.edit_permille, 0, 1000),
            ("agent_permille", self.agent_permille, 0, 1000),
        ];
        for (name, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                return Err(WorkloadError { name, value, low, high });
            }
        }
        Ok(())
    }

    /// Mean time between possible arrivals at the day's peak, in milliseconds.
    pub(super) fn peak_gap_ms(&self) -> u64 {
        let mean_permille = RHYTHM.iter().sum::<u64>() / RHYTHM.len() as u64;
        self.day_ms * mean_permille / 1000 / self.sessions_per_day
    }

    /// Activity at a moment, in thousandths of the day's peak, along straight lines between the hours.
    pub(super) fn activity_permille(&self, time_ms: i64) -> u64 {
        let of_day = i128::from(time_ms).rem_euclid(i128::from(self.day_ms)) as u64;
        let scaled = u128::from(of_day) * RHYTHM.len() as u128 * 1000 / u128::from(self.day_ms);
        let (part, way) = ((scaled / 1000) as usize, (scaled % 1000) as u64);
        let (from, to) = (RHYTHM[part % RHYTHM.len()], RHYTHM[(part + 1) % RHYTHM.len()]);
        (from * (1000 - way) + to * way) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rhythm_follows_the_day_before_and_after_zero() {
        let day = Workload::default();
        let hour = 3_600_000;
        assert_eq!(day.activity_permille(15 * hour), 1000);
        assert_eq!(day.activity_permille(3 * hour + hour / 2), 20);
        assert_eq!(day.activity_permille(-9 * hour), 1000);
        assert_eq!(day.activity_permille(23 * hour + hour / 2), 75, "between the last hour and the first");
    }

    #[test]
    fn refuses_what_is_out_of_range_by_name() {
        let refused = |workload: Workload| workload.check().expect_err("out of range").to_string();
        assert_eq!(
            refused(Workload { retry_permille: 1001, ..Workload::default() }),
            "workload parameter retry_permille is 1001: expected 0 to 1000"
        );
        assert!(
            refused(Workload { max_context_tokens: 100, ..Workload::default() })
                .contains("max_context_tokens")
        );
        assert_eq!(Workload::default().check(), Ok(()));
    }
}
