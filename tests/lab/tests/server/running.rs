//! A server that is started, stopped, killed and restarted.
use std::fs;

use lock_lab::{Data, Direction, Flow, REDIS, REDIS_DURABLE, Relay, Server, Setup, redis};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Connection, NOTHING, SH, Watched, ask};

pub(crate) async fn a_started_server_answers_and_its_directory_is_its_own() {
    let server = Server::start(redis).await.unwrap();
    let other = Server::start(redis).await.unwrap();
    ask(&server, "SET k v", "+OK\r\n").await;
    ask(&server, "GET k", "$1\r\nv\r\n").await;
    ask(&other, "GET k", NOTHING).await;
    let directory = server.directory();
    let path = directory.to_str().unwrap();
    ask(&server, "CONFIG GET dir", &format!("*2\r\n$3\r\ndir\r\n${}\r\n{path}\r\n", path.len())).await;
    assert!(server.output().unwrap().contains("Ready to accept connections"));
    drop(server);
    assert!(!directory.exists());
    assert!(other.directory().exists());
}

pub(crate) async fn a_stopped_server_accepts_and_answers_once_it_is_continued() {
    let server = Server::start(redis).await.unwrap();
    for _ in 0..3 {
        server.stop().unwrap();
        // Twice is not too often.
        server.stop().unwrap();
        let mut connection = Connection::to(&server).await;
        connection.sends("PING").await;
        assert!(connection.0.try_read(&mut [0]).is_err(), "a stopped server has answered");
        server.continue_().unwrap();
        connection.gets("+PONG\r\n").await;
    }
}

pub(crate) async fn a_stopped_server_can_be_killed() {
    let server = Server::start(redis).await.unwrap();
    server.stop().unwrap();
    server.kill().unwrap();
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "PING", "+PONG\r\n").await;
}

pub(crate) async fn a_killed_server_comes_back_with_its_data() {
    let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE)).await.unwrap();
    let address = server.address();
    ask(&server, "SET k v", "+OK\r\n").await;
    server.kill().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "a killed server has accepted a connection");
    server.restart(Data::Kept).await.unwrap();
    assert_eq!(server.address(), address);
    ask(&server, "GET k", "$1\r\nv\r\n").await;
}

pub(crate) async fn a_server_that_still_loads_its_data_is_not_ready() {
    // It takes two seconds and looks after its clients at every 1024th command of the file.
    let slowly = ["--key-load-delay", "1000"];
    let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE).with_args(slowly)).await.unwrap();
    ask(&server, r#"EVAL "for key = 1, 2000 do redis.call('SET', key, 'v') end" 0"#, NOTHING).await;
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "DBSIZE", ":2000\r\n").await;
}

pub(crate) async fn a_killed_server_comes_back_without_its_data() {
    let server = Server::start(|port| redis(port).with_args(REDIS_DURABLE)).await.unwrap();
    ask(&server, "SET k v", "+OK\r\n").await;
    server.kill().unwrap();
    server.restart(Data::Lost).await.unwrap();
    ask(&server, "GET k", NOTHING).await;
}

pub(crate) async fn a_server_without_persistence_comes_back_empty() {
    let server = Server::start(redis).await.unwrap();
    ask(&server, "SET k v", "+OK\r\n").await;
    server.restart(Data::Kept).await.unwrap();
    ask(&server, "GET k", NOTHING).await;
}

pub(crate) async fn a_running_server_is_restarted() {
    let server = Server::start(redis).await.unwrap();
    let before = Watched::new(server.process_id());
    let mut connection = Connection::to(&server).await;
    server.restart(Data::Kept).await.unwrap();
    before.has_ended();
    // A server that is killed closes its connections.
    assert_eq!(connection.0.read(&mut [0]).await.unwrap_or(0), 0);
    ask(&server, "PING", "+PONG\r\n").await;
}

pub(crate) async fn the_files_of_a_setup_are_there_at_each_start() {
    let server = Server::start(|port| {
        let configuration = format!("port {}\nbind 127.0.0.1\nsave \"\"\ndatabases 17\n", port.number());
        Setup::new(REDIS, port).with_args(["etc/redis.conf"]).with_file("etc/redis.conf", configuration)
    })
    .await
    .unwrap();
    for data in [Data::Kept, Data::Lost] {
        ask(&server, "CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n17\r\n").await;
        fs::write(server.directory().join("something"), "").unwrap();
        server.restart(data).await.unwrap();
        assert_eq!(server.directory().join("something").exists(), data == Data::Kept);
    }
    ask(&server, "CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n17\r\n").await;
}

pub(crate) async fn servers_that_know_each_other_are_started_together() {
    let [primary, replica] = Server::start_together(|[first, second]| {
        let of_first = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), first.number().to_string()];
        [redis(first), redis(second).with_args(of_first)]
    })
    .await
    .unwrap();
    let mut connection = Connection::to(&primary).await;
    connection.sends("SET k v").await;
    connection.gets("+OK\r\n").await;
    // Without limit: the replica tries once a second.
    connection.sends("WAIT 1 0").await;
    connection.gets(":1\r\n").await;
    ask(&replica, "GET k", "$1\r\nv\r\n").await;
}

pub(crate) async fn none_of_several_is_waited_for_when_one_has_ended() {
    let never_ready = |port| Setup::new(SH, port).with_args(["-c", "exec sleep 1000"]);
    let ends = |port| Setup::new(SH, port).with_args(["-c", "echo no >&2; exit 3"]);
    let error = Server::start_together(|[first, second]| [never_ready(first), ends(second)]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sh ended with exit status: 3 before it was ready; the last that it has written:\n  no"
    );
}

pub(crate) async fn a_server_behind_a_relay_answers() {
    let server = Server::start(redis).await.unwrap();
    let relay = Relay::to(server.address()).await.unwrap();
    let mut connection = Connection(TcpStream::connect(relay.address()).await.unwrap());
    relay.set(Direction::ToClient, Flow::Swallow);
    connection.sends("SET k v").await;
    relay.until(|counts| counts.to_client.swallowed == 5).await;
    relay.heal();
    connection.sends("GET k").await;
    connection.gets("$1\r\nv\r\n").await;
}
