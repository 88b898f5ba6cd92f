//! What is odd, and no flaw: a backend that does so passes every case.
use std::future::pending;

use lock_core::{Capabilities, Claim, Notice, Watching, async_trait};

use crate::mutant::{Flaw, Start, with_flaw};
use crate::remote::{self, Remote};

/// The legal ones by their names.
pub(crate) const LEGAL: &[(&str, Start)] = &[
    ("NoFlaw", remote::memory),
    ("HintsAllTheTime", with_flaw::<HintsAllTheTime>),
    ("HintsNever", with_flaw::<HintsNever>),
];

/// Each watch returns at once: a hint too many costs a question.
#[derive(Clone, Default)]
struct HintsAllTheTime;

#[async_trait]
impl Flaw for HintsAllTheTime {
    async fn watch(&self, _: &Remote, _: &Claim, _: Watching) {}
}

/// No watch ever returns, and the capabilities say so.
#[derive(Clone, Default)]
struct HintsNever;

#[async_trait]
impl Flaw for HintsNever {
    fn promises(&self, mut sound: Capabilities) -> Capabilities {
        (sound.wakeup, sound.loss) = (Notice::Poll, Notice::Poll);
        sound
    }

    async fn watch(&self, _: &Remote, _: &Claim, _: Watching) {
        pending().await
    }
}
