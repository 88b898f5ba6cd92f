//! Locks in a directory of one host.
