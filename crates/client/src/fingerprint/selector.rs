//! Which fields of a request make it the same request.

use std::collections::BTreeMap;

use firstclaim_core::{Invalid, Scheme, limits};

use super::JSON_SHA256;
use super::canonical::{Value, digest_object};
use crate::v1;

/// Pointers of one selector: each may become a part.
const POINTERS_MAX: usize = limits::FINGERPRINT_PARTS_MAX;
/// The part of all fields that have none of their own. No JSON pointer is spelled like it.
const REST: &str = "*";

/// Says which fields of a JSON request make it the same request.
///
/// A request often carries what is new on every sending: a trace id, a time of sending, a delivery
/// counter. A selector names the fields that matter, or those that do not, by JSON pointers (RFC
/// 6901: `/payee/iban`, `/lines/0`, with `~1` for `/` and `~0` for `~` inside of a name).
///
/// Name and version are part of the scheme, `fc-json-1/payout/3`, so that digests of two selectors
/// are never compared. **Whoever changes the fields changes the version.** Until the records bound
/// by the old version are forgotten, send the fingerprints of both.
///
/// Every selected field is also a named part, so that a mismatch can say which one differs. Parts
/// are hints: only the whole digest decides. The digest of a value with few possibilities, such as
/// an amount, can be found out by trying them; see [`Selector::without_parts`].
///
/// ```
/// use firstclaim_client::fingerprint::Selector;
///
/// let payout = Selector::include("payout", 3, ["/amount", "/payee/iban", "/note"])?;
/// let first = payout.fingerprint(
///     br#"{"trace": "7f", "amount": "120.00", "payee": {"iban": "XX1", "name": "Ada"}}"#,
/// )?;
/// let again = payout.fingerprint(
///     br#"{"trace": "80", "amount": "120.00", "payee": {"iban": "XX1"}}"#,
/// )?;
/// assert_eq!(first, again);
/// assert_eq!(first.scheme, "fc-json-1/payout/3");
/// assert_eq!(first.parts.keys().collect::<Vec<_>>(), ["/amount", "/payee/iban"]);
/// # Ok::<(), firstclaim_client::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    scheme: String,
    rule: Rule,
    with_parts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Only(Vec<Pointer>),
    AllBut(Vec<Pointer>),
}

impl Selector {
    /// Selects the fields that these pointers name, and nothing else.
    ///
    /// A field that is missing is no error, and another thing than a field that is `null`. If all
    /// are missing, all such requests look alike: the fingerprint then has no parts.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a name that a scheme cannot hold, no pointer or more than 16, one of more
    /// than 64 bytes, one that is no JSON pointer, or one that lies inside another.
    pub fn include<I, P>(name: &str, version: u32, pointers: I) -> Result<Self, Invalid>
    where
        I: IntoIterator<Item = P>,
        P: AsRef<str>,
    {
        let pointers = Pointer::parse_all(pointers)?;
        if pointers.is_empty() {
            let fix = "name the fields that matter; without any, all requests would look alike";
            return Err(Invalid::new("pointers", "is empty", fix));
        }
        // A pointer is the name of a part.
        let max = limits::SCHEME_BYTES_MAX;
        if let Some(at) = pointers.iter().position(|pointer| pointer.text.len() > max) {
            let problem = format!("is {} bytes long", pointers[at].text.len());
            let fix = format!("use at most {max} bytes, or name the field around it");
            return Err(Invalid::new(format!("pointers[{at}]"), problem, fix));
        }
        Self::new(name, version, Rule::Only(pointers))
    }

    /// Selects all fields but those that these pointers name, whether they are there or not.
    ///
    /// Parts are then the fields at the top of the request. If there are more than 16, or names of
    /// more than 64 bytes, those that find no room share the part `*`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a name that a scheme cannot hold, more than 16 pointers, one that is no JSON
    /// pointer, or one that lies inside another.
    pub fn exclude<I, P>(name: &str, version: u32, pointers: I) -> Result<Self, Invalid>
    where
        I: IntoIterator<Item = P>,
        P: AsRef<str>,
    {
        Self::new(name, version, Rule::AllBut(Pointer::parse_all(pointers)?))
    }

    /// Selects the whole request, with parts as of [`Selector::exclude`].
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a name that a scheme cannot hold.
    pub fn whole(name: &str, version: u32) -> Result<Self, Invalid> {
        Self::new(name, version, Rule::AllBut(Vec::new()))
    }

    fn new(name: &str, version: u32, rule: Rule) -> Result<Self, Invalid> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(allowed) {
            let problem = format!("is {name:?}");
            return Err(Invalid::new("name", problem, "use one or more of a-z, 0-9 and \"._-\""));
        }
        let scheme = Scheme::parse(format!("{JSON_SHA256}/{name}/{version}"))?.into();
        Ok(Self { scheme, rule, with_parts: true })
    }

    /// The same without digests of parts: a mismatch is then found, but not where it is.
    #[must_use]
    pub fn without_parts(mut self) -> Self {
        self.with_parts = false;
        self
    }

    /// The scheme of this selector's fingerprints.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The fingerprint of a JSON request, read as [`json()`](super::json()) reads it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `request` is not exact JSON, in a field that is not selected too.
    pub fn fingerprint(&self, request: &[u8]) -> Result<v1::Fingerprint, Invalid> {
        let document = Value::read(request)?;
        let (digest, parts) = match &self.rule {
            Rule::Only(pointers) => {
                let found = pointers.iter().filter_map(|pointer| {
                    Some((pointer.text.as_str(), find(&document, &pointer.names)?))
                });
                let fields: BTreeMap<&str, &Value<'_>> = found.collect();
                (digest_object(&fields), each_digest(fields))
            }
            Rule::AllBut(pointers) => {
                let cuts: Vec<&[String]> = pointers.iter().map(|pointer| &*pointer.names).collect();
                let document = without(document, &cuts);
                (document.digest(), parts_of(&document))
            }
        };
        let parts = if self.with_parts { parts } else { BTreeMap::new() };
        Ok(v1::Fingerprint { scheme: self.scheme.clone(), digest, parts })
    }
}

/// A JSON pointer, and the names of the fields on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pointer {
    text: String,
    names: Vec<String>,
}

impl Pointer {
    fn parse_all<I, P>(pointers: I) -> Result<Vec<Self>, Invalid>
    where
        I: IntoIterator<Item = P>,
        P: AsRef<str>,
    {
        let mut parsed: Vec<Self> = Vec::new();
        for (at, text) in pointers.into_iter().enumerate() {
            let field = format!("pointers[{at}]");
            if at == POINTERS_MAX {
                let fix = format!("use at most {POINTERS_MAX}");
                return Err(Invalid::new("pointers", "has too many pointers", fix));
            }
            let pointer = Self::parse(&field, text.as_ref())?;
            let inside = |one: &Self, other: &Self| one.names.starts_with(&other.names);
            if let Some(other) =
                parsed.iter().find(|other| inside(other, &pointer) || inside(&pointer, other))
            {
                let problem = format!("is {:?}, beside {:?}", pointer.text, other.text);
                return Err(Invalid::new(
                    field,
                    problem,
                    "name a field once, or the one around it",
                ));
            }
            parsed.push(pointer);
        }
        Ok(parsed)
    }

    fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let invalid = |fix: &str| Invalid::new(field, format!("is {text:?}"), fix);
        let Some(path) = text.strip_prefix('/') else {
            return Err(invalid("write a JSON pointer to a field, such as \"/payee/iban\""));
        };
        let unescape = |name: &str| {
            let known = |rest: &str| rest.starts_with(['0', '1']);
            let all_known = name.split('~').skip(1).all(known);
            all_known.then(|| name.replace("~1", "/").replace("~0", "~"))
        };
        let names: Option<Vec<String>> = path.split('/').map(unescape).collect();
        let names = names.ok_or_else(|| invalid("write \"~\" in a name as \"~0\""))?;
        Ok(Self { text: text.to_owned(), names })
    }
}

/// The field at the end of the way, if it is there.
fn find<'v, 'a>(document: &'v Value<'a>, names: &[String]) -> Option<&'v Value<'a>> {
    names.iter().try_fold(document, |value, name| match value {
        Value::Object(members) => members.get(name.as_str()),
        Value::Array(items) => items.get(index(name)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => None,
    })
}

/// The index that a name in a pointer stands for: no sign, no leading zero.
fn index(name: &str) -> Option<usize> {
    let plain = name == "0" || (!name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit()));
    if plain { name.parse().ok() } else { None }
}

/// The value without the fields at the ends of these ways.
fn without<'a>(value: Value<'a>, cuts: &[&[String]]) -> Value<'a> {
    match value {
        Value::Object(members) if !cuts.is_empty() => {
            let keep = |(name, value)| {
                let kept = cut(value, cuts, |first| *first == name)?;
                Some((name, kept))
            };
            Value::Object(members.into_iter().filter_map(keep).collect())
        }
        Value::Array(items) if !cuts.is_empty() => {
            let keep = |(at, value)| cut(value, cuts, |first| index(first) == Some(at));
            Value::Array(items.into_iter().enumerate().filter_map(keep).collect())
        }
        other @ (Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Text(_)) => other,
    }
}

/// The member without what is cut from it, or nothing if a cut ends at it.
fn cut<'a>(
    member: Value<'a>,
    cuts: &[&[String]],
    leads_to_it: impl Fn(&String) -> bool,
) -> Option<Value<'a>> {
    let mut inner = Vec::new();
    for way in cuts {
        match way.split_first() {
            Some((first, [])) if leads_to_it(first) => return None,
            Some((first, rest)) if leads_to_it(first) => inner.push(rest),
            Some(_) | None => {}
        }
    }
    Some(without(member, &inner))
}

/// A digest of each field at the top of the document, as far as there is room.
fn parts_of(document: &Value<'_>) -> BTreeMap<String, Vec<u8>> {
    let Value::Object(members) = document else { return BTreeMap::new() };
    let mut named = Vec::new();
    let mut rest = BTreeMap::new();
    for (name, value) in members {
        let pointer = pointer_to(name);
        if pointer.len() > limits::SCHEME_BYTES_MAX {
            rest.insert(name.as_ref(), value);
        } else {
            named.push((pointer, name, value));
        }
    }
    let places = limits::FINGERPRINT_PARTS_MAX;
    if named.len() + usize::from(!rest.is_empty()) > places {
        let crowded_out = named.drain(places - 1..);
        rest.extend(crowded_out.map(|(_, name, value)| (name.as_ref(), value)));
    }
    let mut parts = each_digest(named.into_iter().map(|(pointer, _, value)| (pointer, value)));
    if !rest.is_empty() {
        parts.insert(REST.to_owned(), digest_object(&rest));
    }
    parts
}

fn each_digest<'v, 'a: 'v, N: Into<String>>(
    fields: impl IntoIterator<Item = (N, &'v Value<'a>)>,
) -> BTreeMap<String, Vec<u8>> {
    fields.into_iter().map(|(name, value)| (name.into(), value.digest())).collect()
}

/// The JSON pointer to a field at the top.
fn pointer_to(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn include(pointers: &[&str]) -> Selector {
        Selector::include("pay", 1, pointers).expect("a selector that includes")
    }

    fn exclude(pointers: &[&str]) -> Selector {
        Selector::exclude("pay", 1, pointers).expect("a selector that excludes")
    }

    fn print(selector: &Selector, request: &str) -> v1::Fingerprint {
        selector.fingerprint(request.as_bytes()).expect("a fingerprint")
    }

    fn names(print: &v1::Fingerprint) -> Vec<&str> {
        print.parts.keys().map(String::as_str).collect()
    }

    #[test]
    fn only_what_is_selected_counts() {
        let cases = [
            // selector, a request, another one, whether they are the same
            (include(&["/a"]), r#"{"a":1,"b":1}"#, r#"{"b":2,"a":1}"#, true),
            (include(&["/a"]), r#"{"a":1}"#, r#"{"a":1.0}"#, false),
            (include(&["/a"]), r#"{"a":null}"#, "{}", false),
            (include(&["/a/b"]), r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1}}"#, true),
            (include(&["/a/b"]), r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#, false),
            (include(&["/a", "/b"]), r#"{"a":1}"#, r#"{"b":1}"#, false),
            (include(&["/a", "/b"]), r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, false),
            (include(&["/a/1"]), r#"{"a":[0,1]}"#, r#"{"a":[7,1,7]}"#, true),
            (include(&["/a/01", "/a/-"]), r#"{"a":[0,1]}"#, "{}", true),
            (include(&["/a~1b", "/~01"]), r#"{"a/b":1,"~1":2}"#, r#"{"~1":2,"a/b":1}"#, true),
            (include(&["/a~1b"]), r#"{"a/b":1}"#, r#"{"a":{"b":1}}"#, false),
            (include(&["/~01"]), r#"{"~1":1,"/":1}"#, r#"{"~1":2,"/":1}"#, false),
            (exclude(&["/t"]), r#"{"t":1,"a":1}"#, r#"{"a":1}"#, true),
            (exclude(&["/t"]), r#"{"t":1,"a":1}"#, r#"{"t":1,"a":2}"#, false),
            (exclude(&["/t"]), r#"{"a":{"t":1}}"#, r#"{"a":{"t":2}}"#, false),
            (exclude(&["/a/t", "/u"]), r#"{"a":{"t":1,"b":1},"u":1}"#, r#"{"a":{"b":1}}"#, true),
            (exclude(&["/a/t"]), r#"{"a":{"t":1}}"#, "{}", false),
            (exclude(&["/0", "/2/t"]), r#"[1,2,{"t":3}]"#, r#"[9,2,{"t":9}]"#, true),
            (exclude(&["/0", "/2/t"]), r#"[1,2,{"t":3}]"#, r#"[9,3,{"t":9}]"#, false),
            (exclude(&["/0"]), r#"{"0":1}"#, r#"{"0":2}"#, true),
            (exclude(&["/00"]), "[1]", "[2]", false),
        ];
        for (selector, one, other, same) in cases {
            let equal = print(&selector, one) == print(&selector, other);
            assert_eq!(equal, same, "{selector:?}: {one} and {other}");
        }
    }

    #[test]
    fn the_order_of_the_pointers_does_not_count() {
        let request = r#"{"a":1,"b":2}"#;
        assert_eq!(
            print(&include(&["/a", "/b"]), request),
            print(&include(&["/b", "/a"]), request)
        );
    }

    #[test]
    fn parts_say_what_differs() {
        let selector = include(&["/a", "/b/c", "/d"]);
        let one = print(&selector, r#"{"a":1,"b":{"c":2},"x":1}"#);
        let other = print(&selector, r#"{"a":1,"b":{"c":3},"x":2}"#);
        assert_eq!(names(&one), ["/a", "/b/c"]);
        assert_eq!(one.parts["/a"], other.parts["/a"]);
        assert_ne!(one.parts["/b/c"], other.parts["/b/c"]);

        let excluded = print(&exclude(&["/b/c"]), r#"{"a":1,"b":{"c":2},"x/~":1}"#);
        assert_eq!(names(&excluded), ["/a", "/b", "/x~1~0"]);
        assert_eq!(excluded.parts["/a"], one.parts["/a"]);

        assert_eq!(names(&print(&selector, r#"{"x":1}"#)), [""; 0]);
        assert_eq!(names(&print(&exclude(&["/a"]), "[1]")), [""; 0]);
        let bare = print(&selector.without_parts(), r#"{"a":1,"b":{"c":2}}"#);
        assert_eq!((&bare.digest, bare.parts.len()), (&one.digest, 0));
    }

    #[test]
    fn parts_without_room_share_one() {
        let whole = Selector::whole("pay", 1).expect("a selector");
        let request = |fields: usize, last: u32, long: &str| {
            let fields =
                (0..fields).map(|at| format!("\"f{at:02}\":{}", u32::from(at == 16) * last));
            let fields: Vec<String> = fields.chain([format!("\"{long}\":0")]).collect();
            print(&whole, &format!("{{{}}}", fields.join(",")))
        };
        let (fits, long) = ("z".repeat(63), "z".repeat(64));
        assert!(!names(&request(15, 0, &fits)).contains(&REST));
        assert_eq!(request(15, 0, &fits).parts.len(), 16);
        assert_eq!(names(&request(15, 0, &long))[..2], [REST, "/f00"]);
        assert_eq!(request(15, 0, &long).parts.len(), 16);
        assert_eq!(request(16, 0, &long).parts.len(), 16);

        let (one, other) = (request(17, 1, &long), request(17, 2, &long));
        assert_eq!(one.parts.len(), 16);
        assert!(!names(&one).contains(&"/f15"));
        assert_ne!(one.parts[REST], other.parts[REST]);
        assert_eq!(one.parts["/f00"], other.parts["/f00"]);
        assert_eq!(request(17, 1, &fits).parts.len(), 16);
    }

    #[test]
    fn the_scheme_names_selector_and_version() {
        let scheme = |version| {
            let selector = Selector::whole("payout.eu-1", version).expect("a selector");
            let print = print(&selector, "1");
            assert_eq!(print.scheme, selector.scheme());
            Scheme::parse(print.scheme).expect("a scheme that the store accepts").into()
        };
        let schemes: [String; 2] = [scheme(3), scheme(u32::MAX)];
        assert_eq!(schemes, ["fc-json-1/payout.eu-1/3", "fc-json-1/payout.eu-1/4294967295"]);
    }

    #[test]
    fn a_selector_that_cannot_work_is_refused() {
        let long = format!("/{}", "a".repeat(64));
        let many: Vec<String> = (0..17).map(|at| format!("/{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let cases: [(&str, &[&str], &str); 15] = [
            ("", &["/a"], "name: is \"\""),
            ("Pay", &["/a"], "name: is \"Pay\""),
            ("pay/1", &["/a"], "name: is \"pay/1\""),
            ("pay@1", &["/a"], "name: is \"pay@1\""),
            (&long[1..], &["/a"], "scheme: is 76 bytes long"),
            ("pay", &[], "pointers: is empty"),
            ("pay", &many, "pointers: has too many"),
            ("pay", &[""], "pointers[0]: is \"\""),
            ("pay", &["/a", "b"], "pointers[1]: is \"b\""),
            ("pay", &["/a~2"], "pointers[0]: is \"/a~2\""),
            ("pay", &["/a~"], "pointers[0]: is \"/a~\""),
            ("pay", &["/a", "/a"], "pointers[1]: is \"/a\", beside \"/a\""),
            ("pay", &["/a", "/a/b"], "pointers[1]: is \"/a/b\", beside \"/a\""),
            ("pay", &["/a/b", "/ab", "/a"], "pointers[2]: is \"/a\", beside \"/a/b\""),
            ("pay", &["/a", &long], "pointers[1]: is 65 bytes long"),
        ];
        for (name, pointers, problem) in cases {
            let error = Selector::include(name, 1, pointers).expect_err(problem).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
        assert!(Selector::exclude("pay", 1, [long]).is_ok());
        assert!(Selector::exclude("pay", 1, [""]).is_err());
        assert!(include(&["/a"]).fingerprint(br#"{"a":1,"b":2,"b":3}"#).is_err());
    }
}
