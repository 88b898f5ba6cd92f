//! Ports that are taken, programs that are missing, servers that are never ready.
use std::cell::RefCell;
use std::time::Duration;

use lock_lab::{Data, Port, Probe, Program, Server, ServerError, Setup, redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use crate::support::{Connection, SH, Watched, ask};

/// Takes a port, as somebody who doesn't know that it is reserved, and answers as Redis does.
fn usurper(port: &Port) -> tokio::task::JoinHandle<()> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(port.address()).unwrap();
    let listener = socket.listen(16).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let _ = client.write_all(b"+PONG\r\n").await;
        }
    })
}

pub(crate) async fn a_port_that_somebody_took_is_replaced_by_another() {
    let usurped = RefCell::new(Vec::new());
    let server = Server::start(|port| {
        if usurped.borrow().len() < 2 {
            usurped.borrow_mut().push((port.address(), usurper(&port)));
        }
        redis(port)
    })
    .await
    .unwrap();
    assert!(usurped.borrow().len() == 2 && usurped.borrow().iter().all(|(address, _)| *address != server.address()));
    ask(&server, "SET k v", "+OK\r\n").await;
}

pub(crate) async fn a_port_that_was_taken_while_the_server_was_down_is_an_error() {
    let reserved = RefCell::new(None);
    let server = Server::start(|port| {
        reserved.replace(Some(port.clone()));
        redis(port)
    })
    .await
    .unwrap();
    server.kill().unwrap();
    let usurper = usurper(&reserved.take().unwrap());
    let error = server.restart(Data::Kept).await.unwrap_err();
    let port = server.address().port();
    assert!(matches!(error, ServerError::PortTaken { port: taken, .. } if taken == port), "{error}");
    usurper.abort();
    assert!(usurper.await.unwrap_err().is_cancelled());
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
}

pub(crate) async fn the_port_of_a_server_that_is_down_is_not_given_away() {
    let server = Server::start(redis).await.unwrap();
    server.kill().unwrap();
    // Who doesn't ask for this very port and allow to share it doesn't get it.
    let unshared = TcpSocket::new_v4().unwrap().bind(server.address()).unwrap_err();
    assert_eq!(unshared.kind(), std::io::ErrorKind::AddrInUse);
    let mut others = Vec::new();
    for _ in 0..200 {
        others.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        assert_ne!(others.last().unwrap().local_addr().unwrap(), server.address());
    }
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
}

pub(crate) async fn a_missing_program_is_an_error_that_names_its_package() {
    let absent = Program { name: "no-such-server", package: "no-such-package" };
    let error = Server::start(|port| Setup::new(absent, port)).await.unwrap_err();
    let told = "no-such-server is not installed; on Debian run as root: apt-get install no-such-package";
    assert_eq!(error.to_string(), told);
}

pub(crate) async fn a_server_that_ends_at_once_is_an_error_that_shows_what_it_said() {
    let error = Server::start(|port| redis(port).with_args(["--no-such-option", "1"])).await.unwrap_err().to_string();
    assert!(error.starts_with("redis-server ended with exit status: 1 before it was ready; "), "{error}");
    assert!(error.contains("no-such-option"), "{error}");
}

pub(crate) async fn a_server_that_is_never_ready_is_an_error_that_shows_what_it_said() {
    let second = Duration::from_secs(1);
    let script = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i >&2; done; exec sleep 1000";
    let deaf = |port| Setup::new(SH, port).with_args(["-c", script]).with_patience(second);
    let error = Server::start(deaf).await.unwrap_err().to_string();
    assert!(error.starts_with("sh was not ready after 1s: it does not listen on port "), "{error}");
    assert!(
        error.contains("; the last that it has written:\n  line 81\n") && error.ends_with("\n  line 100"),
        "{error}"
    );

    let mute = |port| redis(port).with_probe(Probe::new("PING\r\nQUIT\r\n", "another answer")).with_patience(second);
    let error = Server::start(mute).await.unwrap_err().to_string();
    assert!(
        error.starts_with("redis-server was not ready after 1s: it does not answer as expected on port "),
        "{error}"
    );
}

pub(crate) async fn a_server_that_has_ended_can_be_neither_stopped_nor_continued() {
    let server = Server::start(redis).await.unwrap();
    server.kill().unwrap();
    server.kill().unwrap();
    for result in [server.stop(), server.continue_()] {
        assert!(matches!(result, Err(ServerError::NotRunning { .. })), "{result:?}");
    }
    server.restart(Data::Kept).await.unwrap();
    let mut connection = Connection::to(&server).await;
    connection.sends("SHUTDOWN NOSAVE").await;
    // It closes the connection when it ends.
    let _ = connection.0.read(&mut [0]).await;
    Watched::new(server.process_id()).has_ended();
    for result in [server.stop(), server.continue_()] {
        assert!(matches!(result, Err(ServerError::NotRunning { .. })), "{result:?}");
    }
}
