use std::io::{self, Write};

use serde_json::Value;

use crate::exit::Failure;

/// Writes a result to standard output. Whoever reads it may have seen enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("can't write the result", &error))
        }
        _ => Ok(()),
    }
}

/// Writes a result as JSON, for people too.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// The widest a column gets. A longer cell, a long name for example, is shown whole and shifts its own row only.
const WIDEST: usize = 40;

/// Sets `rows` out in columns, each as wide as its widest cell, within reason.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0).min(WIDEST)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["NAME", "X"], ["é", "yy"], ["longer", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "NAME    X\né       yy\nlonger\n");
    }

    #[test]
    fn a_long_cell_shifts_its_own_row_only() {
        let long = "x".repeat(WIDEST + 1);
        let rows = [["a", "1"], [&long, "2"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), format!("a{}  1\n{long}  2\n", " ".repeat(WIDEST - 1)));
    }
}
