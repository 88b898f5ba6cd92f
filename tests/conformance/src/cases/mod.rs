//! The cases, a file for each heading of the contract.
mod ceiling;
mod client_clean_up;
mod client_crowd;
mod client_holding;
mod client_in_doubt;
mod client_limits;
mod client_loss;
mod client_outage;
mod client_restart;
mod client_waiting;
mod exclusion;
mod floor;
mod honest_errors;
mod idempotence;
mod looking;
mod no_policy;
mod no_trace;
mod own_only;
mod processes;
mod resurrection;
mod stress;
mod tokens;
mod watching;

use crate::Case;

/// Every case, in the order of the contract.
pub fn all() -> impl Iterator<Item = &'static Case> {
    let groups = [
        exclusion::CASES,
        floor::CASES,
        ceiling::CASES,
        idempotence::CASES,
        resurrection::CASES,
        own_only::CASES,
        no_trace::CASES,
        tokens::CASES,
        no_policy::CASES,
        honest_errors::CASES,
        watching::CASES,
        looking::CASES,
        client_waiting::CASES,
        client_holding::CASES,
        client_loss::CASES,
        client_clean_up::CASES,
        client_limits::CASES,
        client_outage::CASES,
        client_in_doubt::CASES,
        client_restart::CASES,
        client_crowd::CASES,
        processes::CASES,
        stress::CASES,
    ];
    groups.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lock_core::{Capabilities, MemoryBackend, Scope};

    use super::*;
    use crate::Service;
    use crate::need::Offer;

    #[test]
    fn no_two_cases_have_the_same_name() {
        let mut names = HashSet::new();
        assert!(all().all(|case| names.insert(case.name())));
    }

    #[test]
    fn every_number_of_the_contract_has_three_cases_that_any_backend_runs() {
        let least = Capabilities::new(Scope::Process, "nothing");
        let service = Service::new(MemoryBackend::new);
        let least = Offer { capabilities: &least, service: &service, has_processes: false, has_paused_time: true };
        for number in 1..=10 {
            let group = format!("{number}_");
            let cases = all().filter(|case| case.name().starts_with(&group) && case.skipped_by(&least).is_none());
            assert!(cases.count() >= 3, "{number}");
        }
    }
}
