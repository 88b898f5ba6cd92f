//! The suite that every lock backend has to pass, against its real service.
//!
//! # Run it in five lines
//!
//! ```toml
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! ```no_run
//! # use lock_core::MemoryBackend;
//! fn main() -> std::process::ExitCode {
//!     let store = MemoryBackend::new();
//!     lock_conformance::Suite::new("memory", move || store.clone()).run()
//! }
//! ```
//!
//! The function opens one more backend instance, as another client would have it; all instances must see the same locks. A
//! service that has to be started first, or may not be there, goes with [`Suite::starting`]. Cases that the backend's
//! [`Capabilities`](lock_core::Capabilities) exclude are shown as ignored, with the reason, and have to be pinned with
//! [`Suite::with_expected_skips`]. What else can be done to the service is offered with a [`Service`]: each of its hooks unlocks
//! cases.
//!
//! The program takes the arguments of any test program (`--list`, a filter, `--exact`, `--skip`, `--test-threads`), so
//! `cargo nextest` runs it too. `--report FILE` writes JSON: the suite's version, the backend's capabilities, and of each case
//! whether it passed, failed or was skipped and why.
//!
//! Each case [belongs to a version](Case::since) of the suite, and a run takes those of the version that it
//! [asks for](Suite::with_version): so a minor release of this crate turns nobody's run red.
//!
//! Names are random, so it may run against a service that is in use, and several runs may go on at once. What a case leaves
//! behind ends of itself within minutes.
//!
//! | variable | what it does |
//! | --- | --- |
//! | `CI` | a missing service fails the run |
//! | `LOCK_CONFORMANCE_TIME_SCALE` | makes every wait longer, for a slow machine or a service far away |
//! | `LOCK_CONFORMANCE_SEED` | repeats a random case; the seed of each run is printed |
//!
//! # What passing means
//!
//! The groups `1_exclusion` to `10_honest_errors`, `watching` and `looking` hold the backend to the numbers of the
//! [contract](lock_core::contract); they call the [`Backend`](lock_core::Backend) directly. The groups `client_...` use it
//! through [`LockClient`](lock_core::LockClient), as applications do, and where a hook allows it break the network, restart the
//! service or make it forget. `processes` does so from other processes, which are stopped and killed. `stress` lets many
//! clients, and many processes, do at random what they may and judges the recorded [`History`]: no two holders at once, no
//! grant before the promised end of the one before, no token twice, tokens in the order of the grants, and nothing at the
//! service that nobody has.
//!
//! What a [`Service`] offers no hook for is not broken: a backend that passes without any does what it promises while nothing
//! fails. No run proves that there is no fault. That the suite can find one is tested too: backends with one flaw each
//! are caught by the case that names the flaw.
//!
//! A bound in time is checked on one side only, from the client's own clock, so that a busy machine can't turn a case red: a
//! grant must live *at least* until the promised time counted from before the ask was sent, and be gone *at most* after the
//! promised time counted from when its answer had come. Where a premise needs the machine to be quick, the case finds out and
//! is repeated with longer times.
//!
//! # Writing a case
//!
//! A case is a sentence about a backend, and a story that is true only if the sentence is:
//!
//! ```ignore
//! cases! { "6_own_only":
//!     a_late_release_leaves_the_successor_alone,
//!     a_lock_that_is_taken_away_is_gone_for_its_holder needs ForceRelease,
//! }
//!
//! /// Field case A7. The lease ran out, somebody else came, and only now the first one is done.
//! async fn a_late_release_leaves_the_successor_alone(t: &Trial) {
//!     let mut first = t.contender().with_ttl(t.ttl());
//!     let mut successor = t.contender();
//!     first.acquires().await;
//!     first.falls_silent().await;
//!     successor.acquires().await;
//!     first.has_nothing_to_release().await;
//!     successor.extends().await;
//! }
//! ```
//!
//! - It stands in the file of its group, in the order of the table at the top. The compiler finds one that is not in the table.
//! - Verbs ask and check in one: a failure shows the line, what was expected, what came, and every call before it. `ensure!`
//!   and `refute!` are for the rest; they say what was found, not what was hoped for.
//! - A contender has a client of its own; `sibling` is another claim of the same client. Grants outlive the case unless
//!   `with_ttl(t.ttl())` is asked for, so that nothing but what the case is about can end.
//! - Nothing sleeps to wait for an event; `falls_silent` waits for a lease to end, `soon` for what has to come.
//! - If it can't fail, it is no case: a flaw in `tests/mutants` shows that it can.
mod case;
mod cases;
mod contender;
mod crowd;
mod failure;
mod ghosts;
mod given;
mod hints;
mod history;
mod holds;
mod hooks;
mod lives;
mod locking;
mod need;
mod oracles;
mod orders;
mod pace;
mod pins;
mod polls;
mod prober;
mod process;
mod recorder;
mod report;
mod run;
mod seed;
mod service;
mod serving;
mod shared;
mod silence;
mod story;
mod suite;
mod trial;
mod written;

pub use case::Case;
pub use cases::all as cases;
pub use failure::{Evidence, Failure, Outcome};
pub use ghosts::Limits;
pub use history::{Became, Event, History, Line, Probe, ProcessEvent, What};
pub use need::Need;
pub use oracles::{Oracle, Violation};
pub use recorder::{Acquisition, Recorder};
pub use service::{Entry, Network, Service};
pub use suite::Suite;

pub(crate) use contender::Contender;
pub(crate) use pace::Pace;
pub(crate) use seed::Seed;
pub(crate) use trial::Trial;
