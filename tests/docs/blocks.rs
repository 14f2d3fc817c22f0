//! The command blocks of a page, with how each is to be run.
//!
//! A comment before a block says what it needs or why it is not run:
//!
//! ```text
//! <!-- docs: skip REASON -->             not run
//! <!-- ci: NAME -->                      run by .ci/run, as it stands
//! <!-- docs: kafka -->                   needs a broker; localhost:9092 stands for it
//! <!-- docs: kafka background -->        left running until the page ends, then asked to stop
//! <!-- docs: kafka until 'TEXT' -->      repeated until its output holds the text
//! <!-- docs: output -->                  its output begins with the text block that follows
//! ```

use std::path::Path;

/// A block of commands.
#[derive(Debug)]
pub struct Block {
    /// File and line, for messages.
    pub place: String,
    /// What the reader is to type.
    pub commands: String,
    /// What is done with it here.
    pub manner: Manner,
    /// What its output begins with, where that is shown.
    pub shown: Option<String>,
}

/// What is done with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manner {
    /// Nothing, for this reason.
    Skip(String),
    /// `.ci/run` takes it from the page by this name.
    Ci(String),
    /// It is run.
    Run(Needs),
}

/// How a block is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    pub kafka: bool,
    pub background: bool,
    pub until: Option<String>,
    pub output: bool,
}

impl Manner {
    /// What a comment says; `None` for a comment that is for people.
    fn parse(comment: &str) -> Option<Self> {
        let words = comment.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        if let Some(name) = words.strip_prefix("ci:") {
            return Some(Self::Ci(name.trim().to_owned()));
        }
        let mut rest = words.strip_prefix("docs:")?.trim();
        if let Some(reason) = rest.strip_prefix("skip") {
            return Some(Self::Skip(reason.trim().to_owned()));
        }
        let mut needs = Needs::default();
        while !rest.is_empty() {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim();
            match word {
                "kafka" => needs.kafka = true,
                "background" => needs.background = true,
                "output" => needs.output = true,
                "until" => {
                    let quoted = rest.strip_prefix('\'').and_then(|text| text.split_once('\''));
                    let (text, after) = quoted.expect("until 'TEXT'");
                    needs.until = Some(text.to_owned());
                    rest = after.trim();
                }
                _ => panic!("`{comment}` asks for `{word}`, which is not known"),
            }
        }
        Some(Self::Run(needs))
    }
}

/// Reads the command blocks of a page.
///
/// # Panics
/// A block of commands is not marked `sh`, or a block whose output is checked is followed by no text.
pub fn blocks_of(path: &Path, name: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut lines = text.lines().enumerate();
    let mut blocks: Vec<Block> = Vec::new();
    let mut manner = None;
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            if !line.is_empty() {
                manner = Manner::parse(line);
            }
            continue;
        };
        let place = format!("{name}:{}", number + 1);
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let body = body.collect::<Vec<_>>().join("\n");
        match language {
            "sh" => {
                let manner = manner.take().unwrap_or(Manner::Run(Needs::default()));
                blocks.push(Block { place, commands: body, manner, shown: None });
            }
            "bash" | "shell" | "console" | "zsh" => panic!("{place}: mark command blocks `sh`"),
            _ => note_output(blocks.last_mut(), body),
        }
    }
    for block in &blocks {
        let demanded = matches!(&block.manner, Manner::Run(needs) if needs.output);
        assert!(!demanded || block.shown.is_some(), "{}: no text block with its output", block.place);
    }
    blocks
}

/// The first text after a block whose output is checked is that output.
fn note_output(block: Option<&mut Block>, text: String) {
    if let Some(block) = block
        && matches!(&block.manner, Manner::Run(needs) if needs.output)
        && block.shown.is_none()
    {
        block.shown = Some(text);
    }
}

#[test]
fn comments_say_how_a_block_is_run() {
    let run = |needs| Some(Manner::Run(needs));
    let kafka = Needs { kafka: true, ..Needs::default() };
    assert_eq!(Manner::parse("<!-- docs: kafka -->"), run(kafka.clone()));
    assert_eq!(
        Manner::parse("<!-- docs: kafka until 'a b' -->"),
        run(Needs { until: Some("a b".to_owned()), ..kafka })
    );
    assert_eq!(Manner::parse("<!-- docs: skip no time -->"), Some(Manner::Skip("no time".to_owned())));
    assert_eq!(Manner::parse("<!-- ci: test -->"), Some(Manner::Ci("test".to_owned())));
    assert_eq!(Manner::parse("<!-- a note -->"), None);
}
