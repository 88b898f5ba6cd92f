//! The suite that every backend has to pass.
