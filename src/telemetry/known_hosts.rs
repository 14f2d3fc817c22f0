//! Which names a server answers to.
//!
//! A browser lets any page read servers of the machine it runs on, if the page's own name is made to point there (DNS
//! rebinding). Only the name gives it away: a request to a server on loopback that names another host came from such a
//! page. An address in place of a name cannot be rebound.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use kvset_settings::{HostName, host_of, is_of_this_machine};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The names that a server may be requested by, in addition to addresses and this machine's own names.
#[derive(Debug, Clone)]
pub(super) struct KnownHosts(Arc<[HostName]>);

impl KnownHosts {
    /// Those of a server at this address; `None` where any name may ask: others than this machine are meant to reach
    /// it, by whatever name they have for it, unless some are listed.
    pub(super) fn of(address: SocketAddr, listed: &[HostName]) -> Option<Self> {
        let is_closed = is_of_this_machine(&address.ip().to_string()) || !listed.is_empty();
        is_closed.then(|| Self(listed.into()))
    }

    /// Whether a request for this authority may be answered. Only a program can leave it empty, no browser.
    fn knows(&self, authority: &str) -> bool {
        authority.is_empty()
            || host_of(authority).is_some_and(|host| {
                host.parse::<IpAddr>().is_ok()
                    || is_of_this_machine(host)
                    || self.0.iter().any(|name| name.is(host))
            })
    }

    /// Whether every place in which a request names its host may be answered.
    fn know(&self, request: &Request) -> bool {
        let of_target = request.uri().authority().map(|authority| authority.as_str());
        let of_headers = request.headers().get_all(header::HOST).iter();
        of_target.is_none_or(|authority| self.knows(authority))
            && of_headers.into_iter().all(|value| value.to_str().is_ok_and(|text| self.knows(text)))
    }
}

/// Answers requests for known hosts only.
pub(super) async fn answer_known(State(hosts): State<KnownHosts>, request: Request, next: Next) -> Response {
    if hosts.know(&request) {
        return next.run(request).await;
    }
    let said = "this server answers to the names of its own machine and to addresses, not to the name in the Host \
                header; for a proxy that passes another name on, list it in http.allowed_hosts\n";
    (StatusCode::FORBIDDEN, said).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(address: &str, listed: &[&str]) -> Option<KnownHosts> {
        let listed: Vec<_> = listed.iter().map(|name| HostName::new(name).expect(name)).collect();
        KnownHosts::of(address.parse().expect(address), &listed)
    }

    #[test]
    fn a_page_of_a_stranger_cannot_read_a_server_on_loopback_through_a_rebound_name() {
        for address in ["127.0.0.1:9464", "[::1]:9464", "[::ffff:127.0.0.1]:9464"] {
            let hosts = hosts(address, &["kvset.example"]).expect("a closed server");
            for known in [
                "",
                "localhost",
                "localhost:9464",
                "LOCALHOST.:9464",
                "kvset.localhost:9464",
                "127.0.0.1:9464",
                "[::1]:9464",
                "10.0.0.7",
                "kvset.example",
                "KVSET.example.:443",
            ] {
                assert!(hosts.knows(known), "{address}: {known}");
            }
            for unknown in [
                "evil.example",
                "evil.example:9464",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "localhost@evil.example",
                "evil.example@localhost",
                "localhost:9464@evil.example",
                "localhost evil.example",
                "localhost,evil.example",
                "sub.kvset.example",
                "[::1].evil.example",
                "[evil.example]",
                "::1",
                "localhost:",
                "localhost:99999",
                "localh\u{f6}st",
                ".",
                ":9464",
            ] {
                assert!(!hosts.knows(unknown), "{address}: {unknown}");
            }
        }
    }

    #[test]
    fn a_server_for_others_answers_to_any_name_unless_some_are_listed() {
        for address in ["0.0.0.0:9464", "[::]:9464", "10.0.0.7:9464"] {
            assert!(hosts(address, &[]).is_none(), "{address}");
            let hosts = hosts(address, &["kvset.example"]).expect("a closed server");
            assert!(hosts.knows("kvset.example:9464") && !hosts.knows("evil.example"), "{address}");
        }
    }
}
