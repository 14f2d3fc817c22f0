//! A diagnosis for people.

use crate::doctor::{Diagnosis, Finding, FindingVerdict};
use crate::present::terminal::Terminal;
use crate::present::words::counted;

/// Columns before a finding's text.
const INDENT: usize = 23;

/// Whether there is an answer, then the findings, each with what follows and what to do.
pub(super) fn render(diagnosis: &Diagnosis, terminal: &Terminal) -> String {
    let counts = [FindingVerdict::Yes, FindingVerdict::Partly, FindingVerdict::No]
        .map(|verdict| format!("{} {}", diagnosis.count(verdict), verdict.name()));
    let head = match &diagnosis.why_not {
        None => {
            format!(
                "A replay of this log gives an answer, of {}",
                counted(diagnosis.requests, "request", "requests")
            )
        }
        Some(why) => format!("A replay of this log gives no answer: {why}"),
    };
    let mut text = terminal.paragraph(&format!("{head}. What the log can show: {}.", counts.join(", ")));
    for finding in &diagnosis.findings {
        text.push('\n');
        text.push_str(&line_of(finding, terminal));
    }
    text
}

fn line_of(finding: &Finding, terminal: &Terminal) -> String {
    let Finding { subject, verdict, evidence, meaning, cure, .. } = finding;
    let name = subject.name().replace('_', " ");
    let narrow =
        Terminal { width: terminal.width.map(|width| width.saturating_sub(INDENT).max(INDENT)), ..*terminal };
    let mut text = String::new();
    let mut head = format!("{:<8}{name:<15}", verdict.name());
    let cure = cure.as_ref().map(|cure| format!("cure: {cure}"));
    for part in [Some(evidence), Some(meaning), cure.as_ref()].into_iter().flatten() {
        for line in part.lines().flat_map(|part| {
            let paragraph = narrow.paragraph(part);
            paragraph.lines().map(str::to_owned).collect::<Vec<_>>()
        }) {
            text.push_str(format!("{head:<INDENT$}{line}").trim_end());
            text.push('\n');
            head.clear();
        }
    }
    text
}
