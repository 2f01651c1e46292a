//! Compares what a page shows with what a command wrote.
//!
//! A line `...` stands for any number of lines, `[..]` within a line for any text. All else must be
//! there as shown, but for spaces at the ends of lines and empty lines at the end.

/// Says what differs, if anything does.
#[must_use]
pub fn difference(shown: &[String], written: &[String]) -> Option<String> {
    let (shown, written) = (trimmed(shown), trimmed(written));
    if lines_match(&shown, &written) {
        return None;
    }
    let framed = |lines: &[&str]| {
        lines.iter().map(|line| format!("    {line}\n")).collect::<Vec<_>>().concat()
    };
    let (shown, written) = (framed(&shown), framed(&written));
    Some(format!("  shown:\n{shown}  written:\n{written}"))
}

fn trimmed(lines: &[String]) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

fn lines_match(shown: &[&str], written: &[&str]) -> bool {
    match shown.split_first() {
        None => written.is_empty(),
        Some((&"...", rest)) => (0..=written.len()).any(|skip| lines_match(rest, &written[skip..])),
        Some((line, rest)) => written
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(shown: &str, written: &str) -> bool {
    const ANY: &str = "[..]";
    let Some((start, rest)) = shown.split_once(ANY) else { return shown == written };
    let Some(left) = written.strip_prefix(start) else { return false };
    (0..=left.len())
        .filter(|at| left.is_char_boundary(*at))
        .any(|at| line_matches(rest, &left[at..]))
}

#[cfg(test)]
mod tests {
    use super::difference;

    fn same(shown: &str, written: &str) -> bool {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        difference(&lines(shown), &lines(written)).is_none()
    }

    #[test]
    fn what_is_as_shown_passes() {
        assert!(same("", ""));
        assert!(same("one\ntwo  \n\n", "one\ntwo\n"));
        assert!(same("epoch [..], mode [..]!", "epoch 7, mode EXECUTE!"));
        assert!(same("a[..]a[..]c", "a a b c"));
        assert!(same("first\n...\nlast", "first\nlast"));
        assert!(same("first\n...\nlast\n...", "first\n1\n2\nlast\n3"));
    }

    #[test]
    fn what_is_not_as_shown_fails() {
        assert!(!same("", "something"));
        assert!(!same("something", ""));
        assert!(!same("one", "two"));
        assert!(!same("one", "one\ntwo"));
        assert!(!same("one\ntwo", "one"));
        assert!(!same("epoch [..]", "epoc 7"));
        assert!(!same("a[..]c", "a b"));
        assert!(!same("first\n...\nlast", "first\n1\n2"));
        assert!(!same("one...", "one and more"));
    }
}
