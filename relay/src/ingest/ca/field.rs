//! Fields of records: names that belong to a PV's record, and the integer types of its fields.
//!
//! Channel Access shows 64-bit and unsigned integers as wider types. The record's type (RTYP) and
//! the element type of an array (FTVL) say what they are.

use std::sync::Arc;
use std::time::Duration;

use pvwire_epics::ca::{FieldKind, FieldQuestion, NameParts};

use super::field_query::{FieldQueries, FieldQuery, What};

/// Time after which a put goes on without knowing the type of the field.
const WITHIN: Duration = Duration::from_secs(1);

/// Fields of int64in and int64out that are 64-bit integers.
const INT64_FIELDS: [&str; 14] = [
    "VAL", "HOPR", "LOPR", "DRVH", "DRVL", "HIHI", "HIGH", "LOW", "LOLO", "HYST", "ADEL", "MDEL",
    "IVOV", "SVAL",
];

/// The record of a PV: the name without the field.
pub(super) fn record(name: &str) -> &str {
    NameParts::of(name).record
}

/// The name by which a PV's text has no limit of 39 bytes, unless it has a filter or is that name.
pub(super) fn long_name(name: &str) -> Option<String> {
    if has_modifiers(name) {
        return None;
    }
    let NameParts { record, field, .. } = NameParts::of(name);
    Some(format!("{record}.{field}$"))
}

/// Whether a name has a filter or is that of a long string.
pub(super) fn has_modifiers(name: &str) -> bool {
    let parts = NameParts::of(name);
    parts.is_long_string || !parts.filters.is_empty()
}

/// Finds the integer type of a PV's field, and answers the question.
pub(super) fn find(queries: &Arc<FieldQueries>, name: &str, question: FieldQuestion) {
    let NameParts { record, field, .. } = NameParts::of(name);
    let (record, field) = (record.to_owned(), field.to_owned());
    let again = Arc::clone(queries);
    queries.ask(FieldQuery {
        name: format!("{record}.RTYP"),
        what: What::Text,
        within: WITHIN,
        late: None,
        is_urgent: true,
        answer: Box::new(move |found| {
            let Some(found) = found else { return };
            if field == "UTAG" {
                return question.answer(kind("UINT64"));
            }
            let is_array = ["waveform", "aai", "aao", "subArray"].contains(&found.text.as_str());
            match found.text.as_str() {
                _ if is_array && field == "VAL" => again.ask(FieldQuery {
                    name: format!("{record}.FTVL"),
                    what: What::Text,
                    within: WITHIN,
                    late: None,
                    is_urgent: true,
                    answer: Box::new(move |found| {
                        question.answer(found.map_or(FieldKind::Unknown, |it| kind(&it.text)));
                    }),
                }),
                "int64in" | "int64out" if INT64_FIELDS.contains(&field.as_str()) => {
                    question.answer(kind("INT64"));
                }
                "ai" | "ao" | "calc" | "calcout" | "sub" | "sel" | "dfanout" | "seq"
                | "compress" => {
                    question.answer(kind("DOUBLE"));
                }
                "histogram" if field == "VAL" => question.answer(kind("ULONG")),
                // Otherwise dropping the question answers it.
                _ => {}
            }
        }),
    });
}

/// What an array of this element type (FTVL) holds.
fn kind(element: &str) -> FieldKind {
    let integers = |least: i128, most: i128| FieldKind::Integers { least, most };
    match element {
        "CHAR" => integers(i8::MIN.into(), i8::MAX.into()),
        "UCHAR" => integers(0, u8::MAX.into()),
        "SHORT" => integers(i16::MIN.into(), i16::MAX.into()),
        "USHORT" | "ENUM" => integers(0, u16::MAX.into()),
        "LONG" => integers(i32::MIN.into(), i32::MAX.into()),
        "ULONG" => integers(0, u32::MAX.into()),
        "INT64" => integers(i64::MIN.into(), i64::MAX.into()),
        "UINT64" => integers(0, u64::MAX.into()),
        "FLOAT" | "DOUBLE" => FieldKind::Float,
        _ => FieldKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_string_has_a_separate_name() {
        assert_eq!(long_name("A").as_deref(), Some("A.VAL$"));
        assert_eq!(long_name("A.").as_deref(), Some("A.VAL$"));
        assert_eq!(long_name("A.INP").as_deref(), Some("A.INP$"));
        let braces = long_name("SR:C03-MG{PS:1}I-SP");
        assert_eq!(braces.as_deref(), Some("SR:C03-MG{PS:1}I-SP.VAL$"));
        assert_eq!(long_name("A[1]").as_deref(), Some("A[1].VAL$"));
        assert_eq!(long_name("A.VAL$"), None);
        assert_eq!(long_name("A.VAL{\"ts\":{}}"), None);
    }
}
