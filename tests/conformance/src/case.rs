use std::fmt;
use std::pin::Pin;

use crate::need::Offer;
use crate::{Need, Trial};

/// One sentence about a backend that a run proves or refutes.
#[derive(Clone, Copy)]
pub struct Case {
    pub(crate) group: &'static str,
    pub(crate) sentence: &'static str,
    pub(crate) since: u32,
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

    /// The version of the suite that it came with. A run of an earlier version skips it.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// What there must be for this case to run.
    pub fn needs(&self) -> &'static [Need] {
        self.needs
    }

    /// Why it is skipped with this offer, if it is.
    pub(crate) fn skipped_by(&self, offer: &Offer<'_>) -> Option<String> {
        self.unmet(offer, |_| true)
    }

    /// Why any suite would skip it for this backend, if it would.
    pub(crate) fn skipped_by_backend(&self, offer: &Offer<'_>) -> Option<String> {
        self.unmet(offer, Need::is_of_the_backend)
    }

    fn unmet(&self, offer: &Offer<'_>, counts: impl Fn(Need) -> bool) -> Option<String> {
        let unmet = self.needs.iter().filter(|need| counts(**need) && !need.is_met_by(offer));
        let unmet: Vec<_> = unmet.map(Need::to_string).collect();
        (!unmet.is_empty()).then(|| unmet.join(", "))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name()).field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// The table of a group's cases: the group's name, then each case's function with the version of the suite that it came with,
/// if that is not the first, and with what it needs.
///
/// A function that is not in its table is dead code, which the compiler reports.
macro_rules! cases {
    ($group:literal: $($sentence:ident $(since $since:literal)? $(needs $($need:ident)+)?),+ $(,)?) => {
        pub(super) const CASES: &[$crate::Case] = &[$(
            $crate::Case {
                group: $group,
                sentence: stringify!($sentence),
                // The last of the list: the case's own version, or the first one.
                since: { let versions: &[u32] = &[1, $($since)?]; versions[versions.len() - 1] },
                needs: &[$($($crate::Need::$need),+)?],
                body: |t| Box::pin($sentence(t)),
            }
        ),+];
    };
}
pub(crate) use cases;
