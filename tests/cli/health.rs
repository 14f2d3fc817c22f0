//! What `kvset health` makes of a service's answers, and of those that no kvset gives.

use crate::support::program::kvset;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A server that gives every request this answer, and its address.
fn server(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that has what it wanted may be gone.
            let _ = stream.and_then(|stream| reply(stream, answer));
        }
    });
    address
}

fn reply(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut head = [0; 2048];
    stream.read(&mut head).and_then(|_| stream.write_all(answer))
}

/// Exit code, standard output and standard error of the command with these settings.
fn health(arguments: &[&str], settings: &[(&str, &str)]) -> (i32, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = kvset(&[&["health"], arguments].concat());
    command.current_dir(directory.path()).envs(settings.iter().copied());
    let output = command.output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

fn at(address: &str, arguments: &[&str]) -> (i32, String, String) {
    let url = format!("http://{address}");
    health(&[arguments, &["--url", &url]].concat(), &[])
}

#[test]
fn a_service_that_is_ready_gives_0_and_one_that_is_not_1_with_its_reason() {
    let ready = server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
    assert_eq!(at(&ready, &[]), (0, "ready\n".to_owned(), String::new()));
    assert_eq!(at(&ready, &["--live"]), (0, "live\n".to_owned(), String::new()));
    let behind =
        server(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 27\r\n\r\n6 records behind (limit 5)\n");
    let said = |word: &str| format!("error: http://{behind} is not {word}: 6 records behind (limit 5)\n");
    assert_eq!(at(&behind, &[]), (1, String::new(), said("ready")));
    assert_eq!(at(&behind, &["--live"]), (1, String::new(), said("live")));
}

#[test]
fn the_address_is_that_of_http_listen_and_every_address_means_this_machine() {
    let ready = server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
    let port = ready.rsplit_once(':').expect("a port").1;
    for listen in [&ready, &format!("0.0.0.0:{port}")] {
        let (code, out, err) = health(&[], &[("KVSET__HTTP__LISTEN", listen)]);
        assert_eq!((code, out.as_str()), (0, "ready\n"), "{listen}: {err}");
    }
    for (listen, said) in
        [("", "http.listen is empty"), ("127.0.0.1:0", "port 0"), ("nowhere", "http.listen")]
    {
        let (code, out, err) = health(&[], &[("KVSET__HTTP__LISTEN", listen)]);
        assert_eq!((code, out.as_str()), (2, ""), "{listen}");
        assert!(err.contains(said), "{listen}: {err}");
    }
}

/// A server that answers 200 to everything is no sign of health.
#[test]
fn an_answer_that_no_kvset_gives_is_no_health_and_reaches_no_terminal() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<!DOCTYPE html>"[..],
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 No\r\nContent-Length: 12\r\n\r\n\x1b[31m\xff\xe2\x80\xae red",
        b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\nok\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ] {
        let (code, out, err) = at(&server(answer), &[]);
        assert_eq!((code, out.as_str()), (1, ""), "{}", String::from_utf8_lossy(answer));
        assert_eq!(err.lines().count(), 1, "one line: {err}");
        assert!(err.starts_with("error: ") && !err.contains(['\u{1b}', '\u{202e}']), "{err}");
    }
}

#[test]
fn nobody_there_is_1_with_what_to_look_at() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    drop(listener);
    let (code, out, err) = at(&address, &[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no answer from") && err.contains("http.listen"), "{err}");
}

/// The path was put behind the one that was there, and nobody saw why there was no such page.
#[test]
fn an_address_with_a_path_and_one_that_is_refused_say_what_to_do() {
    let missing = at(&server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), &[]).2;
    assert!(missing.contains("404 Not Found") && missing.contains("without a path"), "{missing}");
    let refused =
        at(&server(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 24\r\n\r\nsee http.allowed_hosts\n\n"), &[]).2;
    assert!(refused.ends_with("403 Forbidden: see http.allowed_hosts\n"), "{refused}");
}
