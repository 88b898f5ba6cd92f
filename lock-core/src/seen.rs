use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;

use crate::{FencingToken, LockName};

/// For how many names a client remembers the highest token: enough for any program's working set, a megabyte at most.
const NAMES: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");

/// The highest token that this client has seen of each name it used lately.
///
/// It is sent along with each claim, so that a service that has lost its memory does not grant below it.
#[derive(Debug)]
pub(crate) struct SeenTokens(Mutex<LruCache<LockName, FencingToken>>);

impl Default for SeenTokens {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NAMES)))
    }
}

impl SeenTokens {
    pub(crate) fn get(&self, name: &LockName) -> Option<FencingToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    pub(crate) fn note(&self, name: &LockName, token: FencingToken) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(name) {
            Some(highest) => *highest = token.max(*highest),
            None => {
                seen.put(name.clone(), token);
            }
        }
    }
}
