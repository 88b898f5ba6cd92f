use std::fmt;
use std::pin::Pin;

use lock_core::Capabilities;

use crate::{Need, Trial};

/// One sentence about a backend that a run proves or refutes.
#[derive(Clone, Copy)]
pub struct Case {
    pub(crate) group: &'static str,
    pub(crate) sentence: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) body: Body,
}

/// An `async fn(&Trial)`, as a value.
pub(crate) type Body = for<'a> fn(&'a Trial) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Case {
    /// The name in listings and filters: the group, two colons, and the sentence.
    pub fn name(&self) -> String {
        format!("{}::{}", self.group, self.sentence)
    }

    /// What a backend must be able to do for this case to run.
    pub fn needs(&self) -> &'static [Need] {
        self.needs
    }

    /// Why a backend with these capabilities skips the case, if it does.
    pub fn skipped_by(&self, capabilities: &Capabilities) -> Option<String> {
        let unmet = self.needs.iter().filter(|need| !need.is_met_by(capabilities)).map(Need::to_string);
        let unmet: Vec<_> = unmet.collect();
        (!unmet.is_empty()).then(|| unmet.join(", "))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name()).field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// The table of a group's cases: the group's name, then each case's function with what it needs.
///
/// A function that is not in its table is dead code, which the compiler reports.
macro_rules! cases {
    ($group:literal: $($sentence:ident $(needs $($need:ident)+)?),+ $(,)?) => {
        pub(super) const CASES: &[$crate::Case] = &[$(
            $crate::Case {
                group: $group,
                sentence: stringify!($sentence),
                needs: &[$($($crate::Need::$need),+)?],
                body: |t| Box::pin($sentence(t)),
            }
        ),+];
    };
}
pub(crate) use cases;
