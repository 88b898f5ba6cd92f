//! Every future can be spawned, and every type shared as its docs say.

use std::time::Duration;

use lock_core::{Lease, Lock, LockClient, LockGuard, Lost};
use static_assertions::assert_impl_all;

assert_impl_all!(LockClient: Clone, Send, Sync);
assert_impl_all!(Lock: Clone, Send, Sync);
assert_impl_all!(LockGuard: Send, Sync);
assert_impl_all!(Lease: Clone, Send, Sync);
assert_impl_all!(Lost: Clone, Send, Sync, Future);

fn spawnable<F: Future + Send>(_: F) {}

/// It compiles: that is the test. It is never run.
#[expect(dead_code, reason = "checked by the compiler")]
fn every_future_is_send(client: &'static LockClient, lock: &'static Lock, guard: &'static LockGuard) {
    spawnable(client.list(""));
    spawnable(client.preflight());
    spawnable(client.close(Duration::ZERO));
    spawnable(lock.acquire());
    spawnable(lock.try_acquire());
    spawnable(lock.run(async |lease: Lease| lease.token()));
    spawnable(lock.inspect());
    spawnable(lock.force_release(None));
    spawnable(guard.extend(Duration::ZERO));
    spawnable(guard.release());
    spawnable(guard.lost());
}
