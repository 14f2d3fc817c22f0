//! Values written as Python writes them: chat templates are made for Python's Jinja2, and a float or a
//! separator written otherwise is another prompt.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::fmt::Write;

/// How `json.dumps` is to write.
struct Style {
    ensure_ascii: bool,
    /// What one level is indented by; none for a single line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The filter `tojson` as `transformers` defines it: `json.dumps` with its defaults, except that
/// characters beyond ASCII stay as they are.
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<String, Error> {
    let ensure_ascii = ensure_ascii.or(options.get("ensure_ascii")?).unwrap_or(false);
    let indent = indent_of(indent.or(options.get("indent")?))?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(invalid("separators are two")),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let style = Style { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    let mut json = String::new();
    style.write(&mut json, value, 0)?;
    Ok(json)
}

fn indent_of(indent: Option<Value>) -> Result<Option<String>, Error> {
    /// Beyond this, an indentation is a mistake or an attack.
    const MAX_INDENT: usize = 64;
    let Some(indent) = indent.filter(|indent| !indent.is_none()) else { return Ok(None) };
    if let Some(text) = indent.as_str() {
        return Ok(Some(text.to_owned()));
    }
    let width = usize::try_from(indent).unwrap_or(MAX_INDENT + 1);
    if width > MAX_INDENT {
        return Err(invalid("an indentation is a string or a small number"));
    }
    Ok(Some(" ".repeat(width)))
}

fn invalid(detail: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

impl Style {
    fn write(&self, json: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => json.push_str("null"),
            ValueKind::Bool => json.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => json.push_str(&number(value)),
            ValueKind::String => self.write_string(json, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_items(json, ['[', ']'], &items, depth, |json, item| {
                    self.write(json, item, depth + 1)
                })?;
            }
            ValueKind::Map => self.write_map(json, value, depth)?,
            _ => return Err(invalid("not JSON serializable")),
        }
        Ok(())
    }

    fn write_map(&self, json: &mut String, map: &Value, depth: usize) -> Result<(), Error> {
        let mut entries = Vec::new();
        for key in map.try_iter()? {
            let value = map.get_item(&key)?;
            entries.push((key_text(&key)?, value));
        }
        if self.sort_keys {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        self.write_items(json, ['{', '}'], &entries, depth, |json, (key, value)| {
            self.write_string(json, key);
            json.push_str(&self.key_separator);
            self.write(json, value, depth + 1)
        })
    }

    fn write_items<T>(
        &self,
        json: &mut String,
        [open, close]: [char; 2],
        items: &[T],
        depth: usize,
        mut write: impl FnMut(&mut String, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        json.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                json.push_str(&self.item_separator);
            }
            self.write_line_start(json, depth + 1);
            write(json, item)?;
        }
        if !items.is_empty() {
            self.write_line_start(json, depth);
        }
        json.push(close);
        Ok(())
    }

    fn write_line_start(&self, json: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            json.push('\n');
            (0..depth).for_each(|_| json.push_str(indent));
        }
    }

    fn write_string(&self, json: &mut String, text: &str) {
        json.push('"');
        for character in text.chars() {
            match character {
                '"' => json.push_str("\\\""),
                '\\' => json.push_str("\\\\"),
                '\n' => json.push_str("\\n"),
                '\r' => json.push_str("\\r"),
                '\t' => json.push_str("\\t"),
                '\u{8}' => json.push_str("\\b"),
                '\u{c}' => json.push_str("\\f"),
                _ if character < ' ' || (self.ensure_ascii && character > '~') => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        // Writing into a string cannot fail.
                        let _ = write!(json, "\\u{unit:04x}");
                    }
                }
                _ => json.push(character),
            }
        }
        json.push('"');
    }
}

/// A key as `json.dumps` writes it.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Ok(number(key)),
        _ => Err(invalid("a key is not JSON serializable")),
    }
}

/// A number as Python's `repr` writes it.
pub(super) fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => float_repr(float),
        _ => value.to_string(),
    }
}

/// Python's `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and
/// from 1e16 on.
fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `repr` gives.
    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (123456789.125, "123456789.125"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (-2e100, "-2e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(float_repr(value), text);
        }
    }
}
