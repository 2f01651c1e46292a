//! The table of `docs/testing.md` that says which test holds which fault that people reported in
//! public trackers: every case is there once, and every test that it names exists, names the case,
//! and runs.

use std::collections::BTreeSet;

use crate::tree::{File, Tree};

const PAGE: &str = "docs/testing.md";
const SCRIPTS: &str = "crates/core/tests/scripts/";

/// The numbers of all cases. One that has no test is in the table, too, with the reason.
const CASES: [u32; 65] = [
    1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37,
    38, 40, 41, 43, 44, 46, 47, 49, 50, 52, 53, 55, 56, 58, 59, 61, 62, 64, 65, 67, 68, 70, 71, 73,
    74, 76, 77, 79, 80, 82, 83, 85, 86, 88, 89, 91, 92, 94, 95, 97,
];

/// How a row without a test begins what it says instead.
const EXCUSES: [&str; 2] = ["waits for ", "not ours: "];

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    case: u32,
    /// What holds the case: tests in backticks, and words.
    held_by: &'a str,
}

/// Everything that is wrong with the table and with the tests that it names.
pub(crate) fn faults(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.text(PAGE) else { return vec![format!("{PAGE} is missing")] };
    let (rows, mut faults) = rows(page);
    faults.extend(numbers(&rows));
    for row in &rows {
        let tests: Vec<_> = tests(row.held_by).collect();
        let excused = EXCUSES.iter().any(|excuse| row.held_by.starts_with(excuse));
        if tests.is_empty() && !excused {
            faults.push(format!("case {}: names no test, and does not say why", row.case));
        }
        let wrong = tests.into_iter().filter_map(|test| wrong(tree, row.case, test));
        faults.extend(wrong.map(|problem| format!("case {}: {problem}", row.case)));
    }
    let named: BTreeSet<&str> = rows.iter().flat_map(|row| tests(row.held_by)).collect();
    faults.extend(forgotten(tree, &named));
    faults.into_iter().map(|fault| format!("{PAGE}: {fault}")).collect()
}

/// The rows of the table under `## Cases`, and what is no row there.
fn rows(page: &str) -> (Vec<Row<'_>>, Vec<String>) {
    let mut faults = Vec::new();
    let section = page.lines().skip_while(|line| *line != "## Cases").skip(1);
    let lines = section.take_while(|line| !line.starts_with("## "));
    let mut rows = Vec::new();
    for line in lines.filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        match (cells.as_slice(), cells.first().map(|case| case.parse())) {
            ([_, reported, fault, held_by], Some(Ok(case)))
                if !reported.is_empty() && !fault.is_empty() =>
            {
                rows.push(Row { case, held_by });
            }
            _ => faults.push(format!("not a row of case, reported, fault and test: {line}")),
        }
    }
    (rows, faults)
}

/// Cases that are missing, unknown, or in the table twice.
fn numbers(rows: &[Row<'_>]) -> Vec<String> {
    let count = |case: u32| rows.iter().filter(|row| row.case == case).count();
    let missing = CASES.iter().filter(|case| count(**case) == 0);
    let mut faults: Vec<_> = missing.map(|case| format!("case {case} is missing")).collect();
    let cases: BTreeSet<u32> = rows.iter().map(|row| row.case).collect();
    let unknown = cases.iter().filter(|case| !CASES.contains(case));
    faults.extend(unknown.map(|case| format!("there is no case {case}")));
    let twice = cases.iter().filter(|case| count(**case) > 1);
    faults.extend(twice.map(|case| format!("case {case} is there twice")));
    faults
}

/// What stands in backticks and is a path.
fn tests(held_by: &str) -> impl Iterator<Item = &str> {
    held_by.split('`').skip(1).step_by(2).filter(|word| word.contains('/'))
}

/// What is wrong with one test: `FILE::FUNCTION`, or a script.
fn wrong(tree: &Tree, case: u32, test: &str) -> Option<String> {
    let (path, function) =
        test.split_once("::").map_or((test, None), |(path, it)| (path, Some(it)));
    let Some(text) = tree.text(path) else { return Some(format!("{path} does not exist")) };
    let Some(function) = function else {
        if !path.starts_with(SCRIPTS) {
            return Some(format!("{path} is no script; name the function as {path}::NAME"));
        }
        let header: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        return (!names(&header, case)).then(|| format!("{path} does not name `case {case}`"));
    };
    let Some(above) = above(text, function) else {
        return Some(format!("{path} has no test {function}"));
    };
    if above.contains("ignore") {
        return Some(format!("{function} in {path} is ignored"));
    }
    let in_name = function.strip_prefix("case_").is_some_and(|name| {
        let number = name.split('_').next().unwrap_or_default();
        number.parse() == Ok(case)
    });
    let named = in_name || names(&above, case);
    (!named).then(|| format!("{function} in {path} does not name `case {case}`"))
}

/// Attributes and comments of a test function; none if there is no such test.
fn above(text: &str, function: &str) -> Option<String> {
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let at = lines.iter().position(|line| {
        let code = line.strip_prefix("async ").unwrap_or(line);
        let name = code.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(function));
        name.is_some_and(|rest| rest.starts_with('('))
    })?;
    let above = lines[..at].iter().rev();
    let above = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let above: Vec<_> = above.copied().collect();
    let test = above.iter().any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"));
    test.then(|| above.join("\n"))
}

/// Whether `case 4` is there, and not only `case 44`.
fn names(text: &str, case: u32) -> bool {
    let word = format!("case {case}");
    text.match_indices(&word).any(|(at, _)| {
        let next = text[at + word.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_digit())
    })
}

/// Tests that say that they are of a case, and that the table does not know.
fn forgotten(tree: &Tree, named: &BTreeSet<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    for file in &tree.files {
        let script = file.path.strip_prefix(SCRIPTS).is_some_and(|name| name.starts_with("case_"));
        if script && !named.contains(file.path.as_str()) {
            faults.push(format!("{} is in no row", file.path));
        }
        for function in functions(file) {
            let test = format!("{}::{function}", file.path);
            if !named.contains(test.as_str()) {
                faults.push(format!("{test} is in no row"));
            }
        }
    }
    faults
}

fn functions(file: &File) -> impl Iterator<Item = &str> {
    let rust = file.path.rsplit_once('.').is_some_and(|(_, extension)| extension == "rs");
    let lines = file.text.lines().filter(move |_| rust).map(str::trim_start);
    let names = lines.filter_map(|line| {
        let code = line.strip_prefix("async ").unwrap_or(line);
        code.strip_prefix("fn case_")?;
        Some(code["fn ".len()..].split(['(', '<']).next().unwrap_or_default())
    });
    names.filter(|name| name["case_".len()..].starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{CASES, File, PAGE, Tree, faults, names};

    /// A tree in which every case but the last is held by one script.
    fn tree(last: &str, files: &[(&str, &str)]) -> Tree {
        let script = "crates/core/tests/scripts/case_all";
        let header = CASES.map(|case| format!("# case {case}\n")).concat();
        let mut page = "# Testing\n\n| 1 | elsewhere |\n\n## Cases\n\nWords.\n\n| case | reported \
                        | fault | test |\n|---|---|---|---|\n"
            .to_owned();
        for case in &CASES[..CASES.len() - 1] {
            page += &format!("| {case} | a #1 | b | `{script}`, in words |\n");
        }
        page += &format!("{last}\n\n## Next\n\n| 99 | a | b | c |\n");
        let file = |(path, text): (&str, &str)| File { path: path.into(), text: text.into() };
        let mut all = vec![file((PAGE, &page)), file((script, &header))];
        all.extend(files.iter().copied().map(file));
        Tree { root: PathBuf::new(), files: all }
    }

    const TEST: &str = "//! A.\n\n/// case 97: b.\n#[test]\nfn b() {}\n\n    #[tokio::test(flavor = \
                        \"multi_thread\")]\n    async fn case_97_c() {\n\n#[test]\n#[ignore = \
                        \"slow\"]\nfn case_97_d() {}\n\nfn e() {}\n\n#[test]\nfn f() {}\n";

    #[test]
    fn a_table_that_holds_is_left_alone() {
        for held_by in [
            "`crates/a/tests/a.rs::b`, `crates/a/tests/a.rs::case_97_c`",
            "`crates/core/tests/scripts/case_all`; the rest waits for `x`",
        ] {
            let tests = [("crates/a/tests/a.rs", TEST.split("#[test]\n#[ignore").next().unwrap())];
            let found = faults(&tree(&format!("| 97 | a | b | {held_by} |"), &tests));
            let found: Vec<_> = found.iter().filter(|it| !it.contains("is in no row")).collect();
            assert!(found.is_empty(), "{found:?}");
        }
        for excuse in ["waits for the restore", "not ours: nobody asked"] {
            assert_eq!(faults(&tree(&format!("| 97 | a | b | {excuse} |"), &[])), [""; 0]);
        }
    }

    #[test]
    fn each_fault_of_the_table_is_found() {
        let at = "crates/a/tests/a.rs";
        for (last, problem) in [
            (String::new(), "case 97 is missing"),
            ("| 97 | a | b | later |".into(), "case 97: names no test, and does not say why"),
            ("| 97 | a | `x/y` |".into(), "not a row"),
            ("| 97 |  | b | waits for c |".into(), "not a row"),
            ("| 98 | a | b | waits for c |".into(), "there is no case 98"),
            ("| 97 | a | b | waits for c |\n| 97 | a | b | not ours: c |".into(), "is there twice"),
            ("| 97 | a | b | `crates/b.rs::c` |".into(), "crates/b.rs does not exist"),
            (format!("| 97 | a | b | `{at}` |"), "is no script"),
            (format!("| 97 | a | b | `{at}::x` |"), "has no test x"),
            (format!("| 97 | a | b | `{at}::e` |"), "has no test e"),
            (format!("| 97 | a | b | `{at}::case_97_d` |"), "is ignored"),
            (format!("| 97 | a | b | `{at}::f` |"), "f in crates/a/tests/a.rs does not name"),
            (format!("| 97 | a | b | `{at}::b` |"), "::case_97_c is in no row"),
            (
                "| 97 | a | b | `crates/core/tests/scripts/other` |".into(),
                "other does not name `case 97`",
            ),
        ] {
            let other = ("crates/core/tests/scripts/other", "# case 9, case 971.\n\nat 1\n");
            let found = faults(&tree(&last, &[(at, TEST), other]));
            assert!(found.iter().any(|fault| fault.contains(problem)), "{problem}: {found:?}");
        }
        let script = ("crates/core/tests/scripts/case_98_new", "# case 98.\n");
        let found = faults(&tree("| 97 | a | b | waits for c |", &[script]));
        assert_eq!(found, ["docs/testing.md: crates/core/tests/scripts/case_98_new is in no row"]);
    }

    #[test]
    fn a_case_is_not_found_in_a_longer_number() {
        assert!(names("# case 44, case 4: a", 4) && names("case 4", 4));
        assert!(!names("# case 44, case 40", 4) && !names("cases 4", 4));
    }
}
