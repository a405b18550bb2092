//! Reads the syntax of access security files (`.acf`).

use std::collections::HashSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use super::{Grants, Rule};

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
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, (usize, String)> {
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
                let end = end.ok_or_else(|| (number, "a text without its second \"".to_owned()))?;
                if rest[1..=end].contains('\\') {
                    let why = "IOCs take \\ within quotes for an escape, some gateways for a character; \
                               leave it out";
                    return Err((number, why.to_owned()));
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

    fn expected(&mut self, what: &str) -> String {
        match self.next() {
            Some(token) => format!("expected {what}, not {token}"),
            None => {
                self.line = self.last_line;
                format!("expected {what}, but the file ends")
            }
        }
    }

    fn expect(&mut self, mark: char) -> Result<(), String> {
        if self.take(mark) {
            return Ok(());
        }
        Err(self.expected(&format!("{mark:?}")))
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        match self.tokens.peek() {
            Some((_, Token::Word(_) | Token::Text(_))) => match self.next() {
                Some(Token::Word(text) | Token::Text(text)) => Ok(text),
                _ => unreachable!("it was seen"),
            },
            _ => Err(self.expected(what)),
        }
    }

    /// `(NAME)`
    pub(super) fn name(&mut self) -> Result<String, String> {
        self.expect('(')?;
        let name = self.word("a name")?;
        self.expect(')')?;
        Ok(name)
    }

    /// Names with commas between them, up to the mark that ends them.
    fn names(&mut self, end: char) -> Result<Vec<String>, String> {
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
    pub(super) fn members(&mut self) -> Result<(String, HashSet<String>), String> {
        let name = self.name()?;
        let members = if self.take('{') {
            self.names('}')?
        } else {
            Vec::new()
        };
        Ok((name, members.into_iter().collect()))
    }

    /// `{ RULE(…) … INPA(…) … }`, also nothing.
    pub(super) fn rules(&mut self) -> Result<Vec<Rule>, String> {
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
                other => return Err(format!("expected RULE, INP or '}}', not {other:?}")),
            }
        }
        Ok(rules)
    }

    /// `(LEVEL, ACCESS) { UAG(…) … }`, the braces also not.
    fn rule(&mut self) -> Result<Rule, String> {
        let line = self.line;
        self.expect('(')?;
        let level = match self.word("a level")?.as_str() {
            "0" => 0,
            "1" => 1,
            other => return Err(format!("expected a level of 0 or 1, not {other:?}")),
        };
        self.expect(',')?;
        let mut beyond = None;
        let grants = match self.word("an access")?.as_str() {
            // To a gateway of pvAccess UNCACHED is a get that goes to the IOC: there is none here.
            "NONE" | "UNCACHED" => Grants::Nothing,
            "READ" => Grants::Read,
            "WRITE" => Grants::Write,
            access @ ("PUT" | "RPC") => {
                let what = format!("{access}: a relay knows READ and WRITE only");
                beyond = Some((self.line, what));
                Grants::Nothing
            }
            other => return Err(format!("expected NONE, READ or WRITE, not {other:?}")),
        };
        let mut trap = false;
        if self.take(',') {
            trap = match self.word("TRAPWRITE")?.as_str() {
                "TRAPWRITE" => true,
                "NOTRAPWRITE" => false,
                other => return Err(format!("expected TRAPWRITE or NOTRAPWRITE, not {other:?}")),
            };
        }
        self.expect(')')?;
        let mut users = Vec::new();
        if self.take('{') {
            while !self.take('}') {
                let keyword = self.word("UAG, HAG, CALC or '}'")?;
                let keyword_line = self.line;
                self.expect('(')?;
                let names = self.names(')')?;
                let what = match keyword.as_str() {
                    "UAG" if !users.is_empty() => {
                        return Err("a second UAG in a RULE; write UAG(a, b)".into());
                    }
                    "UAG" if names.is_empty() => return Err("expected a name in UAG()".into()),
                    "UAG" => {
                        users = names;
                        continue;
                    }
                    "HAG" => "a relay doesn't know on which host its user sits",
                    "CALC" => "a relay doesn't watch the PVs that it is computed of",
                    _ => "a relay doesn't know this condition",
                };
                let what = format!("{keyword}({}): {what}", names.join(", "));
                beyond.get_or_insert((keyword_line, what));
            }
        }
        Ok(Rule {
            line,
            level,
            grants,
            users,
            beyond,
            trap,
        })
    }
}
