use crate::{Port, Probe, Program, Setup};

/// The Redis server.
pub const REDIS: Program = Program { name: "redis-server", package: "redis-server" };

/// Arguments with which [`redis`] has every write on disk before it answers. Without them a restart loses everything.
pub const REDIS_DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A Redis server that keeps its data in memory only. Arguments that are added overrule those that it has.
pub fn redis(port: Port) -> Setup {
    let number = port.number().to_string();
    Setup::new(REDIS, port)
        .with_args(["--port", &number, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        // While it loads its data the answer to PING is an error.
        .with_probe(Probe::new("PING\r\nQUIT\r\n", "+PONG"))
}
