//! Reads names such as `sine(2,rate_hz=5)`: a function and its arguments.

use std::fmt;

/// A function that a name can call. It makes an `M`, or says by an `E` why its arguments don't go
/// together.
pub(super) struct Function<M, E> {
    pub(super) name: &'static str,
    /// In the order of unnamed arguments.
    pub(super) parameters: &'static [Parameter],
    pub(super) make: fn(&Arguments) -> Result<M, E>,
}

/// A parameter of a function.
pub(super) struct Parameter {
    /// Includes the unit.
    pub(super) name: &'static str,
    pub(super) takes: Takes,
}

/// The values that an argument may have.
pub(super) enum Takes {
    Number {
        default: f64,
        low: f64,
        high: f64,
    },
    Whole {
        default: u32,
        low: u32,
        high: u32,
    },
    /// Words separated by `|`.
    Words {
        default: &'static str,
    },
}

impl Parameter {
    pub(super) const fn number(name: &'static str, default: f64, low: f64, high: f64) -> Self {
        let takes = Takes::Number { default, low, high };
        Self { name, takes }
    }

    pub(super) const fn whole(name: &'static str, default: u32, low: u32, high: u32) -> Self {
        let takes = Takes::Whole { default, low, high };
        Self { name, takes }
    }

    pub(super) const fn words(name: &'static str, default: &'static str) -> Self {
        let takes = Takes::Words { default };
        Self { name, takes }
    }
}

/// Writes the function as in a name, with its defaults: `sine(period_s=10,amplitude=1)`.
impl<M, E> fmt::Display for Function<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}=", parameter.name)?;
            match parameter.takes {
                Takes::Number { default, .. } => write!(f, "{default}")?,
                Takes::Whole { default, .. } => write!(f, "{default}")?,
                Takes::Words { default } => write!(f, "{default}")?,
            }
        }
        write!(f, ")")
    }
}

/// Writes the valid values, as part of a sentence.
impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { low, high, .. } => write!(f, "a number from {low} to {high}"),
            Self::Whole { low, high, .. } => write!(f, "a whole number from {low} to {high}"),
            Self::Words { .. } => write!(f, "one or more words separated by |"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Whole(u32),
    Words(Vec<String>),
}

impl Takes {
    fn default(&self) -> Value {
        match *self {
            Self::Number { default, .. } => Value::Number(default),
            Self::Whole { default, .. } => Value::Whole(default),
            Self::Words { default } => Value::Words(words(default)),
        }
    }

    fn read(&self, text: &str) -> Option<Value> {
        match *self {
            Self::Number { low, high, .. } => (text.parse().ok())
                .filter(|number| (low..=high).contains(number))
                .map(Value::Number),
            Self::Whole { low, high, .. } => (text.parse().ok())
                .filter(|number| (low..=high).contains(number))
                .map(Value::Whole),
            Self::Words { .. } => {
                let words = words(text);
                (!words.iter().any(String::is_empty)).then_some(Value::Words(words))
            }
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split('|').map(|word| word.trim().to_owned()).collect()
}

/// A value for each parameter of a function.
#[derive(Debug)]
pub(super) struct Arguments(Vec<(&'static str, Value)>);

impl Arguments {
    fn value(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found.expect("a function asks for its own parameters").1
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Number(number) => *number,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    pub(super) fn whole(&self, name: &str) -> u32 {
        match self.value(name) {
            Value::Whole(number) => *number,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    pub(super) fn words(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Value::Words(words) => words.clone(),
            other => unreachable!("{name} is {other:?}"),
        }
    }
}

/// What is wrong with a name.
#[derive(Debug, thiserror::Error)]
pub(super) enum NameError<E> {
    /// The arguments have no end.
    #[error("{0:?} doesn't end with a closing bracket")]
    Unclosed(String),
    /// There is no such function.
    #[error("{scheme} has no generator {called:?}; it has: {known}")]
    UnknownFunction {
        scheme: String,
        called: String,
        known: String,
    },
    /// The function can't be called like this.
    #[error("{called}: {why}; its arguments and defaults: {function}")]
    Arguments {
        called: String,
        why: ArgumentError<E>,
        function: String,
    },
}

/// What is wrong with the arguments of a function.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum ArgumentError<E> {
    /// No parameter has this name.
    #[error("there is no {0:?}")]
    Unknown(String),
    /// An argument without a name comes after one with a name.
    #[error("{0:?} has no name but follows one that has")]
    Unnamed(String),
    /// There are more arguments than parameters.
    #[error("{0:?} is one too many")]
    TooMany(String),
    /// A parameter is given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// A value is not valid for its parameter.
    #[error("{name} is {value:?}, which is not {expected}")]
    Value {
        name: &'static str,
        value: String,
        expected: String,
    },
    /// The arguments are valid but don't go together.
    #[error("{0}")]
    Together(E),
}

/// Makes what a name asks for.
///
/// # Errors
/// What is wrong with the name, and what would be right.
pub(super) fn read<M, E>(
    scheme: &str,
    functions: &[Function<M, E>],
    name: &str,
) -> Result<M, NameError<E>> {
    let (called, arguments) = match name.split_once('(') {
        None => (name, ""),
        Some((called, rest)) => match rest.strip_suffix(')') {
            Some(inside) => (called, inside),
            None => return Err(NameError::Unclosed(name.to_owned())),
        },
    };
    let Some(function) = functions.iter().find(|function| function.name == called) else {
        let known: Vec<_> = functions.iter().map(|function| function.name).collect();
        return Err(NameError::UnknownFunction {
            scheme: scheme.to_owned(),
            called: called.to_owned(),
            known: known.join(", "),
        });
    };
    read_arguments(function.parameters, arguments)
        .and_then(|arguments| (function.make)(&arguments).map_err(ArgumentError::Together))
        .map_err(|why| NameError::Arguments {
            called: called.to_owned(),
            why,
            function: function.to_string(),
        })
}

fn read_arguments<E>(parameters: &[Parameter], text: &str) -> Result<Arguments, ArgumentError<E>> {
    let mut given: Vec<Option<Value>> = vec![None; parameters.len()];
    let mut after_named = false;
    for (position, argument) in text.split(',').enumerate() {
        if text.trim().is_empty() {
            break;
        }
        let (index, value) = match argument.split_once('=') {
            Some((name, value)) => {
                after_named = true;
                let name = name.trim();
                let known = parameters.iter().position(|known| known.name == name);
                let index = known.ok_or_else(|| ArgumentError::Unknown(name.to_owned()))?;
                (index, value)
            }
            None if after_named => return Err(ArgumentError::Unnamed(argument.to_owned())),
            None => (position, argument),
        };
        let Some(Parameter { name, takes }) = parameters.get(index) else {
            return Err(ArgumentError::TooMany(argument.to_owned()));
        };
        let value = value.trim();
        let read = takes.read(value).ok_or_else(|| ArgumentError::Value {
            name,
            value: value.to_owned(),
            expected: takes.to_string(),
        })?;
        if given[index].replace(read).is_some() {
            return Err(ArgumentError::Twice(name));
        }
    }
    let values = parameters.iter().zip(given);
    let values = values.map(|(parameter, given)| {
        let value = given.unwrap_or_else(|| parameter.takes.default());
        (parameter.name, value)
    });
    Ok(Arguments(values.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: Function<(), &str> = Function {
        name: "f",
        parameters: &[
            Parameter::number("period_s", 10.0, 0.5, 100.0),
            Parameter::whole("size", 7, 1, 20),
            Parameter::words("labels", "Off|On"),
        ],
        make: |_| Err("it can't be made"),
    };

    fn arguments(text: &str) -> Result<(f64, u32, String), ArgumentError<&'static str>> {
        let read = read_arguments(FUNCTION.parameters, text)?;
        let labels = read.words("labels").join("+");
        Ok((read.number("period_s"), read.whole("size"), labels))
    }

    #[test]
    fn arguments_come_by_position_by_name_or_by_default() {
        for (text, period_s, size, labels) in [
            ("", 10.0, 7, "Off+On"),
            ("2", 2.0, 7, "Off+On"),
            ("2.5,20,A|B|C", 2.5, 20, "A+B+C"),
            ("2,labels=A", 2.0, 7, "A"),
            ("labels=A,period_s=1e2", 100.0, 7, "A"),
            (" 2 , size = 3 ", 2.0, 3, "Off+On"),
        ] {
            let expected = Ok((period_s, size, labels.to_owned()));
            assert_eq!(arguments(text), expected, "{text:?}");
        }
    }

    #[test]
    fn error_says_which_values_are_valid() {
        for (text, why) in [
            (
                "x",
                r#"period_s is "x", which is not a number from 0.5 to 100"#,
            ),
            (
                "0",
                r#"period_s is "0", which is not a number from 0.5 to 100"#,
            ),
            (
                "nan",
                r#"period_s is "nan", which is not a number from 0.5 to 100"#,
            ),
            (
                "1,",
                r#"size is "", which is not a whole number from 1 to 20"#,
            ),
            (
                "1,2.5",
                r#"size is "2.5", which is not a whole number from 1 to 20"#,
            ),
            (
                "size=21",
                r#"size is "21", which is not a whole number from 1 to 20"#,
            ),
            (
                "labels=A||B",
                r#"labels is "A||B", which is not one or more words separated by |"#,
            ),
            ("1,2,A,4", r#""4" is one too many"#),
            ("rate=1", r#"there is no "rate""#),
            ("size=1,2", r#""2" has no name but follows one that has"#),
            ("1,period_s=1", "period_s is given twice"),
        ] {
            assert_eq!(arguments(text).unwrap_err().to_string(), why, "{text:?}");
        }
    }

    #[test]
    fn error_of_an_unknown_name_lists_the_known_ones() {
        let refused = |name| read("sim", &[FUNCTION], name).unwrap_err().to_string();
        assert_eq!(refused("g(1)"), r#"sim has no generator "g"; it has: f"#);
        assert_eq!(
            refused("f(1"),
            r#""f(1" doesn't end with a closing bracket"#
        );
        assert_eq!(
            refused("f"),
            "f: it can't be made; its arguments and defaults: f(period_s=10,size=7,labels=Off|On)"
        );
    }
}
