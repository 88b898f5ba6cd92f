//! lockctl: run a command under a lock.
