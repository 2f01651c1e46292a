//! Rules about single files.

use crate::tree::{File, Tree, is_test, shipped_lines};

/// A rule, with a file that must break it and one that must not.
struct Rule {
    name: &'static str,
    find: fn(&File) -> Vec<String>,
    bad: (&'static str, &'static str),
    good: (&'static str, &'static str),
}

const LINES_MAX: usize = 600;
const TEST_LINES_MAX: usize = 900;

const RULES: [Rule; 10] = [
    Rule {
        name: "a Rust file begins with the reason why it exists (//!)",
        find: header,
        bad: ("crates/core/src/a.rs", "use std::fmt;\n"),
        good: ("crates/core/src/a.rs", "//! Why.\n"),
    },
    Rule {
        name: "no unwrap() outside tests: return an error that says what to do",
        find: unwraps,
        bad: (
            "crates/core/src/a.rs",
            "//! A.\nfn a() { b().unwrap() }\n#[cfg(test)]\nmod tests {\n}\n",
        ),
        good: ("crates/core/src/a.rs", "//! A.\n#[cfg(test)]\nmod tests {\n    b().unwrap();\n}\n"),
    },
    Rule {
        name: "no #[allow]: #[expect(lint, reason = \"…\")] reports itself when it is not needed",
        find: allows,
        bad: ("crates/core/src/a.rs", "//! A.\n#![allow(dead_code)]\n"),
        good: ("crates/core/src/a.rs", "//! A.\n#[expect(dead_code, reason = \"b\")]\n"),
    },
    Rule {
        name: "an ignored test says why",
        find: ignored,
        bad: ("tests/a.rs", "//! A.\n#[ignore]\n"),
        good: ("tests/a.rs", "//! A.\n#[ignore = \"takes an hour\"]\n"),
    },
    Rule {
        name: "no leftovers: finish it, or write it down where work is planned",
        find: leftovers,
        bad: ("docs/a.md", "TODO: the rest\n"),
        good: ("docs/a.md", "The TODOs of a customer are not ours.\n"),
    },
    Rule {
        name: "no path of one person's machine",
        find: machine_paths,
        bad: ("docs/a.md", "see `/root/a`\n"),
        good: ("docs/a.md", "see $target/root/a and effects/work/a\n"),
    },
    Rule {
        name: "an address on the network is ours, an example, or on the list in tests/tidy/files.rs",
        find: hosts,
        bad: ("docs/a.md", "from https://packages.internal/a\n"),
        good: ("docs/a.md", "at http://127.0.0.1:4361/metrics and http://{address}/\n"),
    },
    Rule {
        name: "a name that says something: no util, common, helpers, types, misc",
        find: empty_names,
        bad: ("crates/core/src/util.rs", "//! A.\n"),
        good: ("crates/core/src/until.rs", "//! A.\n"),
    },
    Rule {
        name: "bincode is spelled in the one file that owns the format on disk",
        find: bincode_door,
        bad: ("crates/replica/src/machine.rs", "//! A.\nuse bincode::config;\n"),
        good: ("crates/replica/src/store/codec.rs", "//! A.\nuse bincode::config;\n"),
    },
    Rule {
        name: "the public wire is documented: each message, enum, value, field, service and rpc",
        find: undocumented_wire,
        bad: ("proto/firstclaim/v1/a.proto", "// A.\nmessage A {\n  string b = 1;\n}\n"),
        good: ("proto/firstclaim/v1/a.proto", "// A.\nmessage A {\n  // B.\n  string b = 1;\n}\n"),
    },
];

/// Everything that is wrong with single files.
pub(crate) fn faults(tree: &Tree) -> Vec<String> {
    let mut faults: Vec<String> = tree.files.iter().flat_map(size).collect();
    for rule in &RULES {
        let found =
            tree.files.iter().filter(|file| !spells_rules(file)).flat_map(|file| (rule.find)(file));
        faults.extend(found.map(|place| format!("{place}: {}", rule.name)));
    }
    faults
}

/// The rules must be able to spell what they forbid.
fn spells_rules(file: &File) -> bool {
    file.path.starts_with("tests/tidy/")
}

fn size(file: &File) -> Vec<String> {
    if !is_rust(file) {
        return Vec::new();
    }
    let (lines, max) = if is_test(&file.path) {
        (file.text.lines().count(), TEST_LINES_MAX)
    } else {
        (shipped_lines(&file.text).len(), LINES_MAX)
    };
    let fault =
        || format!("{}: {lines} lines, at most {max}: find the second reason in it", file.path);
    (lines > max).then(fault).into_iter().collect()
}

fn is_rust(file: &File) -> bool {
    has_extension(&file.path, "rs")
}

fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

fn header(file: &File) -> Vec<String> {
    let missing = is_rust(file) && !file.text.starts_with("//! ");
    missing.then(|| file.path.clone()).into_iter().collect()
}

fn unwraps(file: &File) -> Vec<String> {
    if !is_rust(file) || is_test(&file.path) {
        return Vec::new();
    }
    places(file, shipped_lines(&file.text), |line| line.contains("unwrap()"))
}

fn allows(file: &File) -> Vec<String> {
    let found = |line: &str| line.contains("#[allow") || line.contains("#![allow");
    if is_rust(file) { places(file, numbered(file), found) } else { Vec::new() }
}

fn ignored(file: &File) -> Vec<String> {
    if is_rust(file) {
        places(file, numbered(file), |line| line.contains("#[ignore]"))
    } else {
        Vec::new()
    }
}

fn leftovers(file: &File) -> Vec<String> {
    const WORDS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
    const CALLS: [&str; 3] = ["dbg!(", "todo!(", "unimplemented!("];
    if file.path == "Cargo.lock" || file.path.ends_with("/Cargo.lock") {
        return Vec::new();
    }
    places(file, numbered(file), |line| {
        let word = |word: &str| WORDS.contains(&word);
        line.split(|c: char| !c.is_alphanumeric() && c != '_').any(word)
            || (is_rust(file) && CALLS.iter().any(|call| line.contains(call)))
    })
}

fn machine_paths(file: &File) -> Vec<String> {
    const PATHS: [&str; 3] = ["/root/", "/work/", "../shared"];
    places(file, numbered(file), |line| PATHS.iter().any(|path| stands_alone(line, path)))
}

/// Whether `path` is in `line` as the beginning of a path, not in the midst of one.
fn stands_alone(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.$})".contains(c))
    })
}

fn hosts(file: &File) -> Vec<String> {
    const KNOWN: [&str; 14] = [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "0.0.0.0",
        "www.apache.org",
        "github.com",
        "semver.org",
        "keepachangelog.com",
        "json-schema.org",
        "datatracker.ietf.org",
        "www.rfc-editor.org",
        "doc.rust-lang.org",
        "prometheus.io",
        "www.freedesktop.org",
    ];
    let unknown = |line: &str| {
        line.match_indices("://").any(|(at, _)| {
            let scheme = &line[..at];
            let rest = &line[at + "://".len()..];
            let host =
                rest.split(|c: char| "/\"'`<>)# \\,;".contains(c)).next().unwrap_or_default();
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            let filled_in = host.contains(['{', '$', '%', '…']);
            let example = host.ends_with(".example") || host.ends_with("example.com");
            (scheme.ends_with("http") || scheme.ends_with("https"))
                && host.contains('.')
                && !filled_in
                && !example
                && !KNOWN.contains(&host)
        })
    };
    places(file, numbered(file), unknown)
}

fn empty_names(file: &File) -> Vec<String> {
    const NAMES: [&str; 7] =
        ["util.rs", "utils.rs", "common.rs", "helper.rs", "helpers.rs", "types.rs", "misc.rs"];
    let name = file.path.rsplit('/').next().unwrap_or_default();
    NAMES.contains(&name).then(|| file.path.clone()).into_iter().collect()
}

fn bincode_door(file: &File) -> Vec<String> {
    if !is_rust(file) || file.path == "crates/replica/src/store/codec.rs" {
        return Vec::new();
    }
    places(file, numbered(file), |line| line.contains("bincode::"))
}

fn undocumented_wire(file: &File) -> Vec<String> {
    if !file.path.starts_with("proto/firstclaim/v1/") || !has_extension(&file.path, "proto") {
        return Vec::new();
    }
    let mut before = "";
    let mut places = Vec::new();
    for (number, line) in numbered(file) {
        let code = line.trim();
        if declares(code) && !before.starts_with("//") && !code.contains("; //") {
            places.push(format!("{}:{number}", file.path));
        }
        before = code;
    }
    places
}

fn declares(code: &str) -> bool {
    const NOT_DECLARED: [&str; 6] = ["//", "syntax", "option", "import", "package", "reserved"];
    const BLOCKS: [&str; 5] = ["message ", "enum ", "service ", "rpc ", "oneof "];
    if BLOCKS.iter().any(|block| code.starts_with(block)) {
        return true;
    }
    let field = code
        .split_once(" = ")
        .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    field
        && !NOT_DECLARED
            .iter()
            .any(|other| code.starts_with(other) && !code.starts_with("optional "))
}

fn numbered(file: &File) -> Vec<(usize, &str)> {
    file.text.lines().enumerate().map(|(number, line)| (number + 1, line)).collect()
}

fn places(file: &File, lines: Vec<(usize, &str)>, found: impl Fn(&str) -> bool) -> Vec<String> {
    let hits = lines.into_iter().filter(|(_, line)| found(line));
    hits.map(|(number, _)| format!("{}:{number}", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::{File, LINES_MAX, RULES, TEST_LINES_MAX, declares, size};

    fn file((path, text): (&str, &str)) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn every_rule_finds_its_bad_sample_once_and_leaves_the_good_one() {
        for rule in &RULES {
            assert_eq!((rule.find)(&file(rule.bad)).len(), 1, "bad sample of: {}", rule.name);
            assert_eq!((rule.find)(&file(rule.good)), [""; 0], "good sample of: {}", rule.name);
        }
    }

    #[test]
    fn files_are_limited_without_their_tests() {
        let code = |lines| "a\n".repeat(lines);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    a\n".repeat(TEST_LINES_MAX));
        let counted = |path: &str, text: String| size(&File { path: path.to_owned(), text }).len();
        assert_eq!(counted("crates/core/src/a.rs", code(LINES_MAX) + &tests), 0);
        assert_eq!(counted("crates/core/src/a.rs", code(LINES_MAX + 1)), 1);
        assert_eq!(counted("crates/core/tests/a.rs", code(TEST_LINES_MAX)), 0);
        assert_eq!(counted("crates/core/tests/a.rs", code(TEST_LINES_MAX + 1)), 1);
        assert_eq!(counted("docs/a.md", code(TEST_LINES_MAX + 1)), 0);
    }

    #[test]
    fn declarations_on_the_wire_are_told_from_the_rest() {
        for code in
            ["message A {", "map<string, string> a = 8;", "optional int64 a = 2;", "A_B = 0;"]
        {
            assert!(declares(code), "{code}");
        }
        for code in
            ["option a = 1;", "reserved 11 to 14;", "// a = 1;", "syntax = \"proto3\";", "}"]
        {
            assert!(!declares(code), "{code}");
        }
    }
}
