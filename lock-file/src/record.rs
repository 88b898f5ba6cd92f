use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{About, BootTime, Claim, Holder, LockName, OwnerId};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::generation::Generation;
use crate::origin::Origin;

/// One generation of a lock: who was granted it and until when, or that nobody was.
///
/// On disk it is text, one `key value` a line, that ends with a checksum. It is complete and on disk before it gets its name,
/// and replaced as a whole; only the digit after `held` changes in place, from 1 to 0, and the checksum does not cover it. So
/// no crash leaves half a record, and whatever does not read as a whole one is not this crate's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: LockName,
    pub(crate) generation: Generation,
    /// The only generation that may follow. It is the next one, but for a record that skips some for a higher token.
    pub(crate) next: Generation,
    pub(crate) origin: Origin,
    /// Whose grant it is, and until when; nobody's record is free from the start.
    pub(crate) grant: Option<Granted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) owner: OwnerId,
    /// Whether its owner still wants it.
    pub(crate) held: bool,
    pub(crate) ttl: Duration,
    pub(crate) deadline: BootTime,
    pub(crate) about: About,
}

/// The first line, with the version of the format.
const HEAD: &str = "lock-file 1";

/// Where the digit after `held` is.
pub(crate) const HELD_AT: usize = HEAD.len() + "\nheld ".len();

/// The digit that says that a record is free.
pub(crate) const FREE: &[u8] = b"0";

/// More than a record ever has: three bytes for one of the name, the label and the host's name each.
pub(crate) const LONGEST: usize = 16 * 1024;

/// The longest label and host's name in a record. They are for people, and longer ones are cut.
const LONGEST_TEXT: usize = 1024;

/// What does not stand for itself: what would end a line, and the escape itself.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

impl Record {
    /// A grant to `claim` that ends `claim.ttl` after `now`.
    pub(crate) fn granted(generation: Generation, claim: &Claim, now: BootTime, origin: &Origin) -> Self {
        let grant = Granted {
            owner: claim.owner,
            held: true,
            ttl: claim.ttl,
            deadline: now + claim.ttl,
            about: claim.about.clone(),
        };
        Self { grant: Some(grant), ..Self::free(&claim.name, generation, generation.next(), origin) }
    }

    /// Nobody's record, which `next` may follow at once.
    pub(crate) fn free(name: &LockName, generation: Generation, next: Generation, origin: &Origin) -> Self {
        Self { name: name.clone(), generation, next, origin: origin.clone(), grant: None }
    }

    pub(crate) fn is_granted_to(&self, owner: OwnerId) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.owner == owner)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = Text(String::with_capacity(512));
        let grant = self.grant.as_ref();
        text.0.push_str(HEAD);
        text.0.push('\n');
        text.line("held", if grant.is_some_and(|grant| grant.held) { "1" } else { "0" });
        text.line("name", &escaped(self.name.as_str()));
        text.line("generation", &self.generation.0.to_string());
        text.line("next", &self.next.0.to_string());
        text.line("host", &escaped(&self.origin.host));
        text.line("boot", &escaped(&self.origin.boot));
        text.line("time-namespace", &self.origin.time_namespace.to_string());
        if let Some(grant) = grant {
            let since = grant.about.since.duration_since(UNIX_EPOCH).unwrap_or_default();
            text.line("owner", &grant.owner.to_string());
            text.line("ttl-ns", &nanoseconds(grant.ttl).to_string());
            text.line("deadline-ns", &nanoseconds(grant.deadline.since_boot()).to_string());
            text.line("pid", &grant.about.pid.to_string());
            text.line("since-unix-ns", &nanoseconds(since).to_string());
            text.line("host-name", &escaped(cut(&grant.about.host)));
            if let Some(label) = &grant.about.label {
                text.line("label", &escaped(cut(label)));
            }
        }
        let check = checksum(&text.0);
        text.line("check", &check);
        text.0
    }

    /// Reads a record, or says what is wrong with it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let text = str::from_utf8(bytes).map_err(|_| Damage("it is not text"))?;
        let (body, check) = text.rsplit_once("check ").ok_or(Damage("it has no checksum"))?;
        if check.strip_suffix('\n') != Some(&checksum(body)) {
            return Err(Damage("its checksum is wrong"));
        }
        let mut lines = Lines(body);
        if lines.rest_of_line() != Some(HEAD) {
            return Err(Damage("another version of this library wrote it"));
        }
        lines.record().ok_or(Damage("its checksum is right and a line is not: another program wrote it"))
    }

    /// What the record tells people of its holder.
    pub(crate) fn holder(&self, remaining: Option<Duration>) -> Option<Holder> {
        let grant = self.grant.as_ref()?;
        let mut holder = Holder::new(self.name.clone(), grant.owner.to_string()).with_about(&grant.about);
        holder.token = self.generation.token().ok();
        holder.remaining = remaining;
        Some(holder)
    }
}

/// Why a file is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

struct Text(String);

impl Text {
    fn line(&mut self, key: &str, value: &str) {
        for part in [key, " ", value, "\n"] {
            self.0.push_str(part);
        }
    }
}

/// The lines of a record, which have one order.
struct Lines<'a>(&'a str);

impl<'a> Lines<'a> {
    fn rest_of_line(&mut self) -> Option<&'a str> {
        let (line, rest) = self.0.split_once('\n')?;
        self.0 = rest;
        Some(line)
    }

    fn value(&mut self, key: &str) -> Option<&'a str> {
        self.rest_of_line()?.strip_prefix(key)?.strip_prefix(' ')
    }

    fn parsed<T: FromStr>(&mut self, key: &str) -> Option<T> {
        self.value(key)?.parse().ok()
    }

    fn text(&mut self, key: &str) -> Option<String> {
        percent_decode_str(self.value(key)?).decode_utf8().ok().map(Into::into)
    }

    fn record(mut self) -> Option<Record> {
        let held = match self.value("held")? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let mut record = Record {
            name: LockName::new(self.text("name")?).ok()?,
            generation: Generation(self.parsed("generation")?),
            next: Generation(self.parsed("next")?),
            origin: Origin {
                host: self.text("host")?,
                boot: self.text("boot")?,
                time_namespace: self.parsed("time-namespace")?,
            },
            grant: None,
        };
        if self.0.is_empty() {
            return (!held && record.next > record.generation).then_some(record);
        }
        record.grant = Some(Granted {
            owner: self.parsed("owner")?,
            held,
            ttl: Duration::from_nanos(self.parsed("ttl-ns")?),
            deadline: BootTime::from_boot(Duration::from_nanos(self.parsed("deadline-ns")?)),
            about: self.about()?,
        });
        (self.0.is_empty() && record.next > record.generation).then_some(record)
    }

    fn about(&mut self) -> Option<About> {
        let mut about = About::this_process();
        about.pid = self.parsed("pid")?;
        about.since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(self.parsed("since-unix-ns")?))?;
        about.host = self.text("host-name")?;
        about.label = if self.0.is_empty() { None } else { Some(self.text("label")?) };
        Some(about)
    }
}

/// Enough of a hash to tell a torn or edited file. It keeps no secret.
fn checksum(body: &str) -> String {
    let mut hash = Sha256::new();
    // The digit after `held` changes in place.
    hash.update(body.get(..HELD_AT).unwrap_or(body));
    hash.update(body.get(HELD_AT + 1..).unwrap_or_default());
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(name: &str, label: Option<&str>) -> Record {
        let mut claim = Claim::new(LockName::new(name).unwrap(), Duration::from_secs(30));
        claim.about.label = label.map(ToOwned::to_owned);
        claim.about.since = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let now = BootTime::from_boot(Duration::new(12, 345));
        Record::granted(Generation(7), &claim, now, Origin::here().unwrap())
    }

    #[test]
    fn a_record_survives_text() {
        let longest = "é".repeat(LockName::MAX_BYTES / 2);
        for (name, label) in [("a/b", None), ("%0A", Some("")), (&longest, Some("check 1\nheld 0\n\u{85}%"))] {
            let record = record(name, label);
            assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
        }
        let free = Record::free(&LockName::new("a").unwrap(), Generation(3), Generation(9), Origin::here().unwrap());
        assert_eq!(Record::parse(free.to_text().as_bytes()), Ok(free));
    }

    #[test]
    fn the_longest_record_can_be_read() {
        let mut record = record(&"\u{ffff}".repeat(LockName::MAX_BYTES / 3), Some(&"\u{ffff}".repeat(5000)));
        record.grant.as_mut().unwrap().about.host = "é".repeat(5000);
        let text = record.to_text();
        assert!(text.len() <= LONGEST, "{}", text.len());
        let read = Record::parse(text.as_bytes()).unwrap();
        assert_eq!(read.grant.unwrap().about.label.unwrap().len(), LONGEST_TEXT - LONGEST_TEXT % 3);
    }

    #[test]
    fn one_digit_in_place_makes_it_free() {
        let record = record("a", Some("label"));
        let mut bytes = record.to_text().into_bytes();
        bytes[HELD_AT..HELD_AT + FREE.len()].copy_from_slice(FREE);
        let read = Record::parse(&bytes).unwrap();
        assert!(!read.grant.as_ref().unwrap().held);
        assert_eq!(read.grant.unwrap().owner, record.grant.unwrap().owner);
    }

    #[test]
    fn a_record_cut_anywhere_is_no_record() {
        let bytes = record("a", Some("label")).to_text().into_bytes();
        for length in 0..bytes.len() {
            assert!(Record::parse(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_record_with_a_changed_byte_is_no_record() {
        let bytes = record("a", Some("label")).to_text().into_bytes();
        for at in (0..bytes.len()).filter(|at| *at != HELD_AT) {
            for byte in [0, b'0', b'1', b'\n', b' ', 0xff] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                assert_eq!(Record::parse(&changed).is_ok(), changed == bytes, "byte {at} made {byte}");
            }
        }
    }

    #[test]
    fn a_checksum_makes_no_record_of_other_text() {
        let text = record("a", None).to_text();
        let body = text.rsplit_once("check ").unwrap().0;
        let [longer, shorter] = [format!("{body}more 1\n"), body[..body.len() - 1].to_owned()];
        for body in
            ["", "\n", HEAD, &longer, &shorter, &body.replace("next 8", "next 7"), &body.replace("held 1", "held 2")]
        {
            let signed = format!("{body}check {}\n", checksum(body));
            assert!(Record::parse(signed.as_bytes()).is_err(), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn other_files_are_no_records(bytes: Vec<u8>) {
            prop_assert!(Record::parse(&bytes).is_err());
        }

        #[test]
        fn whatever_a_holder_says_of_itself_is_read_back(name in "\\PC{1,40}", label: Option<String>, host: String) {
            let mut record = record(&name, label.as_deref());
            let about = &mut record.grant.as_mut().unwrap().about;
            about.host = cut(&host).to_owned();
            about.label = label.map(|label| cut(&label).to_owned());
            prop_assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
        }
    }
}
