//! `kvset health`: whether the running service is ready, for whatever runs a command and reads its exit code.

use crate::cli::Failure;
use crate::cli::args::HealthArgs;
use crate::present::words::visible;
use anyhow::anyhow;
use axum::http::StatusCode;
use kvset_core::units::features::Feature;
use kvset_kafka::http::agent;
use kvset_settings::Settings;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Longest time the service may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes read of an answer; a reason is one short line.
const MAX_ANSWER: u64 = 1024;

/// Runs `kvset health`.
pub fn run(args: &HealthArgs) -> Result<(), Failure> {
    let server = match &args.url {
        Some(url) => url.as_str().to_owned(),
        None => format!("http://{}", on_this_machine(&Settings::load(args.config.file())?)?),
    };
    if server.starts_with("https:") {
        let tls = Feature::Tls.require(cfg!(feature = "tls"));
        tls.map_err(|missing| Failure::Usage(anyhow!("--url: {missing}")))?;
    }
    let (path, good, bad) =
        if args.live { ("/livez", "live", "not live") } else { ("/readyz", "ready", "not ready") };
    match ask(&format!("{server}{path}"))? {
        None => {
            println!("{good}");
            Ok(())
        }
        Some(reason) => Err(anyhow!("{server} is {bad}: {reason}").into()),
    }
}

/// The address at which a process of this machine reaches what `http.listen` says.
fn on_this_machine(settings: &Settings) -> Result<SocketAddr, Failure> {
    let name = "name the service's address with --url";
    let Some(mut address) = settings.http.listen.0 else {
        return Err(Failure::usage(format!(
            "http.listen is empty, so the service answers nobody: set it, or {name}"
        )));
    };
    if address.port() == 0 {
        return Err(Failure::usage(format!("http.listen has port 0, any that is free: {name}")));
    }
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Ok(address)
}

/// What the service of this configuration says at a path, up to so many bytes; nothing where none answers.
pub(super) fn told_at(settings: &Settings, path: &str, bytes: u64) -> Option<String> {
    let url = format!("http://{}{path}", on_this_machine(settings).ok()?);
    Some(get(&url, bytes).ok()?.1)
}

/// Status and text of an answer, up to so many bytes.
fn get(url: &str, bytes: u64) -> anyhow::Result<(StatusCode, String)> {
    let agent = agent(None, TIMEOUT)?;
    let mut answer = agent.get(url).call().map_err(|error| {
        anyhow!("no answer from {url}: {error}; is the service running, and is that its http.listen?")
    })?;
    let mut body = Vec::new();
    let read = answer.body_mut().as_reader().take(bytes).read_to_end(&mut body);
    read.map_err(|error| anyhow!("no whole answer from {url}: {error}"))?;
    Ok((answer.status(), String::from_utf8_lossy(&body).into_owned()))
}

/// What the service gives as the reason why it is not well; nothing where it is.
///
/// # Errors
/// No answer, or one that kvset does not give.
fn ask(url: &str) -> anyhow::Result<Option<String>> {
    let (status, body) = get(url, MAX_ANSWER)?;
    let line: String = body.lines().next().unwrap_or_default().chars().map(visible).collect();
    match status.as_u16() {
        200 if body.trim_end() == "ok" => Ok(None),
        503 => Ok(Some(line)),
        403 => Err(anyhow!("{url} answered {status}: {line}")),
        200 => Err(anyhow!("{url} answers, but not as kvset does; is that the service's http.listen?")),
        _ => Err(anyhow!("{url} answered {status}; is that the service's http.listen, without a path?")),
    }
}
