//! The configuration as text: the commented default, and what is in effect.

use super::{FieldDoc, PoolSettings, SectionDoc, Settings, SettingsSection, TierSettings};

/// What the default configuration begins with.
const PREAMBLE: &str = "\
# The configuration of kvset, with every setting at its default. Made by `kvset config default`.
#
# Any setting can also come from the environment, which wins over this file: [estimate] page_size is
# KVSET__ESTIMATE__PAGE_SIZE, and lists are separated by commas. Durations are written 250ms, 30s, 5m,
# 1h, 1d. Settings marked (shapes results) enter the configuration's fingerprint: changing one makes
# the service rebuild its state from the log.
";

/// Lines of comments are wrapped at this many characters.
const WIDTH: usize = 100;

/// The default configuration, every setting with its meaning, range and default.
pub fn default_toml() -> String {
    let mut text = PREAMBLE.to_owned();
    for section in Settings::default().sections() {
        begin(&mut text, section.about, "", &format!("[{}]", section.name));
        section.fields.iter().for_each(|field| documented(&mut text, field));
    }
    block(&mut text, TierSettings::ABOUT, "[[tiers]]", TierSettings::default().fields());
    block(&mut text, PoolSettings::ABOUT, "[[pools]]", PoolSettings::default().fields());
    text
}

/// A block that may be repeated, commented out; a setting without an example shows its default.
fn block(text: &mut String, about: &[&str], header: &str, fields: Vec<FieldDoc>) {
    begin(text, about, "# ", header);
    for field in fields {
        let example = field.example.clone().or_else(|| field.value.clone());
        documented(text, &FieldDoc { value: None, example, ..field });
    }
}

/// A section's comment and header.
fn begin(text: &mut String, about: &[&str], mark: &str, header: &str) {
    text.push('\n');
    comment(text, &about.join(""));
    text.push_str(&format!("{mark}{header}\n"));
}

/// One setting with its meaning and range; commented out where it has no default.
fn documented(text: &mut String, field: &FieldDoc) {
    text.push('\n');
    comment(text, &field.doc.join(""));
    let mark = if field.shapes_results { " (shapes results)" } else { "" };
    comment(text, &format!(" Allowed: {}.{mark}", field.allowed));
    match (&field.value, &field.example) {
        (Some(value), _) => text.push_str(&format!("{} = {value}\n", field.name)),
        (None, Some(example)) => text.push_str(&format!("# {} = {example}\n", field.name)),
        (None, None) => text.push_str(&format!("# {} =\n", field.name)),
    }
}

/// Words as lines of comment.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

impl Settings {
    /// What is in effect, as TOML that reads back the same but for masked secrets.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for SectionDoc { name, fields, .. } in self.sections() {
            table(&mut text, &format!("[{name}]"), &fields);
        }
        for tier in &self.tiers {
            table(&mut text, "[[tiers]]", &tier.fields());
        }
        for pool in &self.pools {
            table(&mut text, "[[pools]]", &pool.fields());
        }
        text
    }
}

/// One table with the settings that have a value.
fn table(text: &mut String, header: &str, fields: &[FieldDoc]) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(header);
    text.push('\n');
    for field in fields {
        if let Some(value) = &field.value {
            text.push_str(&format!("{} = {value}\n", field.name));
        }
    }
}
