//! Names made of what a record says: `{model}/{cluster}`.

use kvset_core::units::names::listed;
use std::fmt;
use std::str::FromStr;

/// Text with places that each record fills.
///
/// | written | stands for |
/// |---|---|
/// | `{name}` | a top-level field that is a text, a number or a flag; of a request under `body`, one of its fields |
/// | `{a.b}` | a field of a field |
/// | `{key}` | the record's key |
/// | `{header:NAME}` | a header of the record |
/// | `{name?}` | the same, or nothing where it is missing; without `?` such a record is refused |
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    source: String,
    parts: Vec<TemplatePart>,
}

/// A part of a template, whose fields are named as `F` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart<F = Vec<String>> {
    /// Taken as it is.
    Text(String),
    /// Filled by the record.
    Place {
        /// From where.
        place: FieldPlace<F>,
        /// Whether it may be missing.
        optional: bool,
    },
}

/// Where in a record a name is found; a field is named by its path, outermost name first, or by whatever else `F` is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldPlace<F = Vec<String>> {
    /// The key.
    Key,
    /// The header of this name.
    Header(String),
    /// This field.
    Field(F),
}

/// Fields that hold what must not leave: a name made of them would.
const PROMPTS: [&str; 14] = listed(
    "messages prompt input_ids token_ids tokens input instructions system tools documents page_ids \
        output_page_ids content prompt_token_ids",
);

impl FieldPlace {
    /// The field with this dotted path.
    ///
    /// # Errors
    /// The path is empty, or leads to a prompt.
    pub fn field(path: &str) -> Result<Self, String> {
        let names: Vec<String> = path.split('.').map(str::to_owned).collect();
        if names.iter().any(|name| name.is_empty() || name.contains(['{', '}'])) {
            return Err(format!("`{path}` names no field: expected a name, or a path like metadata.cluster"));
        }
        if let Some(prompt) = names.iter().find(|name| PROMPTS.contains(&name.as_str())) {
            return Err(format!(
                "`{path}` leads to `{prompt}`, which holds a prompt and must not leave the log"
            ));
        }
        Ok(Self::Field(names))
    }
}

impl fmt::Display for FieldPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Field(names) => f.write_str(&names.join(".")),
        }
    }
}

impl Template {
    /// Its parts, in order.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.source)
    }
}

impl FromStr for Template {
    type Err = String;

    fn from_str(source: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = source;
        while let Some(open) = rest.find(['{', '}']) {
            let (text, from) = rest.split_at(open);
            let close = from.find('}').filter(|close| *close > 0);
            let close = close.ok_or_else(|| format!("`{source}` has a brace without its other half"))?;
            if !text.is_empty() {
                parts.push(TemplatePart::Text(text.to_owned()));
            }
            parts.push(place(&from[1..close])?);
            rest = &from[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Ok(Self { source: source.to_owned(), parts })
    }
}

fn place(text: &str) -> Result<TemplatePart, String> {
    let (name, optional) = text.strip_suffix('?').map_or((text, false), |name| (name, true));
    let place = match name.strip_prefix("header:") {
        _ if name == "key" => FieldPlace::Key,
        Some("") => return Err("`{header:}` names no header".to_owned()),
        Some(header) => FieldPlace::Header(header.to_owned()),
        None => FieldPlace::field(name)?,
    };
    Ok(TemplatePart::Place { place, optional })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(source: &str) -> Vec<TemplatePart> {
        source.parse::<Template>().expect(source).parts
    }

    fn field(path: &[&str], optional: bool) -> TemplatePart {
        let names = path.iter().map(|name| (*name).to_owned()).collect();
        TemplatePart::Place { place: FieldPlace::Field(names), optional }
    }

    #[test]
    fn a_template_is_text_and_places() {
        let slash = TemplatePart::Text("/".to_owned());
        assert_eq!(
            parts("{model}/{meta.cluster?}"),
            [field(&["model"], false), slash.clone(), field(&["meta", "cluster"], true)]
        );
        let header = TemplatePart::Place { place: FieldPlace::Header("x-pool".to_owned()), optional: false };
        let key = TemplatePart::Place { place: FieldPlace::Key, optional: false };
        assert_eq!(parts("{key}/{header:x-pool}"), [key, slash, header]);
        assert_eq!(parts("fixed"), [TemplatePart::Text("fixed".to_owned())]);
        assert!(parts("").is_empty());
    }

    #[test]
    fn what_is_no_template_is_refused_in_words() {
        for (source, word) in [
            ("{model", "brace"),
            ("model}", "brace"),
            ("{}", "names no field"),
            ("{a..b}", "names no field"),
            ("{header:}", "names no header"),
            ("{messages}", "prompt"),
            ("{body.prompt}", "prompt"),
            ("{token_ids?}", "prompt"),
        ] {
            let error = source.parse::<Template>().expect_err(source);
            assert!(error.contains(word), "{source}: {error}");
        }
    }

    #[test]
    fn a_template_reads_back_as_written() {
        for source in ["", "{model}/{cluster}", "p-{header:h?}"] {
            assert_eq!(source.parse::<Template>().expect(source).to_string(), source);
        }
    }
}
