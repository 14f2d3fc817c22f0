//! A Schema Registry on loopback that speaks the real one's HTTP interface, with faults to order.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener as StdListener};
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[cfg(feature = "tls")]
pub mod tls;

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
    /// Names of schemas, which stand in headers, and their ids.
    guids: Vec<(String, usize)>,
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
    #[cfg(feature = "tls")]
    tls: Option<tls::Authority>,
    #[cfg(feature = "tls")]
    front: Option<tls::Front>,
    running: Option<Runtime>,
}

fn lock(inner: &Shared) -> MutexGuard<'_, Inner> {
    inner.lock().expect("no panic under the lock")
}

impl Registry {
    /// One that is down, on a port that nobody else has.
    pub fn down() -> Self {
        let free = StdListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a loopback port");
        Self {
            address,
            inner: Shared::default(),
            authorization: None,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            front: None,
            running: None,
        }
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
    #[cfg(feature = "tls")]
    pub fn with_tls() -> Self {
        let mut registry = Self::down();
        registry.tls = Some(tls::Authority::new());
        registry.start();
        registry
    }

    #[cfg(feature = "tls")]
    fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    #[cfg(not(feature = "tls"))]
    fn has_tls(&self) -> bool {
        false
    }

    pub fn url(&self) -> String {
        format!("{}://{}", if self.has_tls() { "https" } else { "http" }, self.address)
    }

    /// The authority's certificate in a file.
    #[cfg(feature = "tls")]
    pub fn authority_file(&self, directory: &std::path::Path) -> PathBuf {
        let path = directory.join("registry-ca.pem");
        std::fs::write(&path, &self.tls.as_ref().expect("with TLS").certificate).expect("written");
        path
    }

    pub fn start(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        // Behind TLS it is any port.
        let address = if self.has_tls() { SocketAddr::from(([127, 0, 0, 1], 0)) } else { self.address };
        let listener = runtime.block_on(TcpListener::bind(address)).expect("the port is ours");
        let gate = (Arc::clone(&self.inner), self.authorization.clone());
        let routes = Router::new()
            .route("/config", get(|| async { Json(json!({"compatibilityLevel": "BACKWARD"})) }))
            .route("/schemas/ids/{id}", get(schema_by_id))
            .route("/schemas/guids/{guid}", get(schema_by_guid))
            .route("/subjects/{subject}", post(look_up))
            .route("/subjects/{subject}/versions", post(register))
            .with_state(Arc::clone(&self.inner))
            .layer(from_fn_with_state(gate, let_in));
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            self.front = Some(tls.front(self.address, listener.local_addr().expect("bound")));
        }
        drop(runtime.spawn(async { axum::serve(listener, routes).await }));
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

    /// Gives the schema with this id a name, as a record's header has it.
    pub fn name(&self, id: usize) -> Vec<u8> {
        let mut inner = lock(&self.inner);
        let guid = 0xcc0e_0e0e_53c1_4a1a_8f1a_0000_0000_0000_u128 + id as u128;
        inner.guids.push((format!("cc0e0e0e-53c1-4a1a-8f1a-{id:012x}"), id));
        [&[1], &guid.to_be_bytes()[..]].concat()
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

async fn schema_by_guid(State(inner): State<Shared>, Path(guid): Path<String>) -> Response {
    let id = lock(&inner).guids.iter().find(|(known, _)| *known == guid).map(|(_, id)| *id);
    match id {
        Some(id) => schema_by_id(State(inner), Path(id)).await,
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
