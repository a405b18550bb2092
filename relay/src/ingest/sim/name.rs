//! What does a name such as `sine(2,rate_hz=5)` ask for, and what is wrong with it?

use std::fmt;

use super::generator::Generator;

/// A generator that names can ask for.
pub(super) struct Function {
    pub(super) name: &'static str,
    /// In the order of arguments that aren't named.
    pub(super) parameters: &'static [Parameter],
    /// Fails with half a sentence when the arguments don't go together.
    pub(super) make: fn(&Arguments) -> Result<Generator, String>,
}

/// An argument of a generator.
pub(super) struct Parameter {
    /// With its unit.
    pub(super) name: &'static str,
    pub(super) takes: Takes,
}

/// What an argument may be.
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
    /// Words with `|` between them.
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

/// As in a name: `sine(period_s=10,amplitude=1)`, with the defaults.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (place, parameter) in self.parameters.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
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

/// Which values fit, as part of a sentence.
impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { low, high, .. } => write!(f, "a number from {low} to {high}"),
            Self::Whole { low, high, .. } => write!(f, "a whole number from {low} to {high}"),
            Self::Words { .. } => write!(f, "one or more words with | between them"),
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

/// Makes what a name asks for, or says what is wrong with it and what would fit.
pub(super) fn read(scheme: &str, functions: &[Function], name: &str) -> Result<Generator, String> {
    let (called, arguments) = match name.split_once('(') {
        None => (name, ""),
        Some((called, rest)) => {
            let inside = rest.strip_suffix(')');
            (
                called,
                inside.ok_or_else(|| format!("{name:?} doesn't end with a bracket"))?,
            )
        }
    };
    let function = (functions.iter())
        .find(|function| function.name == called)
        .ok_or_else(|| {
            let known: Vec<_> = functions.iter().map(|function| function.name).collect();
            let known = known.join(", ");
            format!("{scheme} has no generator {called:?}; it has: {known}")
        })?;
    read_arguments(function, arguments)
        .and_then(|arguments| (function.make)(&arguments))
        .map_err(|why| format!("{called}: {why}; its arguments and defaults: {function}"))
}

fn read_arguments(function: &Function, text: &str) -> Result<Arguments, String> {
    let parameters = function.parameters;
    let mut given: Vec<Option<Value>> = vec![None; parameters.len()];
    let mut after_named = false;
    for (place, argument) in text.split(',').enumerate() {
        if text.trim().is_empty() {
            break;
        }
        let (place, value) = match argument.split_once('=') {
            Some((name, value)) => {
                after_named = true;
                let name = name.trim();
                let known = parameters.iter().position(|known| known.name == name);
                (known.ok_or_else(|| format!("there is no {name:?}"))?, value)
            }
            None if after_named => {
                return Err(format!("{argument:?} has no name but follows one that has"));
            }
            None => (place, argument),
        };
        let parameter =
            (parameters.get(place)).ok_or_else(|| format!("{argument:?} is one too many"))?;
        let (name, takes) = (parameter.name, &parameter.takes);
        let value = value.trim();
        let read = takes.read(value);
        let read = read.ok_or_else(|| format!("{name} is {value:?}, which is not {takes}"))?;
        if given[place].replace(read).is_some() {
            return Err(format!("{name} is given twice"));
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

    const FUNCTION: Function = Function {
        name: "f",
        parameters: &[
            Parameter::number("period_s", 10.0, 0.5, 100.0),
            Parameter::whole("size", 7, 1, 20),
            Parameter::words("labels", "Off|On"),
        ],
        make: |_| Err("it can't be made".into()),
    };

    fn arguments(text: &str) -> Result<(f64, u32, String), String> {
        let read = read_arguments(&FUNCTION, text)?;
        let labels = read.words("labels").join("+");
        Ok((read.number("period_s"), read.whole("size"), labels))
    }

    #[test]
    fn arguments_come_by_place_by_name_or_by_default() {
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
    fn mistake_is_told_with_what_would_fit() {
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
                r#"labels is "A||B", which is not one or more words with | between them"#,
            ),
            ("1,2,A,4", r#""4" is one too many"#),
            ("rate=1", r#"there is no "rate""#),
            ("size=1,2", r#""2" has no name but follows one that has"#),
            ("1,period_s=1", "period_s is given twice"),
        ] {
            assert_eq!(arguments(text), Err(why.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn name_that_asks_for_nothing_known_is_told_what_is_known() {
        let refused = |name| read("sim", &[FUNCTION], name).map(|_| ()).unwrap_err();
        assert_eq!(refused("g(1)"), r#"sim has no generator "g"; it has: f"#);
        assert_eq!(refused("f(1"), r#""f(1" doesn't end with a bracket"#);
        assert_eq!(
            refused("f"),
            "f: it can't be made; its arguments and defaults: f(period_s=10,size=7,labels=Off|On)"
        );
    }
}
