//! Reduces arrays for filters that ask for a part of their elements.
//!
//! This runs once per filtered PV, when an update passes its filter.

use std::sync::Arc;

use pvwire_schema::types::{Array, BlobValue, Filter, ValueType};

use crate::ingest::RowValue;

/// The part of a value that passes; `None` if all of it does.
#[must_use]
pub fn less_of(filter: &Filter, value: &RowValue) -> Option<RowValue> {
    let RowValue::Blob(blob) = value else {
        return None;
    };
    let BlobValue::Array(array) = &**blob else {
        return None;
    };
    let less = less_of_array(filter, array)?;
    Some(RowValue::Blob(Arc::new(BlobValue::Array(less))))
}

fn less_of_array(filter: &Filter, array: &Array) -> Option<Array> {
    let steps: [fn(&Filter, &Array) -> Option<Array>; 4] = [strided, cut, decimated, halved];
    let mut less = None;
    for step in steps {
        less = step(filter, less.as_ref().unwrap_or(array)).or(less);
    }
    less
}

fn array(of: &Array, data: Vec<u8>) -> Option<Array> {
    let count = data.len() / of.value_type.element_bytes()?;
    Some(Array {
        value_type: of.value_type,
        count: u32::try_from(count).ok()?,
        data: data.into(),
    })
}

fn strided(filter: &Filter, of: &Array) -> Option<Array> {
    let (size, stride) = (of.value_type.element_bytes()?, filter.stride as usize);
    if stride < 2 || of.count < 2 {
        return None;
    }
    let elements = of.data.chunks_exact(size).step_by(stride);
    array(of, elements.flatten().copied().collect())
}

fn cut(filter: &Filter, of: &Array) -> Option<Array> {
    if filter.max_length == 0 || of.count <= filter.max_length {
        return None;
    }
    let bytes = filter.max_length as usize * of.value_type.element_bytes()?;
    // Nothing is copied: the bytes of the whole array stay in memory.
    Some(Array {
        count: filter.max_length,
        data: of.data.slice(..bytes),
        ..of.clone()
    })
}

fn decimated(filter: &Filter, of: &Array) -> Option<Array> {
    if filter.points < 2 || of.count <= filter.points {
        return None;
    }
    let (data, stretches) = (&of.data[..], filter.points as usize / 2);
    let extremes = match of.value_type {
        ValueType::Float64 => extremes(data, stretches, f64::from_le_bytes),
        ValueType::Float32 => extremes(data, stretches, f32::from_le_bytes),
        ValueType::Int8 => extremes(data, stretches, i8::from_le_bytes),
        ValueType::UInt8 => extremes(data, stretches, u8::from_le_bytes),
        ValueType::Int16 => extremes(data, stretches, i16::from_le_bytes),
        ValueType::UInt16 => extremes(data, stretches, u16::from_le_bytes),
        ValueType::Int32 => extremes(data, stretches, i32::from_le_bytes),
        ValueType::UInt32 => extremes(data, stretches, u32::from_le_bytes),
        ValueType::Int64 => extremes(data, stretches, i64::from_le_bytes),
        ValueType::UInt64 => extremes(data, stretches, u64::from_le_bytes),
        // Labels have no order.
        _ => return None,
    };
    array(of, extremes)
}

/// Min/max decimation: the smallest and the largest element of each section, in the order of the
/// array.
fn extremes<const SIZE: usize, T: PartialOrd + Copy>(
    data: &[u8],
    stretches: usize,
    read: fn([u8; SIZE]) -> T,
) -> Vec<u8> {
    let elements: &[[u8; SIZE]] = data.as_chunks().0;
    let mut extremes = Vec::with_capacity(2 * SIZE * stretches);
    for nth in 0..stretches {
        let begin = nth * elements.len() / stretches;
        let stretch = &elements[begin..(nth + 1) * elements.len() / stretches];
        // NaN compares with nothing: it stays only in a section without numbers.
        let number = |element: &[u8; SIZE]| read(*element).partial_cmp(&read(*element));
        let first = stretch.iter().position(|element| number(element).is_some());
        let mut places = [first.unwrap_or(0); 2];
        let mut found = places.map(|place| read(stretch[place]));
        for (place, element) in stretch.iter().enumerate() {
            let value = read(*element);
            if value < found[0] {
                (found[0], places[0]) = (value, place);
            }
            if value > found[1] {
                (found[1], places[1]) = (value, place);
            }
        }
        places.sort_unstable();
        extremes.extend(places.into_iter().flat_map(|place| stretch[place]));
    }
    extremes
}

fn halved(filter: &Filter, of: &Array) -> Option<Array> {
    if !filter.float32 || of.value_type != ValueType::Float64 {
        return None;
    }
    let elements = of.data.as_chunks().0.iter();
    let data = elements.flat_map(|bytes| (f64::from_le_bytes(*bytes) as f32).to_le_bytes());
    let value_type = ValueType::Float32;
    array(
        &Array {
            value_type,
            ..of.clone()
        },
        data.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn doubles(values: &[f64]) -> Array {
        Array {
            value_type: ValueType::Float64,
            count: values.len() as u32,
            data: values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        }
    }

    fn less(filter: Filter, values: &[f64]) -> Vec<f64> {
        let array = doubles(values);
        let less = less_of_array(&filter, &array).unwrap_or(array);
        assert_eq!(
            less.data.len(),
            less.count as usize * less.value_type.element_bytes().unwrap()
        );
        less.numbers()
    }

    #[test]
    fn stride_length_points_and_width_are_taken_in_this_order() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let filter = Filter {
            stride: 10,
            ..Filter::ALL
        };
        assert_eq!(
            less(filter, &values),
            [0., 10., 20., 30., 40., 50., 60., 70., 80., 90.]
        );
        let filter = Filter {
            max_length: 6,
            ..filter
        };
        assert_eq!(less(filter, &values), [0., 10., 20., 30., 40., 50.]);
        let filter = Filter {
            points: 4,
            float32: true,
            ..filter
        };
        assert_eq!(less(filter, &values), [0., 20., 30., 50.]);
        let array = less_of_array(&filter, &doubles(&values)).unwrap();
        assert_eq!((array.value_type, array.count), (ValueType::Float32, 4));
    }

    #[test]
    fn what_is_no_array_of_numbers_or_short_enough_stays_as_it_is() {
        let filter = Filter {
            points: 4,
            max_length: 4,
            stride: 1,
            ..Filter::ALL
        };
        assert!(less_of_array(&filter, &doubles(&[1.0; 4])).is_none());
        assert!(less_of(&filter, &RowValue::Number(1.0)).is_none());
        let text = RowValue::Blob(Arc::new(BlobValue::Text("x".repeat(100))));
        assert!(less_of(&filter, &text).is_none());
        let labels = Array {
            value_type: ValueType::Enum,
            count: 8,
            data: vec![0; 16].into(),
        };
        assert!(decimated(&filter, &labels).is_none());
        assert_eq!(cut(&filter, &labels).unwrap().data.len(), 8);
        assert!(
            less_of_array(
                &Filter {
                    stride: 3,
                    ..filter
                },
                &doubles(&[])
            )
            .is_none()
        );
    }

    #[test]
    fn integers_are_compared_as_what_they_are() {
        let bytes = [-128_i8, 127, 0, -1].map(|value| value as u8);
        let of = |value_type| Array {
            value_type,
            count: 4,
            data: bytes.to_vec().into(),
        };
        let filter = Filter {
            points: 2,
            ..Filter::ALL
        };
        let numbers = |value_type| less_of_array(&filter, &of(value_type)).unwrap().numbers();
        assert_eq!(numbers(ValueType::Int8), [-128.0, 127.0]);
        assert_eq!(numbers(ValueType::UInt8), [0.0, 255.0]);
    }

    /// Numbers of all kinds, with peaks among equal values.
    fn element() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => Just(0.0),
            4 => -1e3..1e3,
            1 => any::<f64>(),
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
        ]
    }

    proptest! {
        #[test]
        fn no_peak_is_lost_whatever_the_stretches(
            values in prop::collection::vec(element(), 0..400),
            points in 2_u32..60,
        ) {
            let points = points & !1;
            let shown = less(Filter { points, ..Filter::ALL }, &values);
            if values.len() <= points as usize {
                prop_assert_eq!(shown.len(), values.len());
                return Ok(());
            }
            prop_assert_eq!(shown.len(), points as usize);
            let (stretches, length) = (points as usize / 2, values.len());
            for (nth, pair) in shown.chunks(2).enumerate() {
                let stretch = &values[nth * length / stretches..(nth + 1) * length / stretches];
                let numbers = || stretch.iter().copied().filter(|value| !value.is_nan());
                if numbers().next().is_none() {
                    prop_assert!(pair.iter().all(|value| value.is_nan()));
                    continue;
                }
                // Both extremes are there, and both are elements in their order.
                prop_assert_eq!(pair[0].min(pair[1]), numbers().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(pair[0].max(pair[1]), numbers().fold(f64::NEG_INFINITY, f64::max));
                let first = stretch.iter().position(|value| *value == pair[0]);
                let last = stretch.iter().rposition(|value| *value == pair[1]);
                prop_assert!(first <= last);
            }
        }
    }
}
