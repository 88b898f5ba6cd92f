//! Locks in a directory of one host.
mod backend;
mod changes;
mod config;
mod directory_name;
mod failure;
mod file_system;
mod generation;
mod lock_directory;
mod locks;
mod origin;
mod owners;
mod preflight;
mod protocol;
mod record;
mod root;
mod standing;
mod temporaries;

pub use backend::FileBackend;
pub use config::FileConfig;
