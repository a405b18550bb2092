//! Parts of a channel's name: record, field, the `$` of long strings, and filters.

/// The parts of a channel's name.
///
/// An IOC accepts after the field an array range, `[0:9]`, and channel filters, `{"ts":{}}`. Brackets anywhere else
/// belong to the record's name, as in `SR:C03-MG{PS:1}I-SP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// The name without the field.
    pub record: &'a str,
    /// The field; `VAL` if the name has none.
    pub field: &'a str,
    /// The name ends with `$` before its filters: the field is sent as an array of characters.
    pub is_long_string: bool,
    /// Array range and filters, or nothing.
    pub filters: &'a str,
}

impl<'a> NameParts<'a> {
    /// The parts of a name.
    #[must_use]
    pub fn of(name: &'a str) -> Self {
        let fields = name.match_indices('.').find_map(|(dot, _)| {
            let rest = &name[dot + 1..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (field, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let (is_long_string, filters) = match rest.strip_prefix('$') {
                Some(filters) => (true, filters),
                None => (false, rest),
            };
            let is_field = filters.is_empty() || filters.starts_with(['[', '{']);
            is_field.then_some((&name[..dot], field, is_long_string, filters))
        });
        let whole = || {
            let record = name.strip_suffix('$');
            (record.unwrap_or(name), "", record.is_some(), "")
        };
        let (record, field, is_long_string, filters) = fields.unwrap_or_else(whole);
        Self {
            record,
            field: if field.is_empty() { "VAL" } else { field },
            is_long_string,
            filters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_begins_after_the_dot_of_the_field_and_nowhere_else() {
        for (name, record, field, is_long_string, filters) in [
            ("A:B", "A:B", "VAL", false, ""),
            ("A:B.", "A:B", "VAL", false, ""),
            ("A:B.DESC", "A:B", "DESC", false, ""),
            ("A:B.VAL$", "A:B", "VAL", true, ""),
            ("A:B.$", "A:B", "VAL", true, ""),
            ("A:B$", "A:B", "VAL", true, ""),
            ("A.HIHI{\"d\":0.5}", "A", "HIHI", false, "{\"d\":0.5}"),
            (
                "A.VAL$[0:3]{\"ts\":{}}",
                "A",
                "VAL",
                true,
                "[0:3]{\"ts\":{}}",
            ),
            ("A.{\"ts\":{}}", "A", "VAL", false, "{\"ts\":{}}"),
            ("A.[1]", "A", "VAL", false, "[1]"),
            ("SR{PS:1}I-SP", "SR{PS:1}I-SP", "VAL", false, ""),
            ("SR{PS:1}", "SR{PS:1}", "VAL", false, ""),
            ("SR{PS:1}.EGU", "SR{PS:1}", "EGU", false, ""),
            ("SR{PS:1}.VAL${}", "SR{PS:1}", "VAL", true, "{}"),
            ("X[1]", "X[1]", "VAL", false, ""),
            ("X[1].VAL[2]", "X[1]", "VAL", false, "[2]"),
            ("{X", "{X", "VAL", false, ""),
            ("SR{PS:1.2}I", "SR{PS:1.2}I", "VAL", false, ""),
            ("SR{PS:1.2}I.DESC", "SR{PS:1.2}I", "DESC", false, ""),
        ] {
            let parts = NameParts {
                record,
                field,
                is_long_string,
                filters,
            };
            assert_eq!(NameParts::of(name), parts, "{name}");
        }
    }
}
