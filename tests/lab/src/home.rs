use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Data, Said};

/// How much of a server's output an error shows.
const LINES: usize = 20;

/// How much of it is read for that.
const BYTES: u64 = 8 * 1024;

/// A server's place on disk: the directory that it runs in, and beside it what it has written to its output.
#[derive(Debug)]
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> io::Result<Self> {
        tempfile::Builder::new().prefix("lock-lab-").tempdir().map(Self)
    }

    /// The directory that the server runs in.
    pub(crate) fn directory(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Gets the directory ready for a start, and opens the file for the output.
    pub(crate) fn prepare(&self, data: Data, files: &[(PathBuf, String)]) -> io::Result<File> {
        let directory = self.directory();
        if data == Data::Lost && directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        for (path, content) in files {
            let path = directory.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, content)?;
        }
        File::options().append(true).create(true).open(self.log())
    }

    /// All that the server has written.
    pub(crate) fn output(&self) -> io::Result<String> {
        fs::read(self.log()).map(|output| String::from_utf8_lossy(&output).into_owned())
    }

    /// The end of that; nothing if it can't be read, as there's another error to tell of.
    pub(crate) fn said(&self) -> Said {
        let end = end_of(&self.log()).unwrap_or_default();
        let lines: Vec<_> = end.lines().map(str::to_owned).collect();
        Said(lines[lines.len().saturating_sub(LINES)..].to_vec())
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("output")
    }
}

fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}
