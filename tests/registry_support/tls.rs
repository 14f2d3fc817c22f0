//! An authority of a test's own, and a front that speaks TLS for a server that does not.

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslAcceptor, SslMethod, SslStream};
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An authority, and what a server with a certificate of it needs.
pub struct Authority {
    acceptor: SslAcceptor,
    /// The authority's certificate, PEM.
    pub certificate: String,
}

/// Speaks TLS until it is dropped.
pub struct Front {
    running: Arc<AtomicBool>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Relaxed);
    }
}

fn key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

fn named(name: &str) -> X509Name {
    let mut builder = X509Name::builder().expect("a name");
    builder.append_entry_by_text("CN", name).expect("a name");
    builder.build()
}

/// A certificate for a day, without extensions, not signed yet.
fn unsigned(subject: &str, issuer: &str, key: &PKey<Private>) -> X509Builder {
    let mut serial = BigNum::new().expect("a number");
    serial.rand(64, MsbOption::MAYBE_ZERO, false).expect("a number");
    let mut builder = X509::builder().expect("a builder");
    builder.set_version(2).expect("version 3");
    builder.set_serial_number(&serial.to_asn1_integer().expect("a serial")).expect("a serial");
    builder.set_subject_name(&named(subject)).expect("a subject");
    builder.set_issuer_name(&named(issuer)).expect("an issuer");
    builder.set_pubkey(key).expect("a key");
    builder.set_not_before(&Asn1Time::days_from_now(0).expect("now")).expect("a time");
    builder.set_not_after(&Asn1Time::days_from_now(1).expect("tomorrow")).expect("a time");
    builder
}

/// The certificate of an authority, signed by itself.
pub fn self_signed(key: &PKey<Private>) -> X509 {
    let mut builder = unsigned("test authority", "test authority", key);
    let constraints = BasicConstraints::new().critical().ca().build().expect("constraints");
    builder.append_extension(constraints).expect("an extension");
    let usage = KeyUsage::new().critical().key_cert_sign().build().expect("a usage");
    builder.append_extension(usage).expect("an extension");
    builder.sign(key, MessageDigest::sha256()).expect("signed");
    builder.build()
}

/// A certificate that nobody trusts, PEM.
pub fn stranger() -> Vec<u8> {
    self_signed(&key()).to_pem().expect("PEM")
}

impl Authority {
    pub fn new() -> Self {
        let own_key = key();
        let own = self_signed(&own_key);
        let server_key = key();
        let mut server = unsigned("localhost", "test authority", &server_key);
        let context = server.x509v3_context(Some(&own), None);
        let names = SubjectAlternativeName::new().ip("127.0.0.1").dns("localhost").build(&context);
        server.append_extension(names.expect("names")).expect("an extension");
        server.sign(&own_key, MessageDigest::sha256()).expect("signed");
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).expect("an acceptor");
        acceptor.set_private_key(&server_key).expect("a key");
        acceptor.set_certificate(&server.build()).expect("a certificate that fits its key");
        let certificate = String::from_utf8(own.to_pem().expect("PEM")).expect("PEM is text");
        Self { acceptor: acceptor.build(), certificate }
    }

    /// Takes TLS connections at `address` and passes what they carry on to `behind`.
    pub fn front(&self, address: SocketAddr, behind: SocketAddr) -> Front {
        let listener = TcpListener::bind(address).expect("the port is ours");
        listener.set_nonblocking(true).expect("a socket");
        let running = Arc::new(AtomicBool::new(true));
        let (acceptor, until) = (self.acceptor.clone(), Arc::clone(&running));
        std::thread::spawn(move || {
            while until.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                let (acceptor, until) = (acceptor.clone(), Arc::clone(&until));
                std::thread::spawn(move || {
                    stream.set_nonblocking(false).expect("a socket");
                    // A client that does not trust us hangs up here.
                    if let Ok(stream) = acceptor.accept(stream) {
                        carry(stream, TcpStream::connect(behind).expect("the server"), &until);
                    }
                });
            }
        });
        Front { running }
    }
}

/// Longest time one direction waits while the other may have something.
const PAUSE: Duration = Duration::from_millis(2);

/// Carries bytes in both directions until one side ends.
fn carry(mut outer: SslStream<TcpStream>, mut inner: TcpStream, running: &AtomicBool) {
    outer.get_ref().set_read_timeout(Some(PAUSE)).expect("a socket");
    inner.set_read_timeout(Some(PAUSE)).expect("a socket");
    let mut open = true;
    while open && running.load(Ordering::Relaxed) {
        open = pass(&mut outer, &mut inner) && pass(&mut inner, &mut outer);
    }
    // The other side may have closed first.
    let _ = outer.shutdown();
}

/// Carries what there is; false at the end.
fn pass(from: &mut impl Read, to: &mut impl Write) -> bool {
    let mut bytes = [0; 8192];
    match from.read(&mut bytes) {
        Ok(0) => false,
        Ok(count) => to.write_all(&bytes[..count]).is_ok(),
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
