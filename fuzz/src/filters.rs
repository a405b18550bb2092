//! Target `filters`: reduced arrays are never longer, and their values are right.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_relay::ingest::RowValue;
use pvwire_relay::state::filter::{Candidate, Gate, checked, less_of};
use pvwire_schema::types::{Array, BlobValue, Filter, ValueType};

/// Bytes of a filter, before those of the array.
const FILTER_BYTES: usize = 30;

const TYPES: [ValueType; 6] = [
    ValueType::Float64,
    ValueType::Float32,
    ValueType::Int64,
    ValueType::UInt16,
    ValueType::Int8,
    ValueType::String,
];

/// Filters of each kind, with arrays of a few types.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let filter = |numbers: [u32; 5], deadband: f64, float32: u8, value_type: u8| {
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        let mut bytes: Vec<u8> = numbers.chain(deadband.to_le_bytes()).collect();
        bytes.extend([float32, value_type]);
        let elements = (0..40_u32).flat_map(|number| f64::from(number % 7).to_le_bytes());
        bytes.extend(elements);
        bytes
    };
    vec![
        filter([100, 3, 2, 10, 8], 0.5, 1, 0),
        filter([0, 0, 0, 0, 6], 0.0, 0, 1),
        filter([0, 0, 7, 0, 0], 0.0, 0, 2),
        filter([0, 1, 1, 3, 1], -1.0, 0, 3),
        filter([u32::MAX; 5], f64::NAN, 1, 5),
    ]
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((head, data)) = bytes.split_at_checked(FILTER_BYTES) else {
        return;
    };
    let number = |at: usize| {
        let four = head[at * 4..].first_chunk().copied();
        u32::from_le_bytes(four.unwrap_or_default())
    };
    let deadband = head[20..].first_chunk().copied().unwrap_or_default();
    let asked = Filter {
        min_interval_ms: number(0),
        every: number(1),
        stride: number(2),
        max_length: number(3),
        points: number(4),
        deadband: f64::from_le_bytes(deadband),
        float32: head[28] & 1 == 1,
        average: head[28] & 2 == 2,
    };
    let filter = match checked(asked) {
        Ok(Some(filter)) => filter,
        Ok(None) => return,
        Err(said) => {
            assert_eq!(said.to_string().lines().count(), 1);
            return;
        }
    };
    assert_eq!(
        checked(filter),
        Ok(Some(filter)),
        "a checked filter is another"
    );
    check(filter);
    let value_type = TYPES[usize::from(head[29]) % TYPES.len()];
    let Some(size) = value_type.element_bytes() else {
        return;
    };
    let count = data.len() / size;
    let array = Array {
        value_type,
        count: count as u32,
        data: data[..count * size].to_vec().into(),
    };
    let value = RowValue::Blob(Arc::new(BlobValue::Array(array)));
    let Some(RowValue::Blob(less)) = less_of(&filter, &value) else {
        return;
    };
    let BlobValue::Array(less) = &*less else {
        panic!("of an array something else is left");
    };
    let left = less.count as usize;
    assert_eq!(
        Some(less.data.len()),
        less.value_type.element_bytes().map(|size| size * left)
    );
    assert!(left <= count && (count == 0 || left > 0));
    assert!(filter.max_length == 0 || less.count <= filter.max_length);
    assert!(
        filter.points == 0 || value_type == ValueType::String || less.count <= filter.points.max(2)
    );
}

/// An alarm always passes, and so does what comes after the interval unless something else holds
/// it.
fn check(filter: Filter) {
    use pvwire_relay::state::filter::Verdict;
    let now = Instant::now();
    let gate = Gate::new(filter, now);
    let candidate = Candidate {
        steps: 1,
        numbers: Some((1.0, f64::NAN)),
        urgent: true,
        is_array: false,
    };
    assert_eq!(gate.verdict(candidate, now), Verdict::Pass);
    let later = now + Duration::from_millis(filter.min_interval_ms.into());
    let many = Candidate {
        steps: u32::MAX,
        urgent: false,
        is_array: false,
        ..candidate
    };
    assert_eq!(gate.verdict(many, later), Verdict::Pass);
}
