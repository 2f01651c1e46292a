//! Writes down what each message takes in memory, so that it can be weighed before it is decoded.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// `String` and `Vec` take three words; `Bytes` takes four.
const LIST_BYTES: usize = 24;
const BYTES_BYTES: usize = 32;
/// What tells apart the variants of an `Option` or of a oneof, with the room that aligns it.
const TAG_BYTES: usize = 8;
/// Room in a leaf of a `BTreeMap`, which its first entry takes as a whole.
const LEAF_ENTRIES: usize = 11;

/// All messages by their full names: `.firstclaim.v1.ClaimRequest`.
struct Messages<'a>(BTreeMap<String, &'a DescriptorProto>);

/// The source of the table, and of what finds a message in it.
pub(crate) fn source(files: &FileDescriptorSet) -> Outcome<String> {
    let mut messages = Messages(BTreeMap::new());
    let mut impls = String::new();
    for file in &files.file {
        let scope = format!(".{}", file.package());
        for message in &file.message_type {
            messages.take(&scope, message);
        }
    }
    let mut table = "pub(crate) static SHAPES: &[Shape] = &[\n".to_owned();
    for (at, (name, message)) in messages.0.iter().enumerate() {
        let bytes = messages.size(name)?;
        writeln!(table, "Shape {{ bytes: {bytes}, fields: &[")?;
        for field in &message.field {
            if let Some(part) = messages.part(field)? {
                writeln!(table, "({}, {part}),", field.number())?;
            }
        }
        writeln!(table, "] }},")?;
        if let Some(path) = rust_path(name) {
            let most = if name.ends_with("Response") { "ANSWER" } else { "REQUEST" };
            writeln!(
                impls,
                "impl Shaped for {path} {{ const SHAPE: usize = {at}; const MEMORY_MAX: usize = \
                 limits::{most}_MEMORY_MAX; }}"
            )?;
        }
    }
    Ok(table + "];\n" + &impls)
}

/// The generated type of a message that is not within another one, and is ours.
fn rust_path(name: &str) -> Option<String> {
    let (package, message) = name.strip_prefix(".firstclaim.")?.split_once("v1.")?;
    (!message.contains('.')).then(|| format!("crate::{}v1::{message}", package.replace('.', "::")))
}

impl<'a> Messages<'a> {
    fn take(&mut self, scope: &str, message: &'a DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.take(&name, nested);
        }
        self.0.insert(name, message);
    }

    fn message(&self, name: &str) -> Outcome<&'a DescriptorProto> {
        self.0.get(name).copied().ok_or_else(|| format!("{name} is not known").into())
    }

    fn position(&self, name: &str) -> Outcome<usize> {
        self.0.keys().position(|known| known == name).ok_or_else(|| format!("no {name}").into())
    }

    /// What a message takes by itself, without what is in its lists and texts.
    fn size(&self, name: &str) -> Outcome<usize> {
        self.size_within(name, 0)
    }

    fn size_within(&self, name: &str, depth: usize) -> Outcome<usize> {
        const DEPTH_MAX: usize = 16;
        if depth > DEPTH_MAX {
            return Err(format!("{name} is within itself, and has no size").into());
        }
        let message = self.message(name)?;
        let mut bytes = 0;
        let mut choices = BTreeMap::<i32, usize>::new();
        for field in &message.field {
            let size = self.field_size(field, depth)?;
            match field.oneof_index.filter(|_| !field.proto3_optional()) {
                Some(choice) => {
                    let largest = choices.entry(choice).or_default();
                    *largest = size.max(*largest);
                }
                None => bytes += size,
            }
        }
        let choices: usize = choices.values().map(|largest| largest + TAG_BYTES).sum();
        Ok((bytes + choices).next_multiple_of(8))
    }

    fn field_size(&self, field: &FieldDescriptorProto, depth: usize) -> Outcome<usize> {
        if field.label() == Label::Repeated {
            return Ok(LIST_BYTES);
        }
        let optional = if field.proto3_optional() { TAG_BYTES } else { 0 };
        Ok(match field.r#type() {
            Type::Message => self.size_within(field.type_name(), depth + 1)? + TAG_BYTES,
            Type::String => LIST_BYTES,
            Type::Bytes => BYTES_BYTES,
            Type::Bool => 1 + optional,
            Type::Enum
            | Type::Int32
            | Type::Uint32
            | Type::Sint32
            | Type::Fixed32
            | Type::Sfixed32
            | Type::Float => 4 + optional,
            Type::Double
            | Type::Int64
            | Type::Uint64
            | Type::Sint64
            | Type::Fixed64
            | Type::Sfixed64 => 8 + optional,
            Type::Group => return Err(format!("{}: groups have no size", field.name()).into()),
        })
    }

    /// What one more of a field takes, and what is in it. None for what has its room already.
    fn part(&self, field: &FieldDescriptorProto) -> Outcome<Option<String>> {
        let repeated = field.label() == Label::Repeated;
        if field.r#type() == Type::Message {
            let name = field.type_name();
            let is_entry = self.message(name)?.options.as_ref().is_some_and(|it| it.map_entry());
            let size = self.size(name)?;
            // Nodes of a map are at the least half full, but for the first.
            let (first, bytes) = match (repeated, is_entry) {
                (false, _) => (0, 0),
                (true, false) => (size, size),
                (true, true) => (LEAF_ENTRIES * size, 2 * size),
            };
            let shape = self.position(name)?;
            let part =
                format!("Part::Message {{ first: {first}, bytes: {bytes}, shape: {shape} }}");
            return Ok(Some(part));
        }
        Ok(match (repeated, field.r#type()) {
            (false, _) => None,
            (true, Type::String | Type::Bytes) => Some("Part::Text".to_owned()),
            (true, _) => Some("Part::Numbers".to_owned()),
        })
    }
}
