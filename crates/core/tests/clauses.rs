//! Every clause of `docs/semantics.md` that a script can show is named by one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Sections whose clauses speak of time, states, policy, claims and holders: what scripts can show.
const SECTIONS: std::ops::RangeInclusive<u32> = 2..=6;

/// `2.3` as (2, 3), if that is what a word begins with.
fn clause(word: &str) -> Option<(u32, u32)> {
    let word = word.trim_end_matches([',', ':', ';', ')']);
    let (section, number) = word.split_once('.')?;
    Some((section.parse().ok()?, number.parse().ok()?))
}

#[test]
fn every_clause_is_named_by_a_script() {
    let root = Path::new(".");
    let page = fs::read_to_string(root.join("../../docs/semantics.md")).expect("the contract");
    let clauses: BTreeSet<_> = page
        .lines()
        .filter(|line| !line.contains("*(later)*"))
        .filter_map(|line| clause(line.split(' ').next()?))
        .filter(|(section, _)| SECTIONS.contains(section))
        .collect();
    assert!(clauses.len() > 30, "only {} clauses were found", clauses.len());

    let mut named = BTreeSet::new();
    for script in fs::read_dir(root.join("tests/scripts")).expect("the scripts") {
        let text = fs::read_to_string(script.expect("a script").path()).expect("a script");
        let header = text.lines().next().unwrap_or_default();
        let unknown: Vec<_> = header
            .split(' ')
            .filter_map(clause)
            .filter(|clause| SECTIONS.contains(&clause.0) && !clauses.contains(clause))
            .collect();
        assert!(unknown.is_empty(), "{header}: no such clauses: {unknown:?}");
        named.extend(header.split(' ').filter_map(clause));
    }
    let missing: Vec<_> = clauses.difference(&named).collect();
    assert!(missing.is_empty(), "no script names these clauses: {missing:?}");
}
