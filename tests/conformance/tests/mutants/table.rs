use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lock_conformance::{Case, cases};

use crate::mutant::{Mutant, is_crowd};

/// What gave a mutant away.
pub(crate) struct Catch {
    /// What its case found to be wrong.
    pub(crate) evidence: String,
    /// Every case that found something to be wrong.
    pub(crate) failed: BTreeSet<String>,
}

/// The mutants of this run that were caught.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<usize, (&'static Mutant, Catch)>,
}

impl Table {
    /// Adds a mutant, by where it stands among all.
    pub(crate) fn add(&mut self, number: usize, mutant: &'static Mutant, catch: Catch) {
        self.rows.insert(number, (mutant, catch));
    }

    /// Which cases no mutant of this run fails, of those that they are tried on.
    pub(crate) fn unproved(&self) -> String {
        let failed: BTreeSet<_> = self.rows.values().flat_map(|(_, catch)| &catch.failed).collect();
        let unproved = cases().map(Case::name).filter(|case| !failed.contains(case) && !is_crowd(case));
        unproved
            .fold("cases that no mutant fails, the crowds aside:".to_owned(), |list, case| format!("{list}\n  {case}"))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.values();
        let flaws = rows.clone().map(|(mutant, _)| mutant.flaw.len()).max().unwrap_or_default();
        let named = rows.clone().map(|(mutant, _)| mutant.case.len()).max().unwrap_or_default();
        writeln!(f, "{:flaws$}  {:named$}  others  evidence", "flaw", "caught by")?;
        for (mutant, catch) in rows {
            let (flaw, case, others) = (mutant.flaw, mutant.case, catch.failed.len() - 1);
            writeln!(f, "{flaw:flaws$}  {case:named$}  {others:6}  {}", catch.evidence.replace('\n', " "))?;
        }
        Ok(())
    }
}
