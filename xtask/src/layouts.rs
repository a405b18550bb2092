//! Writes the layouts of the schema's tables for the decoder of the browser's module and for the
//! package's TypeScript, from the binary schemas that flatc makes of `schema/fbs`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use flatbuffers_reflection::reflection::{
    BaseType, Enum, Field, Object, Schema, Type, root_as_schema,
};

type Error = Box<dyn std::error::Error>;

/// Writes `layout.rs` and `schema.ts` from the `frame.bfbs` and `request.bfbs` of a folder.
pub(crate) fn write(from: &Path, for_rust: &Path, for_typescript: &Path) -> Result<(), Error> {
    let frame = fs::read(from.join("frame.bfbs"))?;
    let request = fs::read(from.join("request.bfbs"))?;
    let (frame, request) = (root_as_schema(&frame)?, root_as_schema(&request)?);
    fs::write(for_rust.join("layout.rs"), rust(frame)?)?;
    fs::write(
        for_typescript.join("schema.ts"),
        typescript(&[frame, request]),
    )?;
    Ok(())
}

/// A name of the schema without its namespace.
fn bare(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// `NameError` as `NAME_ERROR`.
fn constant(name: &str) -> String {
    let mut words = String::new();
    for (at, c) in bare(name).char_indices() {
        if c.is_uppercase() && at > 0 {
            words.push('_');
        }
        words.push(c.to_ascii_uppercase());
    }
    words
}

/// `reply_type` as `replyType`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut joined = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        joined.push_str(&first.to_ascii_uppercase());
        joined.push_str(rest);
    }
    joined
}

/// Bytes of a scalar, an enum's included.
fn bytes_of(base: BaseType) -> Option<usize> {
    Some(match base {
        BaseType::Bool | BaseType::Byte | BaseType::UByte | BaseType::UType => 1,
        BaseType::Short | BaseType::UShort => 2,
        BaseType::Int | BaseType::UInt | BaseType::Float => 4,
        BaseType::Long | BaseType::ULong | BaseType::Double => 8,
        _ => return None,
    })
}

/// The fields of a table by their ids.
fn fields<'a>(object: Object<'a>) -> Vec<Field<'a>> {
    let mut fields: Vec<_> = object.fields().iter().collect();
    fields.sort_by_key(Field::id);
    fields
}

/// The tables and structs that a field's type refers to, including the members of a union.
fn named_by<'a>(schema: Schema<'a>, type_: Type<'a>) -> Vec<Object<'a>> {
    let index = usize::try_from(type_.index());
    match (type_.base_type(), type_.element()) {
        (BaseType::Obj, _) | (_, BaseType::Obj) => index
            .map(|at| schema.objects().get(at))
            .into_iter()
            .collect(),
        (BaseType::Union, _) => {
            let members = index.map(|at| members(schema, schema.enums().get(at)));
            members.unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// The tables of a union, in order.
fn members<'a>(schema: Schema<'a>, union: Enum<'a>) -> Vec<Object<'a>> {
    let types = union.values().iter().filter_map(|value| value.union_type());
    let types = types.filter(|type_| type_.base_type() == BaseType::Obj);
    types
        .filter_map(|type_| Some(schema.objects().get(usize::try_from(type_.index()).ok()?)))
        .collect()
}

/// The tables of a frame, and the structs in them. Tables with equal field types share one layout,
/// named after the first.
fn rust(schema: Schema<'_>) -> Result<String, Error> {
    let root = schema.root_table().ok_or("frame.fbs names no root type")?;
    let (mut found, mut open) = (vec![root], vec![root]);
    while let Some(object) = open.pop() {
        for field in fields(object) {
            for next in named_by(schema, field.type_()) {
                if !next.is_struct() && !found.iter().any(|known| known.name() == next.name()) {
                    found.push(next);
                    open.push(next);
                }
            }
        }
    }
    found.sort_by_key(|object| object.name().to_owned());
    let mut names = BTreeMap::new();
    let mut lists: Vec<(String, Vec<&str>)> = Vec::new();
    for object in &found {
        names.insert(object.name(), constant(object.name()));
    }
    for object in &found {
        let list = fields(*object).into_iter();
        let list: Vec<String> = list
            .map(|field| layout_of(schema, field.type_(), &names))
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{}: {error}", object.name()))?;
        let list = list.join(", ");
        match lists.iter_mut().find(|(known, _)| *known == list) {
            Some((_, same)) => {
                same.push(object.name());
                names.insert(object.name(), constant(same[0]));
            }
            None => lists.push((list, vec![object.name()])),
        }
    }
    // Now with the names of the shared layouts.
    let mut text = String::from(
        "//! Layouts of a frame's tables; written by `make regen` from `fbs/frame.fbs`.\n//!\n\
         //! Tables whose fields have the same types share one layout.\n\n\
         use super::table::Field::{Number, Table, Tables, Text, Texts, Union, Vector};\n\
         use super::table::Layout;\n",
    );
    for (_, same) in &lists {
        let object = found.iter().find(|object| object.name() == same[0]);
        let object = object.ok_or("a table without a name")?;
        let all: Vec<_> = same.iter().map(|name| bare(name)).collect();
        writeln!(text, "\n/// {}.", all.join(", "))?;
        let name = constant(same[0]);
        writeln!(text, "pub(super) static {name}: Layout = Layout(&[")?;
        for field in fields(*object) {
            let layout = layout_of(schema, field.type_(), &names)?;
            writeln!(text, "    {layout}, // {}", field.name())?;
        }
        writeln!(text, "]);")?;
    }
    for object in schema.objects().iter().filter(|object| object.is_struct()) {
        let name = constant(object.name());
        writeln!(
            text,
            "\n/// Size and field offsets of {}.",
            bare(object.name())
        )?;
        writeln!(text, "pub(super) mod {} {{", name.to_ascii_lowercase())?;
        writeln!(
            text,
            "    pub(crate) const BYTES: usize = {};",
            object.bytesize()
        )?;
        for field in fields(object) {
            let name = field.name().to_ascii_uppercase();
            writeln!(
                text,
                "    pub(crate) const {name}: usize = {};",
                field.offset()
            )?;
        }
        writeln!(text, "}}")?;
    }
    Ok(text)
}

/// The layout of one field, for `decode/table.rs`.
fn layout_of(
    schema: Schema<'_>,
    type_: Type<'_>,
    names: &BTreeMap<&str, String>,
) -> Result<String, Error> {
    let name = |object: Object<'_>| format!("&{}", names[object.name()]);
    let named = named_by(schema, type_);
    if let Some(bytes) = bytes_of(type_.base_type()) {
        return Ok(format!("Number({bytes})"));
    }
    Ok(match (type_.base_type(), type_.element()) {
        (BaseType::String, _) => "Text".to_owned(),
        (BaseType::Vector, BaseType::String) => "Texts".to_owned(),
        (BaseType::Vector, BaseType::Obj) if named[0].is_struct() => {
            let (bytes, align) = (named[0].bytesize(), named[0].minalign());
            format!("Vector {{ bytes: {bytes}, align: {align} }}")
        }
        (BaseType::Vector, BaseType::Obj) => format!("Tables({})", name(named[0])),
        (BaseType::Vector, element) => {
            let bytes = bytes_of(element).ok_or("a vector of a type that no layout has")?;
            format!("Vector {{ bytes: {bytes}, align: {bytes} }}")
        }
        (BaseType::Obj, _) if !named[0].is_struct() => format!("Table({})", name(named[0])),
        (BaseType::Union, _) => {
            let members: Vec<_> = named.into_iter().map(name).collect();
            format!("Union(&[{}])", members.join(", "))
        }
        (base, _) => return Err(format!("no layout has a field of type {base:?}").into()),
    })
}

/// The values of all enums and unions, the ids of all tables' fields, and size and field offsets of
/// all structs.
fn typescript(schemas: &[Schema<'_>]) -> String {
    let mut enums = BTreeMap::new();
    let mut tables = BTreeMap::new();
    let mut structs = BTreeMap::new();
    for schema in schemas {
        for each in schema.enums() {
            let values = each.values().iter();
            let list = values.map(|value| format!("{}: {}", value.name(), value.value()));
            enums.insert(bare(each.name()), list.collect::<Vec<_>>());
        }
        for object in schema.objects() {
            let list = fields(object).into_iter();
            if object.is_struct() {
                let list = list.map(|field| format!("{}: {}", camel(field.name()), field.offset()));
                let bytes = [format!("bytes: {}", object.bytesize())];
                let list = bytes.into_iter().chain(list).collect::<Vec<_>>();
                structs.insert(bare(object.name()), list);
            } else {
                let list = list.map(|field| format!("{}: {}", camel(field.name()), field.id()));
                tables.insert(bare(object.name()), list.collect::<Vec<_>>());
            }
        }
    }
    let mut text = String::from(
        "/** Enums, unions, field ids and struct layouts of the protocol; written by `make regen` from `schema/fbs`. */\n",
    );
    for (name, values) in &enums {
        object(&mut text, name, values);
    }
    for (name, ids) in &tables {
        object(&mut text, &format!("{name}Field"), ids);
    }
    for (name, offsets) in &structs {
        object(&mut text, &format!("{name}Layout"), offsets);
    }
    text
}

fn object(text: &mut String, name: &str, entries: &[String]) {
    let entries: String = entries
        .iter()
        .map(|entry| format!("  {entry},\n"))
        .collect();
    text.push_str(&format!(
        "\nexport const {name} = {{\n{entries}}} as const;\n"
    ));
}
