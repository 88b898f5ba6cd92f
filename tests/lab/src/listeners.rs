use std::collections::HashSet;
use std::fs;
use std::net::Ipv4Addr;

/// The sockets, by their inode numbers, that keep others from listening on a port of 127.0.0.1.
pub(crate) fn on_port(port: u16) -> HashSet<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(|line| listener(line, port)).collect()
}

/// The sockets that a process has open; none when it has ended.
pub(crate) fn sockets_of(process: u32) -> HashSet<u64> {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// The inode of the socket in this line of `/proc/net/tcp` (proc(5)), if it listens where a listener on 127.0.0.1 can't then.
fn listener(line: &str, port: u16) -> Option<u64> {
    const LISTENS: &str = "0A";
    // The kernel shows an address as numbers in the machine's byte order.
    let loopback = format!("{:08X}", u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets()));
    let fields: Vec<_> = line.split_whitespace().collect();
    let (address, at) = fields.get(1)?.split_once(':')?;
    let in_the_way = address.ends_with(&loopback) || address.bytes().all(|digit| digit == b'0');
    let listens = in_the_way && fields.get(3) == Some(&LISTENS) && u16::from_str_radix(at, 16) == Ok(port);
    listens.then(|| fields.get(9)?.parse().ok())?
}
