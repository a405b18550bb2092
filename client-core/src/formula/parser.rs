//! Compiles the text of a formula to a flat program, with the precedence of Phoebus: `* / ^ %`,
//! then `+ -`, then comparisons, then `& |` and `? :`. Operators of one level apply from left to right.

use super::error::{ParseError, Problem};
use super::functions::{FUNCTIONS, Function, IMAGE_FUNCTIONS};
use super::lexer::{Token, tokens};
use super::value::Value;
use super::{MAX_CHARACTERS, MAX_DEPTH, MAX_INPUTS};

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    And,
    Or,
    Equal,
    Unequal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Remainder,
}

/// Operators by level, the weakest first.
const OPERATORS: [&[(&str, Binary)]; 4] = [
    &[
        ("&&", Binary::And),
        ("&", Binary::And),
        ("||", Binary::Or),
        ("|", Binary::Or),
    ],
    &[
        ("==", Binary::Equal),
        ("!=", Binary::Unequal),
        (">", Binary::Greater),
        (">=", Binary::GreaterOrEqual),
        ("<", Binary::Less),
        ("<=", Binary::LessOrEqual),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[
        ("*", Binary::Multiply),
        ("/", Binary::Divide),
        ("^", Binary::Power),
        ("%", Binary::Remainder),
    ],
];

/// One step of a program, which works on a stack.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Pushes a constant.
    Constant(Value),
    /// Pushes the value of an input.
    Input(usize),
    /// Replaces the topmost operand by 1 if it is 0, otherwise by 0.
    Not,
    /// Replaces the two topmost operands by the result.
    Binary(Binary),
    /// Replaces the topmost arguments by the result of a function.
    Call(&'static Function, usize),
    /// Leaves the condition on the stack; continues at `no` if it is 0, at `end` if it is not a
    /// finite number.
    Branch { no: usize, end: usize },
    /// Continues elsewhere.
    Jump(usize),
    /// Replaces a condition and a branch's value by the value, with the severity of both.
    Join,
}

/// A compiled formula.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) inputs: Vec<String>,
    pub(super) steps: Vec<Step>,
}

/// Compiles the text of a formula.
pub(super) fn parse(text: &str) -> Result<Program, ParseError> {
    // Characters are not counted if the number of bytes already shows that there are too many.
    if text.len() > 4 * MAX_CHARACTERS || text.chars().count() > MAX_CHARACTERS {
        return Err(ParseError {
            at: MAX_CHARACTERS + 1,
            problem: Problem::Limit {
                what: "characters",
                limit: MAX_CHARACTERS,
            },
        });
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        program: Program::default(),
    };
    parser.expression(0)?;
    if *parser.peek() == Token::End {
        Ok(parser.program)
    } else {
        Err(parser.expected("an operator"))
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    program: Program,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    /// Takes the next token; the last one is never removed.
    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, problem: Problem) -> ParseError {
        ParseError {
            at: self.tokens[self.at].0,
            problem,
        }
    }

    fn expected(&self, what: &'static str) -> ParseError {
        self.error(Problem::Expected {
            what,
            found: self.peek().shown(),
        })
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        if found {
            self.next();
        }
        found
    }

    fn emit(&mut self, step: Step) -> usize {
        self.program.steps.push(step);
        self.program.steps.len() - 1
    }

    /// Parses an expression of operators of this level and the stronger ones.
    fn expression(&mut self, level: usize) -> Result<(), ParseError> {
        let Some(operators) = OPERATORS.get(level) else {
            return self.operand();
        };
        self.expression(level + 1)?;
        loop {
            let Token::Sign(sign) = *self.peek() else {
                return Ok(());
            };
            if let Some((_, operator)) = operators.iter().find(|(known, _)| *known == sign) {
                self.next();
                self.expression(level + 1)?;
                self.emit(Step::Binary(*operator));
            } else if level == 0 && sign == "?" {
                self.condition()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Parses the rest of `condition ? yes : no`.
    fn condition(&mut self) -> Result<(), ParseError> {
        self.next();
        let branch = self.emit(Step::Join);
        self.nested(|parser| parser.expression(0))?;
        if !self.takes(":") {
            return Err(self.expected("\":\" (put PV names before it in backquotes)"));
        }
        let jump = self.emit(Step::Join);
        self.nested(|parser| parser.expression(0))?;
        let join = self.emit(Step::Join);
        self.program.steps[branch] = Step::Branch {
            no: jump + 1,
            end: join + 1,
        };
        self.program.steps[jump] = Step::Jump(join);
        Ok(())
    }

    /// Calls `inner` one level deeper.
    fn nested(&mut self, inner: fn(&mut Self) -> Result<(), ParseError>) -> Result<(), ParseError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(Problem::Limit {
                what: "levels of nesting",
                limit: MAX_DEPTH,
            }));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn operand(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        match self.next() {
            Token::Number(number) => {
                self.emit(Step::Constant(Value::Number(number)));
            }
            Token::Text(text) => {
                self.emit(Step::Constant(Value::Text(text.into())));
            }
            Token::Quoted(name) => self.input(name)?,
            Token::Name(name) if self.takes("(") => self.call(&name, start)?,
            Token::Name(name) => match name.as_str() {
                "PI" => drop(self.emit(Step::Constant(Value::Number(std::f64::consts::PI)))),
                "E" => drop(self.emit(Step::Constant(Value::Number(std::f64::consts::E)))),
                _ => self.input(name)?,
            },
            Token::Sign("(") => {
                self.nested(|parser| parser.expression(0))?;
                if !self.takes(")") {
                    return Err(self.expected("\")\" or an operator"));
                }
            }
            Token::Sign("!") => {
                self.nested(Self::operand)?;
                self.emit(Step::Not);
            }
            Token::Sign("-") => self.negative()?,
            _ => {
                self.at = start;
                return Err(self.expected("a number, a text, a PV, a function or \"(\""));
            }
        }
        Ok(())
    }

    /// Parses what follows a minus sign: as in Phoebus, `-x` is `0 - x`.
    fn negative(&mut self) -> Result<(), ParseError> {
        if let Token::Number(number) = *self.peek() {
            self.next();
            self.emit(Step::Constant(Value::Number(-number)));
            return Ok(());
        }
        self.emit(Step::Constant(Value::Number(0.0)));
        self.nested(Self::operand)?;
        self.emit(Step::Binary(Binary::Subtract));
        Ok(())
    }

    fn input(&mut self, name: String) -> Result<(), ParseError> {
        let inputs = &mut self.program.inputs;
        let known = inputs.iter().position(|known| *known == name);
        let index = known.unwrap_or(inputs.len());
        if index == MAX_INPUTS {
            return Err(self.error(Problem::Limit {
                what: "PVs",
                limit: MAX_INPUTS,
            }));
        }
        if known.is_none() {
            inputs.push(name);
        }
        self.emit(Step::Input(index));
        Ok(())
    }

    /// Parses the arguments of a function, after the opening bracket.
    fn call(&mut self, name: &str, start: usize) -> Result<(), ParseError> {
        let at = self.tokens[start].0;
        let found = FUNCTIONS
            .iter()
            .find(|function| function.name.eq_ignore_ascii_case(name));
        let Some(function) = found else {
            let takes_image = IMAGE_FUNCTIONS.contains(&name);
            let problem = if takes_image {
                Problem::Image
            } else {
                Problem::Function
            };
            return Err(ParseError {
                at,
                problem: problem(name.to_owned()),
            });
        };
        let mut given = 0;
        if !self.takes(")") {
            loop {
                self.nested(|parser| parser.expression(0))?;
                given += 1;
                if self.takes(")") {
                    break;
                }
                if !self.takes(",") {
                    return Err(self.expected("\",\", \")\" or an operator"));
                }
            }
        }
        let most = function.most.map_or(usize::MAX, usize::from);
        let least = usize::from(function.least);
        if !(least..=most).contains(&given) {
            return Err(ParseError {
                at,
                problem: Problem::Arguments {
                    function: function.name,
                    least,
                    most,
                    given,
                },
            });
        }
        self.emit(Step::Call(function, given));
        Ok(())
    }
}
