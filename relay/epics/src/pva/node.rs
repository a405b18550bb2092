//! A structure of any type, as a tree of named, typed nodes.

use super::array::ElementType;
use super::array::SharedArray;

/// A field of a structure, or the structure itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the field; empty at the top and for the element of an array.
    pub name: String,
    /// Type id of a structure or union that has one, otherwise empty.
    pub type_id: String,
    /// Its value.
    pub value: NodeValue,
}

/// The value of a [`Node`].
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    /// Integer of up to 32 bits or floating point, with its type. Exact.
    Number(ElementType, f64),
    /// Signed integer of 64 bits.
    Int64(i64),
    /// Unsigned integer of 64 bits.
    UInt64(u64),
    /// Boolean.
    Boolean(bool),
    /// String.
    Text(String),
    /// Array of numbers or booleans.
    Array {
        /// Type of an element.
        element: ElementType,
        /// Number of elements.
        count: usize,
        /// The elements, as received by pvxs.
        data: SharedArray,
    },
    /// Array of strings.
    TextArray(Vec<String>),
    /// Structure: its fields in order.
    Structure(Vec<Node>),
    /// Union: the selected field, if any. A variant union selects a field without a name.
    Union(Option<Box<Node>>),
    /// Array of structures. An element can be absent.
    StructureArray(Vec<Option<Node>>),
    /// Array of unions: the selected field of each, if any.
    UnionArray(Vec<Option<Node>>),
    /// A value of a type that this crate does not know, or that is nested too deeply.
    Null,
}

impl Node {
    /// Finds a node by its path, names separated by `/`.
    ///
    /// The name of an array element is its index. The path into a union contains the name of the
    /// selected field; for a variant union, whose field has no name, it contains nothing. The empty
    /// path is the node itself.
    pub fn get(&self, path: &str) -> Option<&Self> {
        if path.is_empty() {
            return Some(self);
        }
        let (step, rest) = path.split_once('/').unwrap_or((path, ""));
        self.step(step)?.get(rest)
    }

    /// One step of a path.
    pub fn step(&self, step: &str) -> Option<&Self> {
        match &self.value {
            NodeValue::Structure(fields) => fields.iter().find(|field| field.name == step),
            NodeValue::Union(Some(selected)) if selected.name.is_empty() => selected.step(step),
            NodeValue::Union(Some(selected)) => (selected.name == step).then_some(selected),
            NodeValue::StructureArray(elements) | NodeValue::UnionArray(elements) => {
                let index: usize = step.parse().ok()?;
                // Each element has one name, which rules know.
                let is_its_name = index.to_string() == step;
                elements.get(index).filter(|_| is_its_name)?.as_ref()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, value: NodeValue) -> Node {
        Node {
            name: name.to_owned(),
            type_id: String::new(),
            value,
        }
    }

    fn number(name: &str, number: f64) -> Node {
        node(name, NodeValue::Number(ElementType::Float64, number))
    }

    #[test]
    fn path_leads_through_structures_arrays_and_unions() {
        let structure = NodeValue::Structure(vec![number("x", 1.0), number("y", 2.0)]);
        let selected = Some(Box::new(number("gain", 3.0)));
        let variant = NodeValue::Union(Some(Box::new(node("", structure.clone()))));
        let top = node(
            "",
            NodeValue::Structure(vec![
                node("point", structure.clone()),
                node("union", NodeValue::Union(selected)),
                node("variant", variant),
                node("none", NodeValue::Union(None)),
                node(
                    "list",
                    NodeValue::StructureArray(vec![None, Some(node("", structure))]),
                ),
            ]),
        );
        let found = |path: &str| match top.get(path)?.value {
            NodeValue::Number(_, number) => Some(number),
            _ => None,
        };

        assert_eq!(top.get(""), Some(&top));
        assert_eq!(found("point/y"), Some(2.0));
        assert_eq!(found("union/gain"), Some(3.0));
        assert_eq!(found("variant/x"), Some(1.0));
        assert_eq!(found("list/1/x"), Some(1.0));
        for nothing in [
            "point/z",
            "point/y/z",
            "union/offset",
            "none/x",
            "list/0/x",
            "list/2/x",
            "list/x",
            "list/01/x",
            "list/+1/x",
        ] {
            assert_eq!(top.get(nothing), None, "{nothing}");
        }
    }
}
