//! Splits the text of a formula into tokens.

use super::error::{ParseError, Problem};
use super::value::number_in;
use crate::format::number_text;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(String),
    /// A plain name: a PV, a function or a constant.
    Name(String),
    /// A name in quotes: a PV.
    Quoted(String),
    /// An operator or bracket.
    Sign(&'static str),
    End,
}

impl Token {
    /// The token as error messages name it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Number(number) => number_text(*number),
            Self::Text(_) => "a text".to_owned(),
            Self::Name(name) | Self::Quoted(name) => format!("`{name}`"),
            Self::Sign(sign) => format!("\"{sign}\""),
            Self::End => "the end".to_owned(),
        }
    }
}

/// Longer signs first.
const SIGNS: [&str; 21] = [
    "&&", "||", "==", "!=", ">=", "<=", "&", "|", ">", "<", "+", "-", "*", "/", "^", "%", "!", "?",
    ":", "(", ")",
];

/// All tokens of `text`, each with its position: the number of the character, from 1 on. The last
/// one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ParseError> {
    let characters: Vec<char> = text.chars().collect();
    let mut lexer = Lexer {
        characters: &characters,
        at: 0,
    };
    let mut tokens = Vec::new();
    loop {
        while lexer.peek().is_some_and(char::is_whitespace) {
            lexer.at += 1;
        }
        let position = lexer.at + 1;
        let token = lexer.token().map_err(|problem| ParseError {
            at: position,
            problem,
        })?;
        let is_end = token == Token::End;
        tokens.push((position, token));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    characters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn token(&mut self) -> Result<Token, Problem> {
        let Some(first) = self.peek() else {
            return Ok(Token::End);
        };
        match first {
            '0'..='9' | '.' => self.number(),
            '"' => self.text(),
            '`' | '\'' => self.quoted(first),
            ',' => {
                self.at += 1;
                Ok(Token::Sign(","))
            }
            _ if in_name(first) => Ok(self.name()),
            _ => self.sign(first),
        }
    }

    fn sign(&mut self, first: char) -> Result<Token, Problem> {
        let rest = &self.characters[self.at..];
        let begins = |sign: &&&str| {
            let mut signs = sign.chars();
            signs.all({
                let mut rest = rest.iter();
                move |each| rest.next() == Some(&each)
            })
        };
        match SIGNS.iter().find(begins) {
            Some(sign) => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            None if first == '=' => Err(Problem::Expected {
                what: "\"==\"",
                found: "\"=\"".to_owned(),
            }),
            None => Err(Problem::Character(first)),
        }
    }

    fn number(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        let is_hex =
            self.peek() == Some('0') && matches!(self.characters.get(start + 1), Some('x' | 'X'));
        let mut last = ' ';
        while let Some(next) = self.peek() {
            let goes_on = next.is_ascii_alphanumeric()
                || next == '.'
                || !is_hex && matches!(next, '+' | '-') && matches!(last, 'e' | 'E');
            if !goes_on {
                break;
            }
            last = next;
            self.at += 1;
        }
        let text: String = self.characters[start..self.at].iter().collect();
        let number = number_in(&text);
        number.map(Token::Number).ok_or(Problem::Number(text))
    }

    fn text(&mut self) -> Result<Token, Problem> {
        self.at += 1;
        let mut text = String::new();
        while let Some(next) = self.peek() {
            self.at += 1;
            match next {
                '"' => return Ok(Token::Text(text)),
                '\\' => {
                    text.extend(self.peek());
                    self.at += 1;
                }
                _ => text.push(next),
            }
        }
        Err(Problem::Unclosed("text"))
    }

    fn quoted(&mut self, quote: char) -> Result<Token, Problem> {
        let start = self.at + 1;
        let length = self.characters[start..].iter().position(|c| *c == quote);
        let Some(length) = length else {
            return Err(Problem::Unclosed("PV name"));
        };
        self.at = start + length + 1;
        let name: String = self.characters[start..start + length].iter().collect();
        let name = name.trim();
        if name.is_empty() {
            return Err(Problem::NoName);
        }
        Ok(Token::Quoted(name.to_owned()))
    }

    fn name(&mut self) -> Token {
        let start = self.at;
        while self.peek().is_some_and(|c| in_name(c) || c == ':') {
            self.at += 1;
        }
        // A colon at the end belongs to "? :".
        while self.characters[self.at - 1] == ':' {
            self.at -= 1;
        }
        Token::Name(self.characters[start..self.at].iter().collect())
    }
}

/// Whether a plain name can contain this character. A colon is also possible, but not as the first
/// one.
fn in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
