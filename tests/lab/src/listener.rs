use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;

/// Whether it is this process that listens on a port of 127.0.0.1. False if it has ended, and if nobody does.
pub(crate) fn is(process: u32, port: u16) -> bool {
    on_port(port).is_some_and(|socket| has(process, socket))
}

/// The socket, by its inode number, that keeps others from listening on a port of 127.0.0.1.
fn on_port(port: u16) -> Option<u64> {
    // The kernel writes them as they are read and begins with those that listen, so most of ten thousand lines stay unread.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|table| File::open(table).ok());
    tables.flat_map(|table| BufReader::new(table).lines().map_while(Result::ok)).find_map(|line| listens(&line, port))
}

/// The inode of the socket in this line of `/proc/net/tcp` (proc(5)), if it listens where a listener on 127.0.0.1 can't then.
fn listens(line: &str, port: u16) -> Option<u64> {
    // The kernel shows an address as numbers in the machine's byte order.
    let loopback = format!("{:08X}", u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets()));
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (address, at) = fields.next()?.split_once(':')?;
    let (_peer, state) = (fields.next()?, fields.next()?);
    let in_the_way = address.ends_with(&loopback) || address.bytes().all(|digit| digit == b'0');
    let matches = in_the_way && state == "0A" && u16::from_str_radix(at, 16) == Ok(port);
    matches.then(|| fields.nth(5)?.parse().ok())?
}

/// Whether a process has this socket open.
fn has(process: u32, socket: u64) -> bool {
    let target = format!("socket:[{socket}]");
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link.as_os_str() == target.as_str())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::Port;

    #[test]
    fn a_listener_is_known() {
        let (reserved, own) = (Port::reserve().unwrap(), std::process::id());
        let port = reserved.number();
        for address in ["127.0.0.1", "0.0.0.0"] {
            assert!(!is(own, port));
            let listener = TcpListener::bind((address, port)).unwrap();
            assert!(is(own, port), "{address}");
            assert!(!is(std::os::unix::process::parent_id(), port), "{address}");
            drop(listener);
        }
        let _elsewhere = TcpListener::bind(("127.0.0.2", port)).unwrap();
        assert!(!is(own, port));
    }

    #[test]
    fn a_listener_on_all_addresses_of_the_sixth_version_is_one() {
        let line =
            "2: 00000000000000000000000000000000:0885 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4242 1";
        assert_eq!(listens(line, 0x885), Some(4242));
        assert_eq!(listens(line, 0x886), None);
        assert_eq!(listens(&line.replace(" 0A ", " 01 "), 0x885), None);
        assert_eq!(listens(&line.replacen("0000:0885", "0001:0885", 1), 0x885), None);
    }
}
