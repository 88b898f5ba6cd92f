use std::any::Any;
use std::fmt;
use std::panic::{Location, resume_unwind};

/// How a case ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The backend does what the case says.
    Passed,
    /// The backend does not claim to be able to, for this reason.
    Skipped(String),
    /// The service is not there, for this reason.
    Unavailable(String),
    /// It does not do what it claims.
    Failed(Failure),
}

/// What a case found to be wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of evidence there is.
    pub evidence: Evidence,
    /// What was expected, what came, and from which call.
    pub message: String,
    /// The case's line that found it.
    pub at: Option<&'static Location<'static>>,
    /// Every call of the case up to then, one a line.
    pub story: Vec<String>,
}

/// What a [`Failure`] rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Evidence {
    /// An answer that is wrong.
    Answer,
    /// That nothing came for a long time.
    Silence,
    /// A panic: in the backend, in the core, or in the case itself.
    Panic,
}

impl Failure {
    pub(crate) fn new(evidence: Evidence, message: String) -> Self {
        Self { evidence, message, at: None, story: Vec::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(at) = self.at {
            write!(f, "\n  at {at}")?;
        }
        if !self.story.is_empty() {
            write!(f, "\n  what happened until then:\n    {}", self.story.join("\n    "))?;
        }
        Ok(())
    }
}

/// What unwinds through a case that ends early.
pub(crate) enum Raised {
    Failure(Failure),
    /// The machine was too slow for the case to mean anything.
    TooSlow(String),
}

/// Ends the case with a failure at the line `at`.
///
/// It unwinds as a failed assertion does, and past the panic hook: the suite prints it once, at the end.
pub(crate) fn fail(at: &'static Location<'static>, evidence: Evidence, message: String) -> ! {
    resume_unwind(Box::new(Raised::Failure(Failure { at: Some(at), ..Failure::new(evidence, message) })))
}

/// Ends this run of the case, which is repeated with longer times: `missed` says what came too late.
pub(crate) fn too_slow(missed: impl fmt::Display) -> ! {
    resume_unwind(Box::new(Raised::TooSlow(missed.to_string())))
}

impl From<Box<dyn Any + Send>> for Raised {
    fn from(panic: Box<dyn Any + Send>) -> Self {
        match panic.downcast::<Self>() {
            Ok(raised) => *raised,
            Err(panic) => {
                let said = panic.downcast_ref::<&str>().copied();
                let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let message = format!("a panic: {}", said.unwrap_or("(without a message)"));
                Self::Failure(Failure::new(Evidence::Panic, message))
            }
        }
    }
}

/// Ends the case, which is refuted: the arguments say what was found, as for `format!`.
macro_rules! refute {
    ($($found:tt)+) => {
        $crate::failure::fail(::std::panic::Location::caller(), $crate::Evidence::Answer, format!($($found)+))
    };
}
pub(crate) use refute;

/// Ends the case unless `condition` holds: the rest says what was found instead.
macro_rules! ensure {
    ($condition:expr, $($found:tt)+) => {
        if !$condition {
            $crate::failure::refute!($($found)+);
        }
    };
}
pub(crate) use ensure;
