//! The suite that every lock backend has to pass.
mod case;
mod cases;
mod contender;
mod failure;
mod history;
mod locking;
mod need;
mod oracles;
mod pace;
mod polls;
mod shared;
mod story;
mod suite;
mod trial;

pub use case::Case;
pub use cases::all as cases;
pub use failure::{Evidence, Failure, Outcome};
pub use history::{Acquisition, Event, History, Recorder, What};
pub use need::Need;
pub use oracles::{Oracle, Violation};
pub use suite::Suite;

pub(crate) use contender::Contender;
pub(crate) use pace::Pace;
pub(crate) use trial::Trial;
