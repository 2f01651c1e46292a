//! A JSON document as a value with one digest, however it was spelled.
//!
//! The reader is our own, because the libraries at hand turn numbers into floats or let the last of
//! two equal keys win. Either would give two different requests one fingerprint.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;

use firstclaim_core::Invalid;
use sha2::{Digest, Sha256};

/// Bytes of a JSON request.
pub const JSON_BYTES_MAX: usize = 1024 * 1024;
/// Arrays and objects of a JSON request that may lie within each other.
pub const JSON_DEPTH_MAX: usize = 64;

/// A document. Text is decoded, numbers are kept as they were written.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(BTreeMap<Cow<'a, str>, Value<'a>>),
}

impl<'a> Value<'a> {
    /// Reads the one document in `json`.
    pub(super) fn read(json: &'a [u8]) -> Result<Self, Invalid> {
        if json.len() > JSON_BYTES_MAX {
            let problem = format!("is {} bytes long", json.len());
            let fix =
                format!("use at most {JSON_BYTES_MAX} bytes, or send a digest of your own making");
            return Err(Invalid::new(FIELD, problem, fix));
        }
        let text = std::str::from_utf8(json).map_err(|error| {
            let problem = format!("is not UTF-8 at byte {}", error.valid_up_to());
            Invalid::new(FIELD, problem, "send JSON as UTF-8")
        })?;
        let mut reader = Reader { text, at: 0, depth: 0 };
        let value = reader.value()?;
        reader.skip_space();
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.malformed("something follows the document")),
        }
    }

    /// SHA-256 over the encoding that the [module](super) describes.
    pub(super) fn digest(&self) -> Vec<u8> {
        let mut hash = Sha256::new();
        self.encode(&mut hash);
        hash.finalize().to_vec()
    }

    fn encode(&self, hash: &mut Sha256) {
        match self {
            Self::Null => hash.update(b"n"),
            Self::Bool(false) => hash.update(b"f"),
            Self::Bool(true) => hash.update(b"t"),
            Self::Number(text) => {
                hash.update(b"#");
                encode_text(text, hash);
            }
            Self::Text(text) => {
                hash.update(b"s");
                encode_text(text, hash);
            }
            Self::Array(items) => {
                hash.update(b"[");
                encode_len(items.len(), hash);
                for item in items {
                    item.encode(hash);
                }
            }
            Self::Object(members) => encode_object(members, hash),
        }
    }
}

/// The digest of an object with these members.
pub(super) fn digest_object(members: &BTreeMap<&str, &Value<'_>>) -> Vec<u8> {
    let mut hash = Sha256::new();
    encode_object(members, &mut hash);
    hash.finalize().to_vec()
}

/// Members in the order of their names' bytes, which is the order of the map.
fn encode_object<'a, N, V>(members: &BTreeMap<N, V>, hash: &mut Sha256)
where
    N: AsRef<str>,
    V: Borrow<Value<'a>>,
{
    hash.update(b"{");
    encode_len(members.len(), hash);
    for (name, value) in members {
        encode_text(name.as_ref(), hash);
        value.borrow().encode(hash);
    }
}

fn encode_text(text: &str, hash: &mut Sha256) {
    encode_len(text.len(), hash);
    hash.update(text.as_bytes());
}

fn encode_len(len: usize, hash: &mut Sha256) {
    hash.update((len as u64).to_be_bytes());
}

/// What an error is about.
const FIELD: &str = "request";

/// Reads strictly what RFC 8259 describes. Recursion ends at [`JSON_DEPTH_MAX`].
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Value<'a>, Invalid> {
        self.skip_space();
        match self.peek() {
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b'[') => self.array(),
            Some(b'{') => self.object(),
            Some(_) | None => Err(self.malformed("a value is missing")),
        }
    }

    fn array(&mut self) -> Result<Value<'a>, Invalid> {
        self.open()?;
        let mut items = Vec::new();
        let mut more = !self.closes(b']');
        while more {
            items.push(self.value()?);
            more = self.goes_on(b']')?;
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Result<Value<'a>, Invalid> {
        self.open()?;
        let mut members = BTreeMap::new();
        let mut more = !self.closes(b'}');
        while more {
            self.skip_space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.malformed("a key in quotation marks is missing"));
            }
            let key = self.string()?;
            if members.contains_key(&key) {
                let problem = format!("has a key twice in one object, at byte {start}");
                return Err(Invalid::new(FIELD, problem, "send each key once"));
            }
            self.skip_space();
            if !self.takes(b':') {
                return Err(self.malformed("a colon is missing"));
            }
            members.insert(key, self.value()?);
            more = self.goes_on(b'}')?;
        }
        Ok(Value::Object(members))
    }

    /// Enters an array or object, at its bracket.
    fn open(&mut self) -> Result<(), Invalid> {
        if self.depth == JSON_DEPTH_MAX {
            let problem = format!("is nested too deeply at byte {}", self.at);
            let fix = format!("nest at most {JSON_DEPTH_MAX} arrays and objects");
            return Err(Invalid::new(FIELD, problem, fix));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Whether the array or object ends here; if so, it is left.
    fn closes(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let closed = self.takes(bracket);
        self.depth -= usize::from(closed);
        closed
    }

    /// Whether another item follows the last one.
    fn goes_on(&mut self, bracket: u8) -> Result<bool, Invalid> {
        if self.closes(bracket) {
            return Ok(false);
        }
        if self.takes(b',') { Ok(true) } else { Err(self.malformed("a comma is missing")) }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, Invalid> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.malformed("a value is missing"))
    }

    fn number(&mut self) -> Result<&'a str, Invalid> {
        let start = self.at;
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            if !self.takes(b'+') {
                self.takes(b'-');
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), Invalid> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.malformed("a digit is missing")) } else { Ok(()) }
    }

    /// Reads a string, at its first quotation mark. It is copied only where it has escapes.
    fn string(&mut self) -> Result<Cow<'a, str>, Invalid> {
        self.at += 1;
        let mut decoded = String::new();
        let mut start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    decoded.push_str(&self.text[start..self.at]);
                    decoded.push(self.escape()?);
                    start = self.at;
                }
                Some(0..0x20) => return Err(self.malformed("a control character is not escaped")),
                Some(_) => self.at += 1,
                None => return Err(self.malformed("a string does not end")),
            }
        }
        let rest = &self.text[start..self.at];
        self.at += 1;
        if decoded.is_empty() {
            return Ok(Cow::Borrowed(rest));
        }
        decoded.push_str(rest);
        Ok(Cow::Owned(decoded))
    }

    fn escape(&mut self) -> Result<char, Invalid> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.peek() else { return Err(self.malformed("a string does not end")) };
        self.at += 1;
        match letter {
            b'"' | b'\\' | b'/' => Ok(char::from(letter)),
            b'b' => Ok('\u{8}'),
            b'f' => Ok('\u{c}'),
            b'n' => Ok('\n'),
            b'r' => Ok('\r'),
            b't' => Ok('\t'),
            b'u' => self.utf16(start),
            _ => {
                self.at = start;
                Err(self.malformed("an escape is unknown"))
            }
        }
    }

    /// Reads the digits of a `\u` escape that began at `start`, with the second half of a pair.
    fn utf16(&mut self, start: usize) -> Result<char, Invalid> {
        let lone = || {
            let problem = format!("has a lone surrogate at byte {start}");
            Invalid::new(FIELD, problem, "send the character itself, or both halves of its pair")
        };
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) {
            if !(self.takes(b'\\') && self.takes(b'u')) {
                return Err(lone());
            }
            let low = self.hex()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(lone());
            }
            code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        char::from_u32(code).ok_or_else(lone)
    }

    fn hex(&mut self) -> Result<u32, Invalid> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.malformed("a hexadecimal digit is missing"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past `byte` if it is next, and says whether it was.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn malformed(&self, what: &str) -> Invalid {
        let problem = format!("is not JSON at byte {}: {what}", self.at);
        Invalid::new(FIELD, problem, "send one document as RFC 8259 describes it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(json: &str) -> Vec<u8> {
        Value::read(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}")).digest()
    }

    #[test]
    fn spellings_of_one_document_agree() {
        for (one, other) in [
            (r#"{"a":1,"b":[true,null]}"#, "\t{ \"b\" : [ true , null ] ,\r\n \"a\" : 1 } "),
            (r#"{"\u0041":"\u0041\/\""}"#, r#"{"A":"A/\u0022"}"#),
            (r#""\b\f\n\r\t\\""#, r#""\u0008\u000C\u000a\u000d\u0009\u005c""#),
            (r#""\ud83d\uDE00\u00e9""#, "\"😀é\""),
            (r#"{"é":1,"z":2,"😀":3,"":4}"#, r#"{"":4,"😀":3,"z":2,"\u00e9":1}"#),
        ] {
            assert_eq!(digest(one), digest(other), "{one} and {other}");
        }
    }

    #[test]
    fn documents_that_differ_have_digests_that_differ() {
        let documents = [
            "9007199254740992",
            "9007199254740993",
            "1",
            "1.0",
            "1.00",
            "1e0",
            "1E0",
            "1e+0",
            "0",
            "-0",
            "-0.0",
            r#""1""#,
            "123456789012345678901234567890.000000000000000000001",
            "null",
            "true",
            "false",
            r#""null""#,
            r#""""#,
            "[]",
            "{}",
            "[[]]",
            "[{}]",
            "[[],[]]",
            "[null]",
            r#"{"a":null}"#,
            r#"{"a":{}}"#,
            r#"{"A":null}"#,
            r#"["a",null]"#,
            r#"["ab","c"]"#,
            r#"["a","bc"]"#,
            r#"["a",["b"],"c"]"#,
            r#"["a",["b","c"]]"#,
            r#"[["a","b"],"c"]"#,
            r#"["c","ab"]"#,
            r#"{"a":"b","c":"d"}"#,
            r#"{"a":{"b":"c"},"d":null}"#,
            r#"{"a":{"b":"c","d":null}}"#,
            r#""a ""#,
            r#""a\u0000""#,
            // One looks like the other, but nobody asked us to say that they are one.
            "\"\u{e9}\"",
            "\"e\u{301}\"",
        ];
        let mut seen = BTreeMap::new();
        for document in documents {
            if let Some(other) = seen.insert(digest(document), document) {
                panic!("{document} and {other} agree");
            }
        }
    }

    #[test]
    fn the_encoding_is_frozen() {
        // SHA-256 of the bytes as the module describes them, computed by another program.
        for (json, hex) in [
            ("null", "1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9"),
            ("-1.50e+3", "698233c690e065e5d454224e3c0283c96e36cfb7bdcc1560f2c96563ace8e70b"),
            (r#""\u0041é😀""#, "776d1e851ec459904d91dc7330dc395b61601cf81df79ae03ad4353f0e367eaa"),
            ("[]", "63d63c64950f7d33cf10e33ecc46a9d76de68153d6c143b450c94aeb1c59479c"),
            ("{}", "5a3590fbe3ffbfe0a65167de3111dcd0cde5e8025d0fc5db3aec6ee0f4cedcfb"),
            (
                r#"{"b":[true,false,null],"a":{"\u00e9":"","e":9007199254740993}}"#,
                "b2230f824d69493ad4d278ee804785870a8b1ef57115c249b6bdad277ad6fa8b",
            ),
        ] {
            let found =
                digest(json).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            assert_eq!(found, hex, "{json}");
        }
    }

    #[test]
    fn what_is_not_exact_is_refused() {
        for (json, problem) in [
            ("", "is not JSON at byte 0: a value is missing"),
            (" ", "is not JSON at byte 1: a value is missing"),
            ("\u{feff}1", "is not JSON at byte 0: a value is missing"),
            ("nul", "is not JSON at byte 0: a value is missing"),
            ("NaN", "is not JSON at byte 0: a value is missing"),
            ("1 2", "is not JSON at byte 2: something follows"),
            ("truefalse", "is not JSON at byte 4: something follows"),
            ("01", "is not JSON at byte 1: something follows"),
            ("-", "is not JSON at byte 1: a digit is missing"),
            ("+1", "is not JSON at byte 0: a value is missing"),
            (".5", "is not JSON at byte 0: a value is missing"),
            ("1.", "is not JSON at byte 2: a digit is missing"),
            ("1e-", "is not JSON at byte 3: a digit is missing"),
            ("[1,]", "is not JSON at byte 3: a value is missing"),
            ("[1 2]", "is not JSON at byte 3: a comma is missing"),
            ("[1}", "is not JSON at byte 2: a comma is missing"),
            ("[1", "is not JSON at byte 2: a comma is missing"),
            ("{1:2}", "is not JSON at byte 1: a key in quotation marks is missing"),
            (r#"{"a":1,}"#, "is not JSON at byte 7: a key in quotation marks is missing"),
            (r#"{"a" 1}"#, "is not JSON at byte 5: a colon is missing"),
            (r#""a"#, "is not JSON at byte 2: a string does not end"),
            (r#""a\"#, "is not JSON at byte 3: a string does not end"),
            ("\"a\n\"", "is not JSON at byte 2: a control character is not escaped"),
            (r#""\x41""#, "is not JSON at byte 1: an escape is unknown"),
            (r#""\é""#, "is not JSON at byte 1: an escape is unknown"),
            (r#""\u+041""#, "is not JSON at byte 3: a hexadecimal digit is missing"),
            (r#""\u00e""#, "is not JSON at byte 6: a hexadecimal digit is missing"),
            (r#""a\ud800""#, "has a lone surrogate at byte 2"),
            (r#""\ud800\n""#, "has a lone surrogate at byte 1"),
            (r#""\ud800\ue000""#, "has a lone surrogate at byte 1"),
            (r#""\ud800\ud800\udc00""#, "has a lone surrogate at byte 1"),
            (r#""\udc00\ud800""#, "has a lone surrogate at byte 1"),
            (r#"{"a":1,"a":1}"#, "has a key twice in one object, at byte 7"),
            (r#"[{"b":1,"a":1,"\u0061":2}]"#, "has a key twice in one object, at byte 14"),
        ] {
            let error = Value::read(json.as_bytes()).expect_err(json);
            assert!(error.problem.starts_with(problem), "{json}: {error}");
            assert_eq!(error.field, "request");
        }
        for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\""] {
            let error = Value::read(bytes).expect_err("bytes that are not UTF-8");
            assert_eq!(error.problem, "is not UTF-8 at byte 1");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        digest(&nested(JSON_DEPTH_MAX));
        // What was closed no longer counts.
        digest(&format!("[{}]", ["{\"a\":[{}]}"; JSON_DEPTH_MAX].join(",")));
        let error = Value::read(nested(JSON_DEPTH_MAX + 1).as_bytes()).expect_err("too deep");
        assert_eq!(error.problem, "is nested too deeply at byte 64");

        let long = |bytes: usize| format!("\"{}\"", "a".repeat(bytes - 2));
        digest(&long(JSON_BYTES_MAX));
        let error = Value::read(long(JSON_BYTES_MAX + 1).as_bytes()).expect_err("too long");
        assert_eq!(error.problem, "is 1048577 bytes long");
    }
}
