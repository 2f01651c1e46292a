//! What the rules look at: the text files of the repository, with their paths from its root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// What it says.
    pub(crate) text: String,
}

/// All text files.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// Sorted by path.
    pub(crate) files: Vec<File>,
}

/// Folders that are not ours, or not kept.
const SKIPPED: [&str; 2] = [".git", "target"];

impl Tree {
    /// Reads the tree at `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        collect(root, root, &mut files)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Self { root: root.to_path_buf(), files })
    }

    /// The content of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                collect(root, &entry.path(), files)?;
            }
        } else if kind.is_file() {
            // What is not UTF-8 (pictures, frozen bytes) has no lines to check.
            if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
                let path = entry.path();
                let path = path.strip_prefix(root).unwrap_or(&path);
                files.push(File { path: path.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    Ok(())
}

/// The lines of a Rust file that are not behind `#[cfg(test)]`, with their numbers.
///
/// Leans on rustfmt: an item ends at the closing brace that stands as deep as the item began.
pub(crate) fn shipped_lines(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            skip_item(&mut lines);
        } else {
            kept.push((number + 1, line));
        }
    }
    kept
}

fn skip_item<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) {
    let mut depth = None;
    for (_, line) in lines {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        match depth {
            None if code.starts_with("#[") || code.starts_with("//") => {}
            None if code.ends_with(';') || code.ends_with('}') => return,
            None => depth = Some(indent),
            Some(depth) if indent == depth && code.starts_with('}') => return,
            Some(_) => {}
        }
    }
}

/// Whether a file exists for tests only.
pub(crate) fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::{is_test, shipped_lines};

    #[test]
    fn only_code_behind_cfg_test_is_left_out() {
        let text = "one\n#[cfg(test)]\nmod tests;\ntwo\n    #[cfg(test)]\n    #[must_use]\n    fn f() {\n        \
                    if x {\n        }\n    }\nthree\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfour\n";
        let kept: Vec<_> = shipped_lines(text).into_iter().map(|(_, line)| line).collect();
        assert_eq!(kept, ["one", "two", "three", "four"]);
    }

    #[test]
    fn tests_are_told_from_code() {
        assert!(
            is_test("crates/core/tests/scripts.rs") && is_test("crates/core/src/decide/tests.rs")
        );
        assert!(is_test("tests/e2e/main.rs"));
        assert!(!is_test("crates/core/src/attests.rs") && !is_test("crates/core/src/lib.rs"));
    }
}
