//! The suite catches what it is for: each backend here is locks in memory with one flaw, and the case that names the flaw must
//! find it, by an answer that is wrong and not by waiting in vain. What is odd but legal must pass every case.
//!
//! The run ends with a table of the mutants, what gave each of them away, and which cases no mutant fails.
mod flaws;
mod mutant;
#[path = "../remote/mod.rs"]
mod remote;
mod table;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use lock_conformance::{Evidence, Need, Outcome, cases};

use crate::mutant::{Mutant, Start, outcomes};
use crate::table::{Catch, Table};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let table = Arc::new(Mutex::new(Table::default()));
    let caught = flaws::all().enumerate().map(|(number, mutant)| {
        let (table, name) = (Arc::clone(&table), format!("{}::is_caught_by::{}", mutant.flaw, mutant.case));
        Trial::test(name, move || {
            let catch = is_caught(mutant)?;
            table.lock().unwrap_or_else(PoisonError::into_inner).add(number, mutant, catch);
            Ok(())
        })
    });
    let passing = flaws::LEGAL.iter().map(|(name, start)| {
        Trial::test(format!("{name}::passes_every_case"), move || passes_every_case(name, *start))
    });
    let conclusion = libtest_mimic::run(&arguments, caught.chain(passing).collect());
    let table = table.lock().unwrap_or_else(PoisonError::into_inner);
    if !arguments.list {
        println!("{table}");
        if conclusion.num_filtered_out == 0 {
            println!("{}", table.unproved());
        }
    }
    conclusion.exit_code()
}

/// The case must have run, and found an answer that is wrong; the others may find it too.
fn is_caught(mutant: &Mutant) -> Result<Catch, Failed> {
    let outcomes = mutant.outcomes();
    let (_, named) =
        outcomes.iter().find(|(case, _)| case == mutant.case).ok_or_else(|| format!("{:?} is no case", mutant.case))?;
    let evidence = match named {
        Outcome::Failed(failure) if failure.evidence == Evidence::Answer => failure.message.clone(),
        Outcome::Failed(failure) => return Err(format!("caught by {:?}: {failure}", failure.evidence).into()),
        other => return Err(format!("not caught by its case: {other:?}").into()),
    };
    let proves =
        |outcome: &Outcome| matches!(outcome, Outcome::Failed(failure) if failure.evidence == Evidence::Answer);
    let failed = outcomes.into_iter().filter(|(_, outcome)| proves(outcome)).map(|(case, _)| case).collect();
    Ok(Catch { evidence, failed })
}

/// It may skip no more than what paused time, a single process and its own promises exclude.
fn passes_every_case(name: &str, start: Start) -> Result<(), Failed> {
    let excluded = [Need::RealTime, Need::Processes, Need::PushedWakeup, Need::PushedLoss];
    for (case, (_, outcome)) in cases().zip(outcomes(name, start, |_| true)) {
        match outcome {
            Outcome::Passed => {}
            Outcome::Skipped(_) if case.needs().iter().any(|need| excluded.contains(need)) => {}
            Outcome::Failed(failure) => return Err(format!("{}: {failure}", case.name()).into()),
            other => return Err(format!("{}: {other:?}", case.name()).into()),
        }
    }
    Ok(())
}
