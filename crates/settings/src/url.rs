//! Addresses of HTTP servers.

use super::field::{Field, ValueRefusal, quoted, text_of};
use config::Value;
use std::net::{IpAddr, Ipv6Addr};

/// The host of an authority such as `registry`, `127.0.0.1:9464` or `[::1]:9464`, without brackets and port; `None` for
/// what is no authority, and for one with credentials.
pub fn host_of(authority: &str) -> Option<&str> {
    let (host, rest, is_sound) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest, host.parse::<Ipv6Addr>().is_ok())
        }
        None => {
            let (host, rest) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (
                host,
                rest,
                !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
            )
        }
    };
    let is_port =
        |port: &str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let has_sound_port = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    (is_sound && has_sound_port).then_some(host)
}

/// Whether this is a name or an address of this machine's own; no name server is requested either.
pub fn is_of_this_machine(host: &str) -> bool {
    let name = without_dot(host).to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// The name of a host, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Takes a name or an address; `None` for what is neither.
    pub fn new(text: &str) -> Option<Self> {
        let host = host_of(text).filter(|host| *host == text)?;
        Some(Self(without_dot(host).to_ascii_lowercase()))
    }

    /// What the commented default shows.
    pub(super) fn example() -> Self {
        Self("kvset.example".to_owned())
    }

    /// Whether a host, as [`host_of`] finds it, has this name.
    pub fn is(&self, host: &str) -> bool {
        without_dot(host).eq_ignore_ascii_case(&self.0)
    }
}

/// A name without the dot that marks it as complete.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

text_fields! {
    HostName: "the name of a host like \"kvset.example\", without scheme and port",
        |name| Self::new(name).ok_or(ValueRefusal::NotAllowed), |name| name.0.clone();
}

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
        if host_of(authority).is_none() || rest.contains(odd) {
            return Err(form);
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }

    /// Without a slash at its end; empty for none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its host, without brackets and port; `None` for no address.
    pub fn host(&self) -> Option<&str> {
        let (_, rest) = self.0.split_once("://")?;
        host_of(rest.split('/').next().unwrap_or(rest))
    }
}

impl Field for HttpUrl {
    type Bound = bool;

    const MAY_BE_SECRET: bool = true;

    const ALLOWED: &'static str =
        "an address like \"https://registry:8081\", without credentials; \"\" for none";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        Self::new(text_of(value)?).map_err(|reason| ValueRefusal::Because(reason.to_owned()))
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
        for text in [
            "registry:8081",
            "ftp://registry",
            "http://",
            "http:///x",
            "http://a b",
            "http://a?q=1",
            "http://:8081",
            "http://registry:",
            "http://registry:+80",
            "http://registry:70000",
            "http://[::1",
            "http://[registry]",
            "http://::1:8081",
            "http://b\u{fc}cher",
        ] {
            assert!(HttpUrl::new(text).is_err(), "{text}");
        }
        let refused = HttpUrl::new("https://me:hunter2@registry").expect_err("credentials");
        assert!(refused.contains("username") && !refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn the_host_of_an_address_in_brackets_is_found() {
        let host = |text: &str| HttpUrl::new(text).expect(text).host().map(str::to_owned);
        for (text, expected) in [
            ("http://[::1]:8081/x", Some("::1")),
            ("https://registry", Some("registry")),
            ("http://127.0.0.1:1", Some("127.0.0.1")),
            ("", None),
        ] {
            assert_eq!(host(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn names_and_addresses_of_this_machine_are_told_from_those_that_only_look_so() {
        for host in [
            "localhost",
            "LocalHost",
            "localhost.",
            "kvset.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_of_this_machine(host), "{host}");
        }
        for host in
            ["", ".", "localhost.example", "notlocalhost", "0.0.0.0", "10.0.0.1", "127.0.0.1.example", "::"]
        {
            assert!(!is_of_this_machine(host), "{host}");
        }
    }
}
