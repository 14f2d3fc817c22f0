//! Addresses of HTTP servers.

use super::field::{Field, Refusal, quoted, text_of};
use config::Value;
use std::ops::RangeInclusive;

/// The address of an HTTP server, without credentials; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// Takes `http://` or `https://` with a host and perhaps a port and a path; "" for none.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it: it may hold a password.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let form = "expected an address like \"https://registry:8081\", or \"\" for none";
        if text.is_empty() {
            return Ok(Self::default());
        }
        let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme)).ok_or(form)?;
        let authority = rest.split('/').next().unwrap_or_default();
        if rest.contains('@') {
            return Err("credentials do not belong into the address: set username and password");
        }
        let odd = |c: char| c.is_whitespace() || c.is_control() || "?#\\".contains(c);
        if authority.trim_start_matches(':').is_empty() || rest.contains(odd) {
            return Err(form);
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }

    /// Without a slash at its end; empty for none.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for HttpUrl {
    type Bound = bool;

    const MAY_BE_SECRET: bool = true;

    fn allowed(_: Option<&RangeInclusive<bool>>) -> String {
        "an address like \"https://registry:8081\", without credentials; \"\" for none".to_owned()
    }

    fn read(value: &Value) -> Result<Self, Refusal> {
        Self::new(text_of(value)?).map_err(|reason| Refusal::Because(reason.to_owned()))
    }

    fn measure(&self) -> Option<bool> {
        None
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_without_credentials_and_without_a_slash_at_its_end() {
        for (text, taken) in [
            ("", Ok("")),
            ("http://registry:8081", Ok("http://registry:8081")),
            ("https://registry/prefix/", Ok("https://registry/prefix")),
        ] {
            assert_eq!(
                HttpUrl::new(text).as_ref().map(HttpUrl::as_str),
                taken.as_ref().map(|text| *text),
                "{text}"
            );
        }
        for text in ["registry:8081", "ftp://registry", "http://", "http:///x", "http://a b", "http://a?q=1"]
        {
            assert!(HttpUrl::new(text).is_err(), "{text}");
        }
        let refused = HttpUrl::new("https://me:hunter2@registry").expect_err("credentials");
        assert!(refused.contains("username") && !refused.contains("hunter2"), "{refused}");
    }
}
