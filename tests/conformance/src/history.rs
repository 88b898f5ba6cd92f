use std::fmt;
use std::io::{self, BufRead};

use lock_core::{BootTime, ErrorKind, FencingToken, LockName};
use serde::{Deserialize, Serialize};

use crate::written::{kind, nanoseconds};

/// What happened to the locks of a run, by every client, as the clients saw it; and what was seen at the service meanwhile.
///
/// All stamps are boot times of one machine, so the intervals of different threads and processes compare exactly. A client
/// stamps what it sends before it sends it, and what it is told after it was told: so a claim is never seen longer than its
/// holder took it to be. What one acquisition is told is stamped in the order in which it was told.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
    probes: Vec<Probe>,
    processes: Vec<ProcessEvent>,
}

/// One entry of a [`History`], as it stands in a file: one JSON object a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Line {
    /// Something that a client did or was told.
    Event(Event),
    /// What the service was seen to keep.
    Probe(Probe),
    /// What became of a process with clients.
    Process(ProcessEvent),
}

/// Something that a client did or was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// When.
    #[serde(with = "nanoseconds")]
    pub at: BootTime,
    /// To which acquisition it belongs: a number that no other one has.
    pub op: u64,
    /// Of which lock.
    pub name: LockName,
    /// What.
    pub what: What,
}

/// What an [`Event`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The client is about to ask for the lock.
    Asks,
    /// It was told that it has the lock, certainly until then.
    Granted {
        /// The grant's token.
        token: FencingToken,
        /// Until when, by the client's own reckoning.
        #[serde(with = "nanoseconds")]
        until: BootTime,
    },
    /// It was told that somebody else has the lock.
    Refused,
    /// It was told that this failed.
    Failed(#[serde(with = "kind")] ErrorKind),
    /// It gave up before it was told anything.
    GaveUp,
    /// It was told that it has the lock for longer.
    Extended {
        /// Until when, by the client's own reckoning.
        #[serde(with = "nanoseconds")]
        until: BootTime,
    },
    /// It is about to give the lock back, and takes it for gone.
    Releases,
    /// The service has confirmed that it was given back.
    Released,
    /// It was told that it has lost the lock.
    Lost,
}

/// What the service was seen to keep of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Probe {
    /// When the service was asked.
    #[serde(with = "nanoseconds")]
    pub sent: BootTime,
    /// When it had answered.
    #[serde(with = "nanoseconds")]
    pub answered: BootTime,
    /// Of which lock.
    pub name: LockName,
    /// The token of each grant that was seen, or null for whatever else could exclude somebody.
    pub seen: Vec<Option<FencingToken>>,
}

/// What became of a process with clients, told by whoever started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessEvent {
    /// When: before what stops it, and after what lets it go on or has ended it.
    #[serde(with = "nanoseconds")]
    pub at: BootTime,
    /// Which one. The [acquisitions](Event::process) tell to which they belong.
    pub process: u32,
    /// What became of it.
    pub became: Became,
}

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Became {
    /// It is about to be stopped.
    Stopped,
    /// It goes on.
    Running,
    /// Its clients have given back all that they had, by the service's own word, and ask for nothing more.
    Closed,
    /// It has ended, in whatever way.
    Dead,
}

impl History {
    /// A history of these lines, in any order.
    pub fn new<L: Into<Line>>(lines: impl IntoIterator<Item = L>) -> Self {
        let mut history = Self::default();
        for line in lines {
            match line.into() {
                Line::Event(event) => history.events.push(event),
                Line::Probe(probe) => history.probes.push(probe),
                Line::Process(event) => history.processes.push(event),
            }
        }
        history.events.sort_by_key(|event| event.at);
        history.probes.sort_by_key(|probe| probe.sent);
        history.processes.sort_by_key(|event| event.at);
        history
    }

    /// Reads lines of JSON, as many processes may have written them. A last line without an end is left out: its writer was
    /// killed.
    ///
    /// # Errors
    ///
    /// What can't be read, and in which line.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
        let (mut lines, mut text) = (Vec::<Line>::new(), String::new());
        for number in 1.. {
            text.clear();
            input.read_line(&mut text)?;
            if !text.ends_with('\n') {
                break;
            }
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {error}"));
            lines.push(serde_json::from_str(&text).map_err(invalid)?);
        }
        Ok(Self::new(lines))
    }

    /// The events, by time.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What was seen at the service, by time.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// What became of the processes, by time.
    pub fn processes(&self) -> &[ProcessEvent] {
        &self.processes
    }

    /// How often a lock was granted.
    pub fn grants(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count()
    }
}

impl Event {
    /// An event of the acquisition `op`.
    pub const fn new(at: BootTime, op: u64, name: LockName, what: What) -> Self {
        Self { at, op, name, what }
    }

    /// The process that the acquisition belongs to: the upper half of its number.
    pub const fn process(&self) -> u32 {
        (self.op >> u32::BITS) as u32
    }
}

impl Probe {
    /// What was seen of `name` in an answer that came at `answered` to a question of `sent`.
    pub const fn new(sent: BootTime, answered: BootTime, name: LockName, seen: Vec<Option<FencingToken>>) -> Self {
        Self { sent, answered, name, seen }
    }
}

impl ProcessEvent {
    /// What became of `process` at `at`.
    pub const fn new(at: BootTime, process: u32, became: Became) -> Self {
        Self { at, process, became }
    }
}

impl From<Event> for Line {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl From<Probe> for Line {
    fn from(probe: Probe) -> Self {
        Self::Probe(probe)
    }
}

impl From<ProcessEvent> for Line {
    fn from(event: ProcessEvent) -> Self {
        Self::Process(event)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => fmt::Display::fmt(event, f),
            Self::Probe(probe) => fmt::Display::fmt(probe, f),
            Self::Process(event) => fmt::Display::fmt(event, f),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  acquisition {:#x} of {:?} ", Seconds(self.at), self.op, self.name)?;
        match self.what {
            What::Asks => write!(f, "asks"),
            What::Granted { token, until } => write!(f, "is granted token {token} until {}", Seconds(until)),
            What::Refused => write!(f, "is refused"),
            What::Failed(kind) => write!(f, "fails: {kind}"),
            What::GaveUp => write!(f, "gives up"),
            What::Extended { until } => write!(f, "is extended until {}", Seconds(until)),
            What::Releases => write!(f, "gives the lock back"),
            What::Released => write!(f, "is told that the lock was given back"),
            What::Lost => write!(f, "is told of its loss"),
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  the service is asked for the holder of {:?}", Seconds(self.sent), self.name)?;
        write!(f, " and shows until {}:", Seconds(self.answered))?;
        self.seen.iter().try_for_each(|token| match token {
            Some(token) => write!(f, " token {token}"),
            None => write!(f, " something without a token"),
        })?;
        if self.seen.is_empty() { write!(f, " nothing") } else { Ok(()) }
    }
}

impl fmt::Display for ProcessEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let became = match self.became {
            Became::Stopped => "is stopped",
            Became::Running => "goes on",
            Became::Closed => "has given back all that it had",
            Became::Dead => "has ended",
        };
        write!(f, "{}  process {} {became}", Seconds(self.at), self.process)
    }
}

struct Seconds(BootTime);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.0.since_boot().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_are_read_back_and_a_torn_last_one_is_left_out() {
        let (name, token) = (LockName::new("a\"b").unwrap(), FencingToken::new(7).unwrap());
        let at = |seconds| BootTime::from_boot(Duration::new(seconds, 123_456_789));
        let op = (3 << u32::BITS) + 5;
        let whats = [
            What::Asks,
            What::Granted { token, until: at(9) },
            What::Refused,
            What::Failed(ErrorKind::TokenRegression),
            What::GaveUp,
            What::Extended { until: at(10) },
            What::Releases,
            What::Released,
            What::Lost,
        ];
        let mut lines: Vec<Line> = whats.map(|what| Event::new(at(1), op, name.clone(), what).into()).into();
        lines.push(Probe::new(at(2), at(3), name.clone(), vec![Some(token), None]).into());
        lines.push(ProcessEvent::new(at(4), 3, Became::Dead).into());
        let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        let read = History::read((text.clone() + "{\"event\":{\"at\":1").as_bytes()).unwrap();
        assert_eq!(read.events().len(), whats.len());
        assert_eq!(read.events()[0].process(), 3);
        let written = History::new(lines);
        assert_eq!(read.events(), written.events());
        assert_eq!((read.probes(), read.processes()), (written.probes(), written.processes()));
        let wrong = History::read((text + "{}\n").as_bytes()).unwrap_err();
        assert!(wrong.to_string().starts_with("line 12: "), "{wrong}");
    }
}
