use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_conformance::{Outcome, Service, Suite, cases};
use lock_core::{
    Attempt, Backend, Capabilities, Claim, Extension, FencingToken, Holder, LockName, Page, Release, Result, Watching,
    async_trait,
};

use crate::remote::{Remote, remote};

/// What is wrong with a backend: it does what the sound one does, except for what is written here.
///
/// A clone is the same flaw at the same service. What one instance knows for itself begins in [`opened`](Self::opened).
#[async_trait]
pub(crate) trait Flaw: Clone + Default + Send + Sync + 'static {
    /// The flaw in one more instance.
    fn opened(&self) -> Self {
        self.clone()
    }

    /// What is changed behind the instances.
    fn behind(&self, service: Service) -> Service {
        service
    }

    /// What the backend says of itself.
    fn promises(&self, sound: Capabilities) -> Capabilities {
        sound
    }

    /// What it takes a name for.
    fn reads(&self, name: &str) -> String {
        name.to_owned()
    }

    async fn try_acquire(&self, sound: &Remote, claim: &Claim) -> Result<Attempt> {
        sound.try_acquire(claim).await
    }

    async fn extend(&self, sound: &Remote, claim: &Claim) -> Result<Extension> {
        sound.extend(claim).await
    }

    async fn release(&self, sound: &Remote, claim: &Claim) -> Result<Release> {
        sound.release(claim).await
    }

    async fn inspect(&self, sound: &Remote, name: &LockName) -> Result<Option<Holder>> {
        sound.inspect(name).await
    }

    async fn watch(&self, sound: &Remote, claim: &Claim, what: Watching) {
        sound.watch(claim, what).await;
    }

    async fn force_release(&self, sound: &Remote, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        sound.force_release(name, only).await
    }

    async fn list(&self, sound: &Remote, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        sound.list(prefix, after).await
    }
}

/// What the clones of a flaw know together.
#[derive(Clone, Default)]
pub(crate) struct Notes<T>(Arc<Mutex<T>>);

impl<T> Notes<T> {
    pub(crate) fn now(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A backend with one flaw.
pub(crate) struct Mutant {
    /// The flaw in one word.
    pub(crate) flaw: &'static str,
    /// The case that names it.
    pub(crate) case: &'static str,
    pub(crate) start: Start,
}

/// Starts the service behind a backend's instances: each case has one of its own.
pub(crate) type Start = fn() -> Service;

impl Mutant {
    /// How each case ends that it is tried on: its own one, and all that are no crowds.
    pub(crate) fn outcomes(&self) -> Vec<(String, Outcome)> {
        outcomes(self.flaw, self.start, |name| name == self.case || !is_crowd(name))
    }
}

/// Whether many do at random what they may: that takes its time, and finds what the other cases find.
pub(crate) fn is_crowd(case: &str) -> bool {
    case.starts_with("client_crowd::") || case.starts_with("stress::")
}

/// How those cases of the suite end that are `tried`, in paused time.
pub(crate) fn outcomes(backend: &str, start: Start, tried: impl Fn(&str) -> bool) -> Vec<(String, Outcome)> {
    let suite = Suite::starting(backend, move || Ok::<_, String>(start()));
    let suite = suite.with_paused_time().with_version(Suite::VERSION);
    cases().filter(|case| tried(&case.name())).map(|case| (case.name(), suite.outcome(case))).collect()
}

/// Locks in memory, behind a backend with this flaw.
pub(crate) fn with_flaw<F: Flaw>() -> Service {
    let flaw = F::default();
    let each = flaw.clone();
    flaw.behind(remote(move |sound| Flawed { flaw: each.opened(), sound }))
}

/// The flaws of a file, each with the case that names it.
macro_rules! mutants {
    ($($flaw:ident: $case:literal),+ $(,)?) => {
        pub(super) const MUTANTS: &[$crate::mutant::Mutant] = &[$(
            $crate::mutant::Mutant {
                flaw: stringify!($flaw),
                case: $case,
                start: $crate::mutant::with_flaw::<$flaw>,
            }
        ),+];
    };
}
pub(crate) use mutants;

struct Flawed<F> {
    flaw: F,
    sound: Remote,
}

impl<F: Flaw> Flawed<F> {
    fn misread(&self, name: &LockName) -> LockName {
        LockName::new(self.flaw.reads(name.as_str())).expect("a flaw takes a name for another name")
    }

    fn misread_of(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        claim.name = self.misread(&claim.name);
        claim
    }
}

#[async_trait]
impl<F: Flaw> Backend for Flawed<F> {
    fn capabilities(&self) -> Capabilities {
        self.flaw.promises(self.sound.capabilities())
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.flaw.try_acquire(&self.sound, &self.misread_of(claim)).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        self.flaw.extend(&self.sound, &self.misread_of(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.flaw.release(&self.sound, &self.misread_of(claim)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.flaw.inspect(&self.sound, &self.misread(name)).await
    }

    async fn watch(&self, claim: &Claim, what: Watching) {
        self.flaw.watch(&self.sound, &self.misread_of(claim), what).await;
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        self.flaw.force_release(&self.sound, &self.misread(name), only).await
    }

    async fn list(&self, prefix: &str, after: Option<&LockName>) -> Result<Page<Holder>> {
        self.flaw.list(&self.sound, prefix, after).await
    }
}

impl<F> fmt::Debug for Flawed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flawed").field("sound", &self.sound).finish_non_exhaustive()
    }
}
