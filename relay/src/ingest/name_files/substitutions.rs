//! Files of substitutions (`.substitutions`, `.subs`): which databases an IOC loads with which macros, as `msi` and
//! `dbLoadTemplate` read them.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// Macros in the values of macros are expanded to this depth; a circle of macros stays unexpanded.
const MAX_DEPTH: usize = 8;

/// Longest name with expanded macros, in bytes: longer ones are no names.
const MAX_EXPANDED: usize = 4 << 10;

/// A string, a brace, another separator or a word. A comment stands alone.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    let text = r##"#[^\n]*|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([{}=,])|((?:\$[({][^)}]*[)}]|[^\s{}=,"'#])+)"##;
    Regex::new(text).expect("a regular expression")
});

/// `$(NAME)` or `${NAME}`, without or with a default.
static MACRO: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\$(?:\(([^(){}=,]+)(?:=([^(){}]*))?\)|\{([^(){}=,]+)(?:=([^(){}]*))?\})")
        .expect("a regular expression")
});

/// The values of macros by their names.
pub(super) type Macros = HashMap<String, String>;

/// A database that is loaded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The database's file, as the substitutions name it.
    pub(super) file: String,
    pub(super) macros: Macros,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// One of `{`, `}`, `=` and `,`.
    Mark(char),
    Text(String),
}

/// What can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}")]
pub(super) struct SubstitutionsError {
    line: usize,
    expected: &'static str,
}

/// Reads tokens in their order.
struct Reader {
    /// With their lines, the next one last.
    tokens: Vec<(usize, Token)>,
    last_line: usize,
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let (mut line, mut at) = (1, 0);
    let found = TOKENS.captures_iter(text).filter_map(|found| {
        let whole = found.get(0)?;
        line += text[at..whole.start()].matches('\n').count();
        let token_line = line;
        line += whole.as_str().matches('\n').count();
        at = whole.end();
        let token = match (found.get(3), found.get(1).or_else(|| found.get(2))) {
            (Some(mark), _) => Token::Mark(mark.as_str().chars().next()?),
            (_, Some(text)) => Token::Text(text.as_str().to_owned()),
            _ => Token::Text(found.get(4)?.as_str().to_owned()),
        };
        Some((token_line, token))
    });
    found.collect()
}

impl Reader {
    fn new(text: &str) -> Self {
        let mut tokens = tokens(text);
        tokens.reverse();
        Self {
            tokens,
            last_line: 1,
        }
    }

    fn next(&mut self) -> Option<Token> {
        let (line, token) = self.tokens.pop()?;
        self.last_line = line;
        Some(token)
    }

    /// Takes the next token if it is this mark.
    fn takes(&mut self, mark: char) -> bool {
        let is_it = self
            .tokens
            .last()
            .is_some_and(|(_, token)| *token == Token::Mark(mark));
        if is_it {
            self.next();
        }
        is_it
    }

    fn refuse<T>(&self, expected: &'static str) -> Result<T, SubstitutionsError> {
        let line = self.last_line;
        Err(SubstitutionsError { line, expected })
    }

    fn open(&mut self) -> Result<(), SubstitutionsError> {
        if self.takes('{') {
            return Ok(());
        }
        self.next();
        self.refuse("{")
    }

    /// The texts up to the end of a list, whose beginning was read.
    fn texts(&mut self) -> Result<Vec<String>, SubstitutionsError> {
        let mut texts = Vec::new();
        loop {
            match self.next() {
                Some(Token::Text(text)) => texts.push(text),
                Some(Token::Mark(',')) => {}
                Some(Token::Mark('}')) => return Ok(texts),
                _ => return self.refuse("a value, a comma or }"),
            }
        }
    }

    /// `NAME=VALUE` up to the end of a list, whose beginning was read.
    fn assignments(&mut self) -> Result<Vec<(String, String)>, SubstitutionsError> {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Some(Token::Mark(',')) => {}
                Some(Token::Mark('}')) => return Ok(all),
                Some(Token::Text(name)) if self.takes('=') => {
                    let is_text = matches!(self.tokens.last(), Some((_, Token::Text(_))));
                    let value = match is_text.then(|| self.next()).flatten() {
                        Some(Token::Text(value)) => value,
                        _ => String::new(),
                    };
                    all.push((name, value));
                }
                _ => return self.refuse("NAME=VALUE, a comma or }"),
            }
        }
    }

    /// The rest of `file NAME { … }` after the name.
    fn file(
        &mut self,
        file: &str,
        global: &Macros,
        all: &mut Vec<Loaded>,
    ) -> Result<(), SubstitutionsError> {
        self.open()?;
        let mut global = global.clone();
        let mut names: Option<Vec<String>> = None;
        loop {
            match self.next() {
                Some(Token::Mark('}')) => return Ok(()),
                Some(Token::Text(word)) if word == "pattern" => {
                    self.open()?;
                    names = Some(self.texts()?);
                }
                Some(Token::Text(word)) if word == "global" => {
                    self.open()?;
                    global.extend(self.assignments()?);
                }
                Some(Token::Mark('{')) => {
                    let mut macros = global.clone();
                    match &names {
                        Some(names) => macros.extend(names.iter().cloned().zip(self.texts()?)),
                        None => macros.extend(self.assignments()?),
                    }
                    all.push(Loaded {
                        file: file.to_owned(),
                        macros,
                    });
                }
                _ => return self.refuse("pattern, global, { or }"),
            }
        }
    }
}

/// The databases that a text of substitutions loads.
///
/// # Errors
/// The line that can't be read.
pub(super) fn read(text: &str) -> Result<Vec<Loaded>, SubstitutionsError> {
    let mut reader = Reader::new(text);
    let (mut global, mut all) = (Macros::new(), Vec::new());
    while let Some(token) = reader.next() {
        match token {
            Token::Text(word) if word == "global" => {
                reader.open()?;
                global.extend(reader.assignments()?);
            }
            Token::Text(word) if word == "file" => match reader.next() {
                Some(Token::Text(file)) => reader.file(&file, &global, &mut all)?,
                _ => return reader.refuse("the name of a database after file"),
            },
            _ => return reader.refuse("file or global"),
        }
    }
    Ok(all)
}

/// A text with its macros expanded; those that have no value stay as they are.
pub(super) fn expanded(text: &str, macros: &Macros) -> String {
    let mut text = text.to_owned();
    for _ in 0..MAX_DEPTH {
        let next = MACRO.replace_all(&text, |found: &regex::Captures<'_>| {
            let group = |one: usize, other: usize| found.get(one).or_else(|| found.get(other));
            let name = group(1, 3).map_or("", |name| name.as_str());
            let default = group(2, 4).map(|default| default.as_str());
            let value = macros.get(name.trim()).map(String::as_str);
            value.or(default).unwrap_or(&found[0]).to_owned()
        });
        if next == text || next.len() > MAX_EXPANDED {
            break;
        }
        text = next.into_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn macros(pairs: &[(&str, &str)]) -> Macros {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn patterns_assignments_and_globals_are_read() {
        let text = r#"
            # file commented.db { {A=1} }
            global { SITE=SR, "AREA"="x y" }
            file "a b.db" {
              pattern { P, "R" }   # a comment
              { "SR:", 1 }
              { 'BR:' "$(SITE),2" }
            }
            file $(TOP)/b.template
            {
              global { SITE=BR }
              { P=A:, R="" }
              { P=B:, R=, S="=" }
            }
        "#;
        let all = read(text).unwrap();
        let expected: [(&str, &[(&str, &str)]); 4] = [
            ("a b.db", &[("SITE", "SR"), ("P", "SR:"), ("R", "1")]),
            (
                "a b.db",
                &[("SITE", "SR"), ("P", "BR:"), ("R", "$(SITE),2")],
            ),
            (
                "$(TOP)/b.template",
                &[("SITE", "BR"), ("P", "A:"), ("R", "")],
            ),
            (
                "$(TOP)/b.template",
                &[("SITE", "BR"), ("P", "B:"), ("R", ""), ("S", "=")],
            ),
        ];
        let expected = expected.map(|(file, pairs)| {
            let mut macros = macros(pairs);
            macros.insert("AREA".to_owned(), "x y".to_owned());
            let file = file.to_owned();
            Loaded { file, macros }
        });
        assert_eq!(all, expected);
    }

    #[test]
    fn text_that_is_no_substitution_is_refused_with_its_line() {
        for (text, line, expected) in [
            ("\nrecord(ai, X) {}", 2, "file or global"),
            ("file", 1, "the name of a database after file"),
            ("file a.db\n{ pattern P }", 2, "{"),
            ("file a.db {\n{ P } }", 2, "NAME=VALUE, a comma or }"),
            ("file a.db { pattern { P } { A", 1, "a value, a comma or }"),
        ] {
            assert_eq!(
                read(text),
                Err(SubstitutionsError { line, expected }),
                "{text}"
            );
        }
    }

    #[test]
    fn macros_are_expanded_and_those_without_a_value_stay() {
        let macros = macros(&[("P", "SR:"), ("R", "$(P)${N=1}"), ("LOOP", "$(LOOP)x")]);
        for (text, expected) in [
            ("$(P)I", "SR:I"),
            ("${R}:V", "SR:1:V"),
            ("$(P)$(M=$(P))", "SR:SR:"),
            ("$(X)$(Y=)", "$(X)"),
            ("$(", "$("),
        ] {
            assert_eq!(expanded(text, &macros), expected, "{text}");
        }
        assert!(expanded("$(LOOP)", &macros).contains("$("));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_grow(text in "[{}=,\"'#$()a \n\\\\]{0,40}", name in "[$(){}=aP]{0,20}") {
            let _ = read(&format!("file a {{ {text}"));
            let macros = macros(&[("a", "$(P)$(P)$(P)"), ("P", "$(a)$(a)$(a)")]);
            prop_assert!(expanded(&name, &macros).len() <= MAX_EXPANDED);
        }
    }
}
