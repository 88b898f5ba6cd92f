use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::ServerError;

/// A program that has to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called, or its path.
    pub name: &'static str,
    /// The Debian package that it comes with.
    pub package: &'static str,
}

impl Program {
    /// Where the program is.
    ///
    /// # Errors
    ///
    /// [`ServerError::Missing`].
    pub fn find(&self) -> Result<PathBuf, ServerError> {
        let executable = |path: &PathBuf| {
            path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let places = env::var_os("PATH").unwrap_or_default();
        // A path stays what it is: joining an absolute one to anything gives itself.
        let found = env::split_paths(&places).map(|place| place.join(self.name)).find(executable);
        found.ok_or(ServerError::Missing { program: self.name, package: self.package })
    }

    /// Why the tests that need this program are skipped, if it's missing. Where the environment says `CI` nothing is skipped:
    /// the tests shall fail, so that a missing program is noticed.
    pub fn reason_to_skip(&self) -> Option<String> {
        let in_ci = env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"));
        self.find().err().filter(|_| !in_ci).map(|missing| missing.to_string())
    }
}
