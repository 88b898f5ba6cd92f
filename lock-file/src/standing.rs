use lock_core::BootTime;

use crate::generation::Generation;
use crate::origin::Origin;
use crate::record::{Damage, Record};

/// The highest record, and the moment before it was read.
pub(crate) struct Seen<F> {
    pub(crate) generation: Generation,
    pub(crate) now: BootTime,
    pub(crate) record: Result<Record, Damage>,
    pub(crate) file: F,
}

/// What the highest record means for whoever wants the lock.
pub(crate) enum Standing<'a> {
    /// The way is free.
    Free(&'a Record),
    /// It is held, until then.
    Held(&'a Record, BootTime),
    /// It can't be said who holds it until when.
    Unknown(String),
}

impl<F> Seen<F> {
    pub(crate) fn standing(&self, here: &Origin) -> Standing<'_> {
        let record = match &self.record {
            Ok(record) => record,
            Err(damage) => return Standing::Unknown(format!("record {} is damaged: {damage}", self.generation)),
        };
        let Some(grant) = record.grant.as_ref().filter(|grant| grant.held) else { return Standing::Free(record) };
        let origin = &record.origin;
        if origin.boot != here.boot {
            // No process outlives the boot of its machine. Of another machine nothing is known.
            return if origin.host == here.host {
                Standing::Free(record)
            } else {
                let (there, host) = (&grant.about.host, &origin.host);
                Standing::Unknown(format!("record {} is held on another machine, {there} ({host})", self.generation))
            };
        }
        if origin.time_namespace != here.time_namespace {
            return Standing::Unknown(format!("record {} is held in another time namespace", self.generation));
        }
        if self.now < grant.deadline { Standing::Held(record, grant.deadline) } else { Standing::Free(record) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{Claim, LockName};

    use super::*;

    fn origin(host: &str, boot: &str, time_namespace: u64) -> Origin {
        Origin { host: host.to_owned(), boot: boot.to_owned(), time_namespace }
    }

    fn at(seconds: u64) -> BootTime {
        BootTime::from_boot(Duration::from_secs(seconds))
    }

    /// A record of one minute, made at second 100 in that origin, and read at `now`.
    fn seen(origin: &Origin, now: u64) -> Seen<()> {
        let claim = Claim::new(LockName::new("a").unwrap(), Duration::from_secs(60));
        let record = Record::granted(Generation(1), &claim, at(100), origin);
        Seen { generation: Generation(1), now: at(now), record: Ok(record), file: () }
    }

    #[test]
    fn a_grant_is_held_before_its_deadline_and_free_from_then_on() {
        let here = origin("host", "boot", 1);
        assert!(matches!(seen(&here, 159).standing(&here), Standing::Held(_, deadline) if deadline == at(160)));
        assert!(matches!(seen(&here, 160).standing(&here), Standing::Free(_)));
    }

    #[test]
    fn a_grant_of_an_earlier_boot_is_free() {
        let here = origin("host", "boot", 1);
        assert!(matches!(seen(&origin("host", "earlier", 2), 1).standing(&here), Standing::Free(_)));
    }

    #[test]
    fn one_boot_is_one_machine_whatever_its_containers_are_called() {
        let here = origin("host", "boot", 1);
        let seen = seen(&origin("container", "boot", 1), 120);
        assert!(matches!(seen.standing(&here), Standing::Held(..)));
    }

    #[test]
    fn another_machine_s_or_namespace_s_grant_never_ends() {
        let here = origin("host", "boot", 1);
        for there in [origin("other", "its boot", 1), origin("host", "boot", 2)] {
            let mut seen = seen(&there, 1_000_000);
            assert!(matches!(seen.standing(&here), Standing::Unknown(_)));
            seen.record.as_mut().unwrap().grant.as_mut().unwrap().held = false;
            assert!(matches!(seen.standing(&here), Standing::Free(_)));
        }
    }

    #[test]
    fn a_damaged_record_tells_nothing() {
        let here = origin("host", "boot", 1);
        let seen = Seen { generation: Generation(1), now: at(0), record: Err(Damage("it is torn")), file: () };
        assert!(matches!(seen.standing(&here), Standing::Unknown(why) if why == "record 1 is damaged: it is torn"));
    }
}
