//! A Schema Registry on loopback that speaks the real one's HTTP interface, with faults to order.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Json, Router};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

/// What a registry may do instead of answering.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Answer with this status and a registry's error body.
    Status(u16),
    /// Answer late.
    Slow(Duration),
    /// Send the client elsewhere.
    Redirect,
    /// Answer 200 with something that is no registry's.
    NotARegistry,
    /// Answer 404 as a server without these paths does.
    NoSuchPath,
}

#[derive(Debug, Default)]
struct Inner {
    /// The schemas by id, which begin at 1.
    schemas: Vec<Value>,
    /// Subjects and the ids registered there.
    subjects: Vec<(String, usize)>,
    fault: Option<Fault>,
    /// Requests that were let in, as `METHOD path`.
    requests: Vec<String>,
}

type Shared = Arc<Mutex<Inner>>;

/// The stand-in. Dropped or stopped, its port refuses connections.
pub struct Registry {
    address: SocketAddr,
    inner: Shared,
    /// The value of the `Authorization` header to demand.
    authorization: Option<String>,
    tls: Option<Authority>,
    running: Option<Runtime>,
}

struct Authority {
    acceptor: TlsAcceptor,
    certificate: String,
}

fn lock(inner: &Shared) -> MutexGuard<'_, Inner> {
    inner.lock().expect("no panic under the lock")
}

impl Registry {
    /// One that is down, on a port that nobody else has.
    pub fn down() -> Self {
        let free = StdListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a loopback port");
        Self { address, inner: Shared::default(), authorization: None, tls: None, running: None }
    }

    pub fn up() -> Self {
        let mut registry = Self::down();
        registry.start();
        registry
    }

    /// One that lets in who sends this header.
    pub fn demanding(authorization: &str) -> Self {
        let mut registry = Self::down();
        registry.authorization = Some(authorization.to_owned());
        registry.start();
        registry
    }

    /// One that speaks TLS with a certificate of an authority of its own.
    pub fn with_tls() -> Self {
        let mut registry = Self::down();
        registry.tls = Some(authority());
        registry.start();
        registry
    }

    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The authority's certificate in a file.
    pub fn authority_file(&self, directory: &std::path::Path) -> PathBuf {
        let path = directory.join("registry-ca.pem");
        std::fs::write(&path, &self.tls.as_ref().expect("with TLS").certificate).expect("written");
        path
    }

    pub fn start(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(self.address)).expect("the port is ours");
        let gate = (Arc::clone(&self.inner), self.authorization.clone());
        let routes = Router::new()
            .route("/config", get(|| async { Json(json!({"compatibilityLevel": "BACKWARD"})) }))
            .route("/schemas/ids/{id}", get(schema_by_id))
            .route("/subjects/{subject}", post(look_up))
            .route("/subjects/{subject}/versions", post(register))
            .with_state(Arc::clone(&self.inner))
            .layer(from_fn_with_state(gate, let_in));
        match &self.tls {
            None => drop(runtime.spawn(async { axum::serve(listener, routes).await })),
            Some(tls) => {
                let listener = TlsListener { listener, acceptor: tls.acceptor.clone() };
                drop(runtime.spawn(async { axum::serve(listener, routes).await }));
            }
        }
        self.running = Some(runtime);
    }

    pub fn fault(&self, fault: Option<Fault>) {
        lock(&self.inner).fault = fault;
    }

    /// Adds a schema and gives its id.
    pub fn add(&self, schema: &str) -> u32 {
        self.add_answer(json!({ "schema": schema }))
    }

    /// Adds what is answered for a schema, as it is.
    pub fn add_answer(&self, answer: Value) -> u32 {
        let mut inner = lock(&self.inner);
        inner.schemas.push(answer);
        u32::try_from(inner.schemas.len()).expect("few")
    }

    pub fn has(&self, subject: &str, id: u32) -> bool {
        lock(&self.inner).subjects.contains(&(subject.to_owned(), id as usize))
    }

    /// Requests that were let in so far.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.inner).requests.clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(runtime) = self.running.take() {
            runtime.shutdown_background();
        }
    }
}

fn error(status: StatusCode, code: u32, message: &str) -> Response {
    (status, Json(json!({ "error_code": code, "message": message }))).into_response()
}

/// Counts, refuses and disturbs. What it refuses it repeats, as a careless server might.
async fn let_in(
    State((inner, demanded)): State<(Shared, Option<String>)>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if demanded.is_some() && sent != demanded.as_deref() {
        return error(StatusCode::UNAUTHORIZED, 401, &format!("not authorized: {sent:?}"));
    }
    let fault = {
        let mut inner = lock(&inner);
        inner.requests.push(format!("{} {}", request.method(), request.uri().path()));
        inner.fault
    };
    match fault {
        Some(Fault::Status(status)) => {
            let status = StatusCode::from_u16(status).expect("a status");
            return error(status, 50001, &format!("out of order: {sent:?}"));
        }
        Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
        Some(Fault::Redirect) => {
            let elsewhere = [(header::LOCATION, format!("http://127.0.0.1:1{}", request.uri().path()))];
            return (StatusCode::FOUND, elsewhere).into_response();
        }
        Some(Fault::NotARegistry) => return "<html>Welcome!</html>".into_response(),
        Some(Fault::NoSuchPath) => return (StatusCode::NOT_FOUND, "no such page").into_response(),
        None => {}
    }
    next.run(request).await
}

async fn schema_by_id(State(inner): State<Shared>, Path(id): Path<usize>) -> Response {
    match id.checked_sub(1).and_then(|index| lock(&inner).schemas.get(index).cloned()) {
        Some(answer) => Json(answer).into_response(),
        None => error(StatusCode::NOT_FOUND, 40403, "Schema not found"),
    }
}

/// The id of a schema among those registered, wherever that is.
fn id_of(inner: &Inner, schema: &Value) -> Option<usize> {
    inner.schemas.iter().position(|known| known["schema"] == schema["schema"]).map(|index| index + 1)
}

async fn look_up(
    State(inner): State<Shared>,
    Path(subject): Path<String>,
    Json(schema): Json<Value>,
) -> Response {
    let inner = lock(&inner);
    if !inner.subjects.iter().any(|(known, _)| *known == subject) {
        return error(StatusCode::NOT_FOUND, 40401, "Subject not found.");
    }
    match id_of(&inner, &schema).filter(|id| inner.subjects.contains(&(subject.clone(), *id))) {
        Some(id) => Json(json!({ "subject": subject, "id": id, "version": 1, "schema": schema["schema"] }))
            .into_response(),
        None => error(StatusCode::NOT_FOUND, 40403, "Schema not found"),
    }
}

async fn register(
    State(inner): State<Shared>,
    Path(subject): Path<String>,
    Json(schema): Json<Value>,
) -> Response {
    let mut inner = lock(&inner);
    let id = id_of(&inner, &schema).unwrap_or_else(|| {
        inner.schemas.push(json!({ "schema": schema["schema"] }));
        inner.schemas.len()
    });
    if !inner.subjects.contains(&(subject.clone(), id)) {
        inner.subjects.push((subject, id));
    }
    Json(json!({ "id": id })).into_response()
}

/// An authority, and a server with a certificate of it.
fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let server = CertificateParams::new(names).expect("parameters").signed_by(&key, &issuer);
    let chain = vec![server.expect("a certificate").der().clone()];
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("a certificate that fits its key");
    Authority { acceptor: TlsAcceptor::from(Arc::new(config)), certificate }
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // A client that does not trust us hangs up here.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
