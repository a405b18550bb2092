//! Reads the syntax of access security files (`.acf`).

use std::collections::HashSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use thiserror::Error;

use super::{Grants, Rule, Unsupported};

/// Why a line can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// Something else than the syntax asks for.
    #[error("expected {what}, not {found}")]
    Expected {
        /// What the syntax asks for.
        what: String,
        /// What is there.
        found: String,
    },
    /// The file ends too early.
    #[error("expected {0}, but the file ends")]
    End(String),
    /// `"text`
    #[error("a text without its second \"")]
    OpenText,
    /// `"a\b"`
    #[error("within quotes IOCs read \\ as an escape, some gateways as a character; leave it out")]
    Backslash,
    /// A UAG or ASG is defined twice.
    #[error("{0} is defined twice")]
    Duplicate(String),
    /// A RULE names a UAG that the file doesn't define.
    #[error("there is no UAG({0})")]
    NoUsers(String),
    /// `UAG(a) UAG(b)` in a RULE.
    #[error("a second UAG in a RULE; write UAG(a, b)")]
    SecondUsers,
}

impl SyntaxError {
    pub(super) fn expected(what: &str, found: impl std::fmt::Display) -> Self {
        Self::Expected {
            what: what.to_owned(),
            found: found.to_string(),
        }
    }
}

/// A piece of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword, a name or a number.
    Word(String),
    /// Text in quotes, which is never a keyword.
    Text(String),
    /// One of `(){},`.
    Mark(char),
}

impl std::fmt::Display for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Text(text) => write!(formatter, "{text:?}"),
            Self::Mark(mark) => write!(formatter, "{mark:?}"),
        }
    }
}

/// The pieces, each with its line.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, (usize, SyntaxError)> {
    let is_mark = |c: char| "(){},".contains(c);
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if first == '#' {
                break;
            } else if is_mark(first) {
                tokens.push((number, Token::Mark(first)));
                1
            } else if first == '"' {
                let end = rest[1..].find('"');
                let end = end.ok_or((number, SyntaxError::OpenText))?;
                if rest[1..=end].contains('\\') {
                    return Err((number, SyntaxError::Backslash));
                }
                tokens.push((number, Token::Text(rest[1..=end].to_owned())));
                end + 2
            } else {
                let ends = |c: char| c.is_whitespace() || is_mark(c) || c == '"' || c == '#';
                let end = rest.find(ends).unwrap_or(rest.len());
                tokens.push((number, Token::Word(rest[..end].to_owned())));
                end
            };
            rest = rest[length..].trim_start();
        }
    }
    Ok(tokens)
}

pub(super) struct Parser {
    pub(super) tokens: Peekable<IntoIter<(usize, Token)>>,
    /// Of the last token.
    pub(super) line: usize,
    pub(super) last_line: usize,
}

impl Parser {
    pub(super) fn next(&mut self) -> Option<Token> {
        let (line, token) = self.tokens.next()?;
        self.line = line;
        Some(token)
    }

    fn is_next(&mut self, mark: char) -> bool {
        let found = self.tokens.peek();
        found.is_some_and(|(_, token)| *token == Token::Mark(mark))
    }

    /// Takes a mark that is there.
    fn take(&mut self, mark: char) -> bool {
        let found = self.is_next(mark);
        if found {
            self.next();
        }
        found
    }

    fn expected(&mut self, what: &str) -> SyntaxError {
        match self.next() {
            Some(token) => SyntaxError::expected(what, token),
            None => {
                self.line = self.last_line;
                SyntaxError::End(what.to_owned())
            }
        }
    }

    fn expect(&mut self, mark: char) -> Result<(), SyntaxError> {
        if self.take(mark) {
            return Ok(());
        }
        Err(self.expected(&format!("{mark:?}")))
    }

    fn word(&mut self, what: &str) -> Result<String, SyntaxError> {
        match self.tokens.peek() {
            Some((_, Token::Word(_) | Token::Text(_))) => match self.next() {
                Some(Token::Word(text) | Token::Text(text)) => Ok(text),
                _ => unreachable!("it was seen"),
            },
            _ => Err(self.expected(what)),
        }
    }

    /// `(NAME)`
    pub(super) fn name(&mut self) -> Result<String, SyntaxError> {
        self.expect('(')?;
        let name = self.word("a name")?;
        self.expect(')')?;
        Ok(name)
    }

    /// Names with commas between them, up to the mark that ends them.
    fn names(&mut self, end: char) -> Result<Vec<String>, SyntaxError> {
        let mut names = Vec::new();
        while !self.take(end) {
            if !names.is_empty() {
                self.expect(',')?;
            }
            names.push(self.word("a name")?);
        }
        Ok(names)
    }

    /// `(NAME) { MEMBER, … }`, also without members.
    pub(super) fn members(&mut self) -> Result<(String, HashSet<String>), SyntaxError> {
        let name = self.name()?;
        let members = if self.take('{') {
            self.names('}')?
        } else {
            Vec::new()
        };
        Ok((name, members.into_iter().collect()))
    }

    /// `{ RULE(…) … INPA(…) … }`, also nothing.
    pub(super) fn rules(&mut self) -> Result<Vec<Rule>, SyntaxError> {
        let mut rules = Vec::new();
        if !self.take('{') {
            return Ok(rules);
        }
        while !self.take('}') {
            let keyword = self.word("RULE, INP or '}'")?;
            match keyword.as_str() {
                "RULE" => rules.push(self.rule()?),
                // Alone it changes nothing; a CALC that uses it is noticed.
                input if input.len() == 4 && input.starts_with("INP") => {
                    self.name()?;
                }
                other => {
                    let found = format!("{other:?}");
                    return Err(SyntaxError::expected("RULE, INP or '}'", found));
                }
            }
        }
        Ok(rules)
    }

    /// `(LEVEL, ACCESS[, TRAPWRITE]) { UAG(…) … }`, with or without the braces.
    fn rule(&mut self) -> Result<Rule, SyntaxError> {
        let unexpected = |what, found: &str| SyntaxError::expected(what, format!("{found:?}"));
        let line = self.line;
        self.expect('(')?;
        let level = match self.word("a level")?.as_str() {
            "0" => 0,
            "1" => 1,
            other => return Err(unexpected("a level of 0 or 1", other)),
        };
        self.expect(',')?;
        let mut unsupported = None;
        let grants = match self.word("an access")?.as_str() {
            // For a gateway of pvAccess UNCACHED is a get from the IOC, which the relay doesn't do.
            "NONE" | "UNCACHED" => Grants::Nothing,
            "READ" => Grants::Read,
            "WRITE" => Grants::Write,
            access @ ("PUT" | "RPC") => {
                let what = format!("{access}: the relay knows READ and WRITE only");
                let line = self.line;
                unsupported = Some(Unsupported { line, what });
                Grants::Nothing
            }
            other => return Err(unexpected("NONE, READ or WRITE", other)),
        };
        let mut trap = false;
        if self.take(',') {
            trap = match self.word("TRAPWRITE")?.as_str() {
                "TRAPWRITE" => true,
                "NOTRAPWRITE" => false,
                other => return Err(unexpected("TRAPWRITE or NOTRAPWRITE", other)),
            };
        }
        self.expect(')')?;
        let (users, condition) = self.conditions()?;
        Ok(Rule {
            line,
            level,
            grants,
            users,
            unsupported: unsupported.or(condition),
            trap,
        })
    }

    /// `{ UAG(…) … }`: the user groups, and the first condition that the relay doesn't support.
    fn conditions(&mut self) -> Result<(Vec<String>, Option<Unsupported>), SyntaxError> {
        let (mut users, mut unsupported) = (Vec::new(), None);
        if !self.take('{') {
            return Ok((users, unsupported));
        }
        while !self.take('}') {
            let keyword = self.word("UAG, HAG, CALC or '}'")?;
            let line = self.line;
            self.expect('(')?;
            let names = self.names(')')?;
            let what = match keyword.as_str() {
                "UAG" if !users.is_empty() => return Err(SyntaxError::SecondUsers),
                "UAG" if names.is_empty() => {
                    return Err(SyntaxError::expected("a name in UAG()", "nothing"));
                }
                "UAG" => {
                    users = names;
                    continue;
                }
                "HAG" => "the relay doesn't know its users' hosts",
                "CALC" => "the relay doesn't monitor the PVs of its INP fields",
                _ => "the relay doesn't support this condition",
            };
            let what = format!("{keyword}({}): {what}", names.join(", "));
            unsupported.get_or_insert(Unsupported { line, what });
        }
        Ok((users, unsupported))
    }
}
