//! The page on writing a backend shows the code of this crate, and the backend is as short as the page says.
use std::fs;
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(here(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of a piece of code, without what all of them are indented by.
fn lines(code: &str) -> Vec<&str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let common = code.lines().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or_default();
    code.lines().map(|line| line.get(common..).unwrap_or_default()).collect()
}

fn is_in(block: &str, source: &str) -> bool {
    let block = lines(block);
    let source: Vec<_> = source.lines().collect();
    source.windows(block.len()).any(|window| lines(&window.join("\n")) == block)
}

#[test]
fn every_piece_of_rust_on_the_page_is_in_a_file_of_this_crate() {
    let sources = ["src/lib.rs", "src/main.rs", "tests/conformance.rs"].map(read);
    let page = read("../../../docs/writing-a-backend.md");
    let blocks = page.split("```rust\n").skip(1).map(|rest| rest.split_once("\n```").expect("a block has an end").0);
    let blocks: Vec<_> = blocks.collect();
    assert!(blocks.len() > 5, "the page has {} pieces of Rust", blocks.len());
    for block in blocks {
        assert!(sources.iter().any(|source| is_in(block, source)), "the page shows code that is in no file:\n{block}");
    }
}

#[test]
fn the_backend_has_at_most_150_lines() {
    let lines: usize = fs::read_dir(here("src")).unwrap().map(|file| file.unwrap().path()).fold(0, |lines, file| {
        let is_backend = file.file_name().is_some_and(|name| name != "main.rs");
        lines + if is_backend { fs::read_to_string(file).unwrap().lines().count() } else { 0 }
    });
    assert!((1..=150).contains(&lines), "{lines} lines");
}
