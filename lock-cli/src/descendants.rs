use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use rustix::process::Pid;

/// What `/proc` tells of a process. The numbers are 0 for what is outside of this pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    id: i32,
    has_ended: bool,
    parent: i32,
    group: i32,
    session: i32,
}

impl Process {
    /// None when it is outside of this pid namespace.
    pub(crate) fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.id)
    }

    /// Its process group; None when that is outside of this pid namespace.
    pub(crate) fn group(&self) -> Option<Pid> {
        Pid::from_raw(self.group)
    }
}

/// Checks that `/proc` shows the processes that this one can start.
///
/// # Errors
///
/// When it is not mounted, or is that of another pid namespace.
pub(crate) fn check_proc() -> io::Result<()> {
    check(process::id(), fs::read_link("/proc/self"))
}

fn check(own: u32, shown: io::Result<PathBuf>) -> io::Result<()> {
    let shown = shown.map_err(|error| io::Error::other(format!("it is not mounted: {error}")))?;
    if shown == Path::new(&own.to_string()) {
        return Ok(());
    }
    let message = "it is that of another pid namespace; mount one for this namespace (unshare --mount-proc)";
    Err(io::Error::other(message))
}

/// The processes below this one, except those that left its session or stayed in its process group.
///
/// One that has ended counts until this process has asked how: whoever looks for it by its number would still find it. If it is
/// another process that does not ask, that is nobody's concern.
///
/// # Errors
///
/// When `/proc` can't be read.
pub(crate) fn descendants() -> io::Result<Vec<Process>> {
    let mut others = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // What can't be read has ended meanwhile.
        if let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            others.extend(read(id));
        }
    }
    let own = i32::try_from(process::id()).ok().and_then(read);
    let own = own.ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    Ok(below(own, others))
}

fn below(own: Process, mut others: Vec<Process>) -> Vec<Process> {
    let mut found = vec![own];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).map(|process| process.id) {
        found.extend(others.extract_if(.., |process| process.parent == parent));
        looked_at += 1;
    }
    let counts = |process: &Process| !process.has_ended || process.parent == own.id;
    let is_ours = |process: &Process| process.session == own.session && process.group != own.group;
    found.retain(|process| counts(process) && is_ours(process));
    found
}

fn read(id: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name may hold anything, and ends with the last parenthesis.
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let has_ended = matches!(words.next()?, "Z" | "X");
    let mut number = || words.next()?.parse().ok();
    Some(Process { id, has_ended, parent: number()?, group: number()?, session: number()? })
}

/// This process's group, for the terminal. None when it is outside of this pid namespace.
pub(crate) fn own_group() -> Option<Pid> {
    i32::try_from(process::id()).ok().and_then(read)?.group()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: i32, parent: i32, group: i32, session: i32) -> Process {
        Process { id, has_ended: false, parent, group, session }
    }

    fn ended(process: Process) -> Process {
        Process { has_ended: true, ..process }
    }

    #[test]
    fn this_process_is_read_from_proc() {
        let own = i32::try_from(process::id()).unwrap();
        assert_eq!(read(own).map(|process| process.id), Some(own));
        assert_eq!(read(i32::MAX), None);
    }

    #[test]
    fn a_proc_of_no_use_is_told_from_a_good_one() {
        assert!(check_proc().is_ok());
        assert!(check(7, Ok("7".into())).is_ok());
        let foreign = check(7, Ok("4711".into())).unwrap_err().to_string();
        assert!(foreign.contains("another pid namespace"), "{foreign}");
        let missing = check(7, Err(io::ErrorKind::NotFound.into())).unwrap_err().to_string();
        assert!(missing.contains("not mounted"), "{missing}");
    }

    #[test]
    fn descendants_are_found_through_their_parents() {
        let own = process(10, 1, 10, 5);
        let others = vec![
            process(14, 13, 13, 5),
            process(13, 12, 13, 5),
            process(12, 10, 12, 5),
            process(20, 1, 20, 5),
            own,
            process(16, 15, 15, 15),
            process(15, 10, 15, 15),
            process(17, 15, 12, 5),
            process(18, 10, 10, 5),
            ended(process(19, 12, 12, 5)),
            ended(process(21, 10, 12, 5)),
        ];
        let mut found: Vec<_> = below(own, others).iter().map(|process| process.id).collect();
        found.sort_unstable();
        assert_eq!(found, [12, 13, 14, 17, 21]);
    }
}
