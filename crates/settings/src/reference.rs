//! The reference of all settings, as a page of the documentation.

use super::{FieldDoc, PoolSettings, Settings, SettingsSection, TierSettings};

/// What the page begins with.
const PREAMBLE: &str = "\
# Configuration

<!-- Made by `kvset config reference` from the types in src/settings/sections.rs; a test keeps it so. -->

Settings stand in a TOML file that `--config FILE` or `KVSET_CONFIG` names. `kvset config default` prints one with every
setting at its default, `kvset config check FILE` names every problem of one, and `kvset config show` prints what is in
effect.

- Any setting can also come from the environment, which wins over the file: `[estimate] page_size` is
  `KVSET__ESTIMATE__PAGE_SIZE`; lists are separated by commas.
- Durations are written `250ms`, `30s`, `5m`, `1h`, `1d`; sizes `64MiB`, `1.5TB`; capacities also in pages, `5000p`.
- An unknown key or a value out of range is refused, with exit code 2.
- Settings marked **\u{2022}** shape results and enter the *fingerprint* of the configuration: changing one makes the service
  rebuild its state from the log. See [upgrades](operations.md#upgrades-and-the-fingerprint).
";

/// The page, in Markdown.
pub fn reference_markdown() -> String {
    let mut text = PREAMBLE.to_owned();
    for section in Settings::default().sections() {
        describe(&mut text, &format!("[{}]", section.name), section.about, &section.fields);
    }
    describe(&mut text, "[[tiers]]", TierSettings::ABOUT, &TierSettings::default().fields());
    describe(&mut text, "[[pools]]", PoolSettings::ABOUT, &PoolSettings::default().fields());
    text
}

/// One section with the table of its settings.
fn describe(text: &mut String, header: &str, about: &[&str], fields: &[FieldDoc]) {
    text.push_str(&format!("\n## `{header}`\n\n{}\n\n", about.join("").trim()));
    text.push_str("| setting | default | meaning |\n|---|---|---|\n");
    for field in fields {
        let mark = if field.shapes_results { " **\u{2022}**" } else { "" };
        let meaning = format!("{} *Allowed:* {}.", field.doc.join("").trim(), field.allowed);
        text.push_str(&format!("| `{}`{mark} | {} | {} |\n", field.name, default(field), cell(&meaning)));
    }
}

/// What holds where nothing is written, or an example of what could be.
fn default(field: &FieldDoc) -> String {
    let code = |value: &String| format!("`{}`", cell(value));
    match (&field.value, &field.example) {
        // A name that is empty cannot be left out: only the blocks that may be repeated have such.
        (Some(value), Some(example)) if value == "\"\"" => format!("required; for example {}", code(example)),
        (Some(value), _) => code(value),
        (None, Some(example)) => format!("none; for example {}", code(example)),
        (None, None) => "none".to_owned(),
    }
}

/// Text that cannot end a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECTIONS;

    #[test]
    fn every_section_and_every_setting_is_there() {
        let text = reference_markdown();
        for name in SECTIONS {
            let headed = [format!("## `[{name}]`\n"), format!("## `[[{name}]]`\n")];
            assert!(headed.iter().any(|header| text.contains(header)), "{name} is missing");
        }
        for section in Settings::default().sections() {
            for field in section.fields {
                assert!(text.contains(&format!("| `{}`", field.name)), "{}.{}", section.name, field.name);
            }
        }
    }

    #[test]
    fn every_row_has_three_cells() {
        for row in reference_markdown().lines().filter(|line| line.starts_with("| `")) {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 4, "{row}");
        }
    }
}
