//! Where a policy file is wrong: file, line and column, with the line itself.

use std::fmt::Write as _;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// From 1; 0 if the fault is of the file as a whole.
    pub(crate) line: u64,
    /// From 1.
    pub(crate) column: u64,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn at((line, column): (u64, u64), message: impl Into<String>) -> Self {
        Self { line, column, message: message.into() }
    }
}

/// All faults of a file, by their place.
pub(crate) fn text(file: &str, source: &str, faults: &[Fault]) -> String {
    let mut faults = faults.to_vec();
    faults.sort_by_key(|fault| (fault.line, fault.column));
    let mut text = String::new();
    for (at, fault) in faults.iter().enumerate() {
        let separator = if at > 0 { "\n" } else { "" };
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{separator}{}", one(file, source, fault));
    }
    text
}

fn one(file: &str, source: &str, fault: &Fault) -> String {
    let Fault { line, column, message } = fault;
    if *line == 0 {
        return format!("{file}: {message}");
    }
    let head = format!("{file}:{line}:{column}: {message}");
    let shown = usize::try_from(line.saturating_sub(1)).ok().and_then(|at| source.lines().nth(at));
    let Some(shown) = shown else { return head };
    let before = usize::try_from(column.saturating_sub(1)).unwrap_or(0);
    // Tabs stay tabs, so that the mark stands where a terminal shows the place.
    let indent: String =
        shown.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    format!("{head}\n  {line:>4} | {shown}\n       | {indent}^")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_shows_its_place() {
        let source = "a: 1\n  b: 2\n";
        let faults = [Fault::at((2, 6), "is wrong"), Fault::at((1, 4), "is wrong, too")];
        assert_eq!(
            text("p.yaml", source, &faults),
            "p.yaml:1:4: is wrong, too\n     1 | a: 1\n       |    ^\n\
             p.yaml:2:6: is wrong\n     2 |   b: 2\n       |      ^"
        );
        let whole = [Fault::at((0, 0), "is empty")];
        assert_eq!(text("p.yaml", source, &whole), "p.yaml: is empty");
        assert_eq!(text("p.yaml", "", &[Fault::at((7, 1), "x")]), "p.yaml:7:1: x");
    }
}
