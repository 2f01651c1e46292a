//! Keys out of the values that name an intent.
//!
//! A key names the intent, never a try of it: nothing in it may be new on a repeat.

use firstclaim_core::{IdempotencyKey, Invalid};
use uuid::Uuid;

/// Joins the parts of a key with `:`, so that different lists of parts never give the same key.
///
/// Inside of a part `:` is written `~1` and `~` is written `~0`, as JSON pointers do it for `/`.
/// Everything else stays as it is: no trimming, no change of case.
///
/// ```
/// use firstclaim_client::key;
///
/// assert_eq!(key::join(["payout", "2024-05", "a/b"])?, "payout:2024-05:a/b");
/// assert_eq!(key::join(["payout", "2024:05~", "a/b"])?, "payout:2024~105~0:a/b");
/// # Ok::<(), firstclaim_client::Invalid>(())
/// ```
///
/// # Errors
///
/// [`Invalid`] without parts, for a part that is empty, blank or holds a NUL byte, because all the
/// intents that lack this value would share one key; and for a key of more than 512 bytes.
pub fn join<I, P>(parts: I) -> Result<String, Invalid>
where
    I: IntoIterator<Item = P>,
    P: AsRef<str>,
{
    let mut key = String::new();
    for (at, part) in parts.into_iter().enumerate() {
        let part = part.as_ref();
        check_part(at, part)?;
        if at > 0 {
            key.push(':');
        }
        key.push_str(&part.replace('~', "~0").replace(':', "~1"));
    }
    if key.is_empty() {
        return Err(Invalid::new("parts", "is empty", "send the values that name the intent"));
    }
    Ok(IdempotencyKey::parse(key)?.into())
}

fn check_part(at: usize, part: &str) -> Result<(), Invalid> {
    let invalid =
        |problem: &str, fix: &str| Err(Invalid::new(format!("parts[{at}]"), problem, fix));
    if part.trim().is_empty() {
        return invalid("is blank", "send the value; those that lack it would share one key");
    }
    if part.contains('\0') {
        return invalid("holds a NUL byte", "leave NUL bytes out");
    }
    Ok(())
}

/// The one spelling of a UUID: lower case, with hyphens.
///
/// It takes every spelling of RFC 9562, and those without hyphens, in braces or with `urn:uuid:`
/// before it. It may be a key, or a part of one.
///
/// ```
/// use firstclaim_client::key;
///
/// let order = key::uuid("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6")?;
/// assert_eq!(order, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
/// assert_eq!(key::join(["payout", &order])?, format!("payout:{order}"));
/// # Ok::<(), firstclaim_client::Invalid>(())
/// ```
///
/// # Errors
///
/// [`Invalid`] for what is no UUID, and for the UUIDs of only zeros or only ones: they stand for
/// none, and all who have none would share one key.
pub fn uuid(text: &str) -> Result<String, Invalid> {
    let uuid = Uuid::try_parse(text).map_err(|error| {
        Invalid::new("uuid", format!("is no UUID: {error}"), "send 32 hexadecimal digits")
    })?;
    if uuid.is_nil() || uuid.is_max() {
        let problem = format!("is {uuid}, which stands for none");
        return Err(Invalid::new("uuid", problem, "send the UUID of the intent"));
    }
    Ok(uuid.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn different_parts_never_give_one_key() {
        let lists: [&[&str]; 14] = [
            &["a", "b"],
            &["a:b"],
            &["a~1b"],
            &["a~", "b"],
            &["a", "~b"],
            &["a~:b"],
            &["a~0", "b"],
            &["a~01b"],
            &["ab"],
            &["a", "b", "c"],
            &["a:b", "c"],
            &["a", "b:c"],
            &["A", "b"],
            &["a ", "b"],
        ];
        let mut seen = BTreeMap::new();
        for parts in lists {
            let key = join(parts).expect("a key");
            let back: Vec<String> =
                key.split(':').map(|part| part.replace("~1", ":").replace("~0", "~")).collect();
            assert_eq!(back, parts);
            assert_eq!(seen.insert(key, parts), None, "{parts:?}");
        }
    }

    #[test]
    fn what_strangers_would_share_is_refused() {
        let long = "a".repeat(512);
        assert_eq!(join([&long]).as_deref(), Ok(long.as_str()));
        let cases: [(&[&str], &str); 7] = [
            (&[], "parts: is empty"),
            (&[""], "parts[0]: is blank"),
            (&["a", ""], "parts[1]: is blank"),
            (&["a", " \t\u{3000}", "b"], "parts[1]: is blank"),
            (&["a\0"], "parts[0]: holds a NUL byte"),
            (&[&long[1..], "b"], "key: is 513 bytes long"),
            (&[&long[1..], "", "b"], "parts[1]: is blank"),
        ];
        for (parts, problem) in cases {
            let error = join(parts).expect_err(problem).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn a_uuid_has_one_spelling() {
        let one = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        for text in [
            one,
            "F81D4FAE-7dec-11D0-A765-00A0C91E6BF6",
            "F81D4FAE7DEC11D0A76500A0C91E6BF6",
            "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
            "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        ] {
            assert_eq!(uuid(text).as_deref(), Ok(one), "{text}");
        }
        for text in [
            "",
            "payout",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf60",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
            "f81d4fae7-dec-11d0-a765-00a0c91e6bf6",
            " f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ] {
            assert_eq!(uuid(text).expect_err(text).field, "uuid");
        }
    }
}
