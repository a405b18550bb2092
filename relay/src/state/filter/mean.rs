//! The mean of the numbers that a filter holds back.

use pvwire_schema::types::ValueType;

/// Mean of the numbers since the last update that passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    count: u32,
    mean: f64,
    /// Sequence number of the last update in it.
    sequence: u32,
}

impl Mean {
    /// Adds the number of an update; one with the sequence number of the last one is the same update.
    pub fn add(&mut self, sequence: u32, number: f64) {
        if self.count > 0 && self.sequence == sequence {
            return;
        }
        self.count += 1;
        self.sequence = sequence;
        let count = f64::from(self.count);
        // Neither a sum nor a difference, which may overflow; equal numbers stay as they are.
        self.mean = if self.count == 1 {
            number
        } else {
            self.mean + (number / count - self.mean / count)
        };
    }

    /// The mean as a value of this type: integers are rounded. `None` without numbers.
    #[must_use]
    pub fn of_type(&self, value_type: Option<ValueType>) -> Option<f64> {
        let is_fractional = matches!(value_type, Some(ValueType::Float32 | ValueType::Float64));
        let mean = if is_fractional {
            self.mean
        } else {
            self.mean.round()
        };
        (self.count > 0).then_some(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(numbers: &[f64]) -> f64 {
        let mut mean = Mean::default();
        for (sequence, number) in (1..).zip(numbers) {
            mean.add(sequence, *number);
            mean.add(sequence, 1e9);
        }
        mean.of_type(Some(ValueType::Float64)).unwrap()
    }

    #[test]
    fn mean_is_exact_for_equal_numbers_and_does_not_overflow() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean(&[0.1; 1000]), 0.1);
        assert_eq!(mean(&[f64::MAX, f64::MAX, f64::MAX]), f64::MAX);
        assert_eq!(mean(&[f64::MAX, -f64::MAX]), 0.0);
        assert!(mean(&[1.0, f64::NAN]).is_nan());
        assert_eq!(mean(&[f64::INFINITY]), f64::INFINITY);
    }

    #[test]
    fn mean_of_integers_is_an_integer() {
        let mut mean = Mean::default();
        assert_eq!(mean.of_type(None), None);
        mean.add(1, 1.0);
        mean.add(2, 2.0);
        assert_eq!(mean.of_type(Some(ValueType::Int32)), Some(2.0));
        assert_eq!(mean.of_type(Some(ValueType::Float32)), Some(1.5));
    }
}
