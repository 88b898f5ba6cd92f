use crate::failure::{Evidence, Failure, Outcome};
use crate::{Suite, cases};

impl Suite {
    /// Whether exactly those cases are skipped that were pinned.
    pub(crate) fn check_skips(&self) -> Outcome {
        let mut pinned = self.expected_skips.clone();
        let checked = self.offers(|offer| {
            let (mut wrong, mut skipped) = (Vec::new(), Vec::new());
            for case in cases::all().filter(|case| case.since <= self.version) {
                let name = case.name();
                let before = pinned.len();
                pinned.retain(|pin| *pin != name);
                let reason = case.skipped_by_backend(offer);
                if reason.is_some() {
                    skipped.push(format!("{name:?},"));
                }
                match (reason, pinned.len() < before) {
                    (Some(reason), false) => {
                        wrong.push(format!("{name:?} is skipped and not expected to be: it {reason}"));
                    }
                    (None, true) => wrong.push(format!("{name:?} is expected to be skipped and runs")),
                    _ => {}
                }
            }
            (wrong, skipped)
        });
        let (mut wrong, skipped) = match checked {
            Ok(checked) => checked,
            Err(reason) => return Outcome::Unavailable(reason),
        };
        wrong.extend(pinned.iter().map(|pin| format!("{pin:?} is expected to be skipped and is no case")));
        if wrong.is_empty() {
            return Outcome::Passed;
        }
        let message = format!(
            "the skips of {} are not the expected ones; correct the backend's capabilities, or pin what is right with \
             Suite::with_expected_skips:\n  {}\nwhat is skipped at present, to be pinned:\n  {}",
            self.name,
            wrong.join("\n  "),
            skipped.join("\n  "),
        );
        Outcome::Failed(Failure::new(Evidence::Answer, message))
    }
}

#[cfg(test)]
mod tests {
    use lock_core::MemoryBackend;

    use super::*;

    #[test]
    fn the_expected_skips_are_compared_both_ways() {
        assert!(matches!(suite().check_skips(), Outcome::Passed));
        let runs = "7_no_trace::waiters_are_served_in_order";
        let wrong = message(suite().with_expected_skips([runs, "no::such_case"]).check_skips());
        assert!(wrong.contains(&format!("{runs:?} is expected to be skipped and runs")), "{wrong}");
        assert!(wrong.contains("\"no::such_case\" is expected to be skipped and is no case"), "{wrong}");
    }

    fn suite() -> Suite {
        Suite::new("memory", MemoryBackend::new)
    }

    fn message(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed(failure) => failure.message,
            other => panic!("{other:?}"),
        }
    }
}
