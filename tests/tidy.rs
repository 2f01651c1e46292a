//! The structure of this repository, as a test: what people would otherwise have to remember.
//!
//! Each rule is a pure function over text and is proven on a bad sample, because a check that cannot
//! fail is worse than none. Rules about single files are in `tidy/files.rs`, rules about crates and
//! their dependencies in `tidy/crates.rs`, the table of reported faults in `tidy/cases.rs`.

#[path = "tidy/cases.rs"]
mod cases;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/tree.rs"]
mod tree;

use tree::Tree;

#[test]
fn the_tree_is_tidy() {
    let tree = Tree::read(&firstclaim_tests::binary::repository()).expect("read the repository");
    let mut faults = files::faults(&tree);
    faults.extend(crates::faults(&tree));
    faults.extend(cases::faults(&tree));
    assert!(
        faults.is_empty(),
        "{} faults in {} files:\n{}",
        faults.len(),
        tree.files.len(),
        faults.join("\n")
    );
}

#[test]
fn the_tree_is_seen() {
    let tree = Tree::read(&firstclaim_tests::binary::repository()).expect("read the repository");
    for path in ["Makefile", ".ci/run", "Cargo.lock", "crates/core/src/lib.rs", "tests/tidy.rs"] {
        assert!(tree.text(path).is_some(), "{path} is not among the files that are checked");
    }
    assert!(!tree.files.iter().any(|file| file.path.starts_with("target/")));
    assert!(!tree.files.iter().any(|file| file.path.starts_with(".git/")));
}
