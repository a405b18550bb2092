//! Converts between the shim's items and values.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::{ptr, slice};

use pvxs_sys::{PVS_ABSENT, pvs_item, pvs_number, pvs_text};

use super::array::ElementType;
use super::array::SharedArray;
use super::event::Value;
use super::node::{Node, NodeValue};
use super::request::PutValue;

const ARRAY: u8 = 0x08;
const STRUCTURE: u8 = 0x80;
const UNION: u8 = 0x81;
const VARIANT: u8 = 0x82;
const STRUCTURE_ARRAY: u8 = STRUCTURE | ARRAY;
const UNION_ARRAY: u8 = UNION | ARRAY;
const VARIANT_ARRAY: u8 = VARIANT | ARRAY;
const TEXT_ARRAY: u8 = ElementType::Text as u8 | ARRAY;

/// Decodes text of a server: as UTF-8 if it is valid, otherwise as Latin-1.
pub(super) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(crate::ca::text(bytes)),
    }
}

/// # Safety
///
/// The text is valid for `'a`.
pub(super) unsafe fn bytes<'a>(text: pvs_text) -> &'a [u8] {
    if text.bytes.is_null() {
        return &[];
    }
    // SAFETY: the bytes exist and are valid for `'a`, as the caller promises.
    unsafe { slice::from_raw_parts(text.bytes.cast(), text.length) }
}

/// # Safety
///
/// The text is currently valid.
pub(super) unsafe fn owned(text: pvs_text) -> String {
    // SAFETY: read at once.
    readable(unsafe { bytes(text) }).into_owned()
}

/// Items of the shim in their order, valid for `'a`.
pub(super) struct Items<'a>(slice::Iter<'a, pvs_item>);

impl<'a> Items<'a> {
    /// # Safety
    ///
    /// `items` are `count` items of the shim that are valid for `'a`, with everything they point
    /// to.
    pub(super) unsafe fn new(items: *const pvs_item, count: usize) -> Self {
        let items = if items.is_null() {
            &[]
        } else {
            // SAFETY: as the caller promises.
            unsafe { slice::from_raw_parts(items, count) }
        };
        Self(items.iter())
    }

    /// The value of the items, with the names of the changed fields if it is a structure.
    pub(super) fn value(mut self) -> Option<(Value<'a>, Vec<String>)> {
        let first = self.0.as_slice().first()?;
        let value = match first.r#type {
            STRUCTURE => {
                let changed = self.changed();
                return Some((Value::Structure(Box::new(self.node()?)), changed));
            }
            code if code == ElementType::Text as u8 => {
                // SAFETY: lives as long as the items.
                Value::Text(unsafe { bytes(first.text) })
            }
            code if code & ARRAY == 0 => match scalar(first) {
                NodeValue::Number(_, number) => Value::Number(number),
                NodeValue::Int64(number) => Value::Int64(number),
                NodeValue::UInt64(number) => Value::UInt64(number),
                NodeValue::Boolean(flag) => Value::Boolean(flag),
                _ => return None,
            },
            _ => match self.node()?.value {
                NodeValue::Array {
                    element,
                    count,
                    data,
                } => Value::Array {
                    element,
                    count,
                    data,
                },
                NodeValue::TextArray(strings) => Value::TextArray(strings),
                _ => return None,
            },
        };
        Some((value, Vec::new()))
    }

    /// Names of the first item's children that changed.
    fn changed(&self) -> Vec<String> {
        let mut items = Items(self.0.clone());
        let children = items.0.next().map_or(0, |top| top.children);
        let mut changed = Vec::new();
        for _ in 0..children {
            let Some(child) = items.0.as_slice().first() else {
                break;
            };
            if child.changed != 0 {
                // SAFETY: the items are valid.
                changed.push(unsafe { owned(child.name) });
            }
            items.skip();
        }
        changed
    }

    /// Skips the next item and everything below it.
    fn skip(&mut self) {
        let mut left = 1;
        while left > 0 {
            let Some(item) = self.0.next() else { return };
            left += u64::from(item.children);
            left -= 1;
        }
    }

    /// The next item with everything below it.
    pub(super) fn node(&mut self) -> Option<Node> {
        let item = self.0.next()?;
        // SAFETY: the items are valid.
        let (name, type_id) = unsafe { (owned(item.name), owned(item.id)) };
        let value = match item.r#type {
            STRUCTURE => NodeValue::Structure(self.children(item, Self::node)),
            UNION | VARIANT => NodeValue::Union(self.selected(item).map(Box::new)),
            STRUCTURE_ARRAY => NodeValue::StructureArray(self.children(item, Self::element)),
            UNION_ARRAY | VARIANT_ARRAY => {
                NodeValue::UnionArray(self.children(item, Self::element))
            }
            TEXT_ARRAY => NodeValue::TextArray(self.children(item, |items| {
                // SAFETY: the items are valid.
                items.0.next().map(|string| unsafe { owned(string.text) })
            })),
            code if code & ARRAY != 0 => match ElementType::from_code(code & !ARRAY) {
                Some(element) => array(item, element),
                None => NodeValue::Null,
            },
            _ => scalar(item),
        };
        Some(Node {
            name,
            type_id,
            value,
        })
    }

    fn children<T>(
        &mut self,
        item: &pvs_item,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Vec<T> {
        (0..item.children).map_while(|_| read(self)).collect()
    }

    fn selected(&mut self, item: &pvs_item) -> Option<Node> {
        self.children(item, Self::node).pop()
    }

    /// The next item as an element of an array; for a union its selected field.
    fn element(&mut self) -> Option<Option<Node>> {
        let node = match self.0.as_slice().first()?.r#type {
            PVS_ABSENT => {
                self.0.next();
                None
            }
            UNION => {
                let item = self.0.next()?;
                self.selected(item)
            }
            _ => Some(self.node()?),
        };
        Some(node)
    }
}

fn array(item: &pvs_item, element: ElementType) -> NodeValue {
    let data = if item.array.is_null() {
        SharedArray::empty()
    } else {
        let size = item.count * element.element_bytes();
        let bytes = ptr::slice_from_raw_parts(item.elements.cast(), size);
        // SAFETY: the items are valid, so these are an array and its elements.
        unsafe { SharedArray::retain(item.array, bytes) }
    };
    NodeValue::Array {
        element,
        count: item.count,
        data,
    }
}

fn scalar(item: &pvs_item) -> NodeValue {
    use ElementType::{
        Bool, Float32, Float64, Int8, Int16, Int32, Int64, Text, UInt8, UInt16, UInt32, UInt64,
    };
    let Some(element) = ElementType::from_code(item.r#type) else {
        return NodeValue::Null;
    };
    // SAFETY: the shim has set the number of this type, and every bit pattern is a valid number.
    unsafe {
        match element {
            Bool => NodeValue::Boolean(item.number.uinteger != 0),
            Int8 | Int16 | Int32 => NodeValue::Number(element, item.number.integer as f64),
            UInt8 | UInt16 | UInt32 => NodeValue::Number(element, item.number.uinteger as f64),
            Int64 => NodeValue::Int64(item.number.integer),
            UInt64 => NodeValue::UInt64(item.number.uinteger),
            Float32 | Float64 => NodeValue::Number(element, item.number.real),
            Text => NodeValue::Text(owned(item.text)),
        }
    }
}

/// Values to send as items, which point into them.
#[derive(Default)]
pub(super) struct Outgoing<'a> {
    items: Vec<pvs_item>,
    _values: PhantomData<&'a PutValue>,
}

impl<'a> Outgoing<'a> {
    /// Adds a value. If it is an array, it has been checked.
    pub(super) fn add(&mut self, name: &'a str, value: &'a PutValue) {
        use ElementType::{Bool, Float64, Int64, Text, UInt64};
        let (element, number) = match value {
            PutValue::Number(number) => (Float64, pvs_number { real: *number }),
            PutValue::Int64(number) => (Int64, pvs_number { integer: *number }),
            PutValue::UInt64(number) => (UInt64, pvs_number { uinteger: *number }),
            PutValue::Boolean(flag) => (
                Bool,
                pvs_number {
                    uinteger: (*flag).into(),
                },
            ),
            PutValue::Text(_) | PutValue::TextArray(_) => (Text, pvs_number { uinteger: 0 }),
            PutValue::Array { element, .. } => (*element, pvs_number { uinteger: 0 }),
        };
        let mut item = pvs_item {
            name: text(name),
            id: text(""),
            text: text(""),
            number,
            array: ptr::null(),
            elements: ptr::null(),
            count: 0,
            children: 0,
            r#type: element as u8,
            changed: 0,
        };
        match value {
            PutValue::Text(string) => item.text = text(string),
            PutValue::Array { bytes, .. } => {
                item.r#type |= ARRAY;
                item.elements = bytes.as_ptr().cast();
                item.count = bytes.len() / element.element_bytes().max(1);
            }
            PutValue::TextArray(strings) => {
                item.r#type |= ARRAY;
                item.count = strings.len();
                item.children = strings.len() as u32;
                self.items.push(item);
                let string = |string| pvs_item {
                    text: text(string),
                    r#type: Text as u8,
                    children: 0,
                    ..item
                };
                self.items.extend(strings.iter().map(|each| string(each)));
                return;
            }
            _ => {}
        }
        self.items.push(item);
    }

    pub(super) fn as_slice(&self) -> &[pvs_item] {
        &self.items
    }
}

/// Text for the shim, valid as long as `from`.
pub(super) fn text(from: &str) -> pvs_text {
    pvs_text {
        bytes: from.as_ptr().cast(),
        length: from.len(),
    }
}
