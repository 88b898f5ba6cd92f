//! The flaws, a file for each part of the contract, and what is odd but legal.
mod calls;
mod ends;
mod exclusion;
mod legal;
mod looking;
mod own_only;
mod queue;
mod repetition;
mod tokens;
mod watching;

pub(crate) use legal::LEGAL;

use crate::mutant::Mutant;

/// Every mutant, in the order of the contract.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    let files = [
        exclusion::MUTANTS,
        ends::MUTANTS,
        repetition::MUTANTS,
        own_only::MUTANTS,
        queue::MUTANTS,
        tokens::MUTANTS,
        calls::MUTANTS,
        watching::MUTANTS,
        looking::MUTANTS,
    ];
    files.into_iter().flatten()
}
