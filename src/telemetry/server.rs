//! The HTTP server, on a thread of its own: `/metrics`, `/livez`, `/readyz` and what it is given alongside.

use super::catalog;
use super::health::{Health, HealthBounds};
use super::known_hosts::{KnownHosts, answer_known};
use super::process;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use kvset_settings::HostName;
use metrics_exporter_prometheus::PrometheusHandle;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Histograms are folded together this often, or they would grow between scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How long connections may take to end once the server is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// What the answers are made from.
#[derive(Clone)]
struct ServerFacts {
    metrics: PrometheusHandle,
    health: Arc<Health>,
    bounds: HealthBounds,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the address (port 0 for any free one) and serves until it is stopped; `further` holds
    /// what is served alongside metrics and health. On loopback, or where `hosts` lists names, requests for the name of
    /// another host are refused.
    ///
    /// # Errors
    /// The address is taken or not ours, or the system has no thread left.
    pub fn start(
        address: SocketAddr,
        hosts: &[HostName],
        metrics: PrometheusHandle,
        health: Arc<Health>,
        bounds: HealthBounds,
        further: Router,
    ) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(address).map_err(|error| {
            anyhow::anyhow!(
                "cannot listen on {address} (http.listen): {error}; choose a free port, or \"\" for no server"
            )
        })?;
        let facts = ServerFacts { metrics, health, bounds };
        let started = Self::serve(listener, hosts, facts, further);
        started.map_err(|error| anyhow::anyhow!("cannot start the HTTP server: {error}"))
    }

    fn serve(
        listener: std::net::TcpListener,
        hosts: &[HostName],
        facts: ServerFacts,
        further: Router,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener) })?;
        let (stop, stopped) = oneshot::channel();
        let hosts = KnownHosts::of(address, hosts);
        let upkeep = facts.metrics.clone();
        let router = router(facts, further, hosts);
        let serve = move || runtime.block_on(serve(listener, router, upkeep, stopped));
        let thread = std::thread::Builder::new().name("kvset-http".to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it and waits until it has: open answers end first, for two seconds at most.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Refused only by a server that ended by itself, and then there is nothing to stop.
            let _ = stop.send(());
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the HTTP server's thread panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Everything that is served, to those who ask for a known host.
fn router(facts: ServerFacts, further: Router, hosts: Option<KnownHosts>) -> Router {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .with_state(facts)
        .merge(further);
    match hosts {
        Some(hosts) => router.layer(from_fn_with_state(hosts, answer_known)),
        None => router,
    }
}

/// Serves until told to stop, and a little longer for what is still open.
async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    upkeep: PrometheusHandle,
    stopped: oneshot::Receiver<()>,
) {
    let (drain, draining) = oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
        // Told to stop, or the sender is gone: both mean the same.
        drop(draining.await);
    });
    let mut server = tokio::spawn(server.into_future());
    let mut tick = tokio::time::interval(UPKEEP_EVERY);
    let mut stopped = stopped;
    loop {
        tokio::select! {
            _ = tick.tick() => upkeep.run_upkeep(),
            _ = &mut stopped => break,
            ended = &mut server => return report(ended),
        }
    }
    drop(drain);
    match tokio::time::timeout(STOP_WITHIN, &mut server).await {
        Ok(ended) => report(ended),
        Err(_) => server.abort(),
    }
}

/// Says why a server ended, where that was not requested.
fn report(ended: Result<io::Result<()>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the HTTP server failed"),
        Err(error) => tracing::error!(%error, "the HTTP server panicked"),
    }
}

async fn metrics(State(facts): State<ServerFacts>) -> impl IntoResponse {
    process::show();
    let is_ready = facts.health.ready(facts.bounds).is_ok();
    catalog::READY.gauge(&[]).set(if is_ready { 1.0 } else { 0.0 });
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], facts.metrics.render())
}

async fn live(State(facts): State<ServerFacts>) -> impl IntoResponse {
    answer(facts.health.live(facts.bounds))
}

async fn ready(State(facts): State<ServerFacts>) -> impl IntoResponse {
    answer(facts.health.ready(facts.bounds))
}

/// 200, or 503 with the reason.
fn answer(verdict: Result<(), String>) -> (StatusCode, String) {
    match verdict {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder;
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
    use std::time::Instant;

    const BOUNDS: HealthBounds = HealthBounds { live_within: Duration::from_secs(60), ready_max_lag: 5 };

    fn start(health: &Arc<Health>) -> (Server, metrics_exporter_prometheus::PrometheusRecorder) {
        let recorder = recorder().expect("a recorder");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(any, &[], recorder.handle(), Arc::clone(health), BOUNDS, Router::new())
            .expect("started");
        (server, recorder)
    }

    /// Status line, headers and body of a request.
    fn get(server: &Server, path: &str) -> String {
        exchange(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n"))
    }

    /// What is answered to a request that begins with these lines.
    fn exchange(server: &Server, head: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        write!(stream, "{head}Connection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    #[test]
    fn metrics_and_health_are_served() {
        let health = Arc::new(Health::new());
        let (server, recorder) = start(&health);
        assert!(server.address().ip().is_loopback());
        metrics::with_local_recorder(&recorder, || catalog::POOLS.gauge(&["0"]).set(3.0));
        let answer = get(&server, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\nkvset_pools{partition=\"0\"} 3\n"), "{answer}");
        assert!(get(&server, "/livez").starts_with("HTTP/1.1 200 OK"));
        let answer = get(&server, "/readyz");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("no partitions assigned yet\n"));
        health.set_assigned(true);
        assert!(get(&server, "/readyz").starts_with("HTTP/1.1 200 OK"));
        health.set_lag(6);
        assert!(get(&server, "/readyz").ends_with("6 records behind (limit 5)\n"));
        assert!(get(&server, "/elsewhere").starts_with("HTTP/1.1 404"));
        server.stop();
    }

    /// A page of a stranger whose name was made to point to 127.0.0.1 read pools and estimates.
    #[test]
    fn nothing_is_answered_for_the_name_of_another_host() {
        let (server, _recorder) = start(&Arc::new(Health::new()));
        let own = format!("Host: {}\r\n", server.address());
        for path in ["/metrics", "/livez", "/readyz", "/elsewhere"] {
            for head in [
                format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n"),
                format!("GET {path} HTTP/1.1\r\n{own}Host: evil.example\r\n"),
                format!("GET http://evil.example{path} HTTP/1.1\r\n{own}"),
                format!("GET {path} HTTP/1.1\r\nHost: localhost\u{e9}\r\n"),
            ] {
                let answer = exchange(&server, &head);
                assert!(
                    answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400"),
                    "{head}{answer}"
                );
                assert!(!answer.contains("evil"), "{answer}");
            }
        }
        let refused = exchange(&server, "GET /livez HTTP/1.1\r\nHost: evil.example\r\n");
        assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("http.allowed_hosts"), "{refused}");
        assert!(exchange(&server, &format!("GET /livez HTTP/1.1\r\n{own}")).starts_with("HTTP/1.1 200"));
        assert!(
            exchange(&server, "GET /livez HTTP/1.0\r\n").starts_with("HTTP/1.0 200"),
            "no browser asks so"
        );
    }

    #[test]
    fn stopping_is_quick_even_with_a_silent_client_and_frees_the_port() {
        let (server, _recorder) = start(&Arc::new(Health::new()));
        let address = server.address();
        let mut silent = TcpStream::connect(address).expect("connected");
        silent.write_all(b"GET /metrics HTTP/1.1\r\n").expect("sent");
        let begun = Instant::now();
        server.stop();
        assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }

    #[test]
    fn a_taken_address_is_refused_with_the_way_out() {
        let health = Arc::new(Health::new());
        let (server, recorder) = start(&health);
        let refused = Server::start(server.address(), &[], recorder.handle(), health, BOUNDS, Router::new());
        let said = refused.expect_err("taken").to_string();
        assert!(said.contains("http.listen") && said.contains(&server.address().to_string()), "{said}");
    }
}
