//! Reads JSON to the letter, in place: numbers stay digits, and only the texts that are used are
//! decoded.

/// Maximum nesting depth.
const MAX_DEPTH: u32 = 100;

/// A value; texts and numbers as they are written.
#[derive(Debug, PartialEq)]
pub(super) enum Json<'a> {
    /// With its quotation marks.
    Text(&'a str),
    Number(&'a str),
    Boolean(bool),
    Null,
    List(Vec<Self>),
    /// Keys with their quotation marks.
    Object(Vec<(&'a str, Self)>),
}

impl Json<'_> {
    /// The last field of this name; `quoted` has its quotation marks.
    pub(super) fn field(&self, quoted: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => {
                let mut found = None;
                for (key, value) in fields {
                    if *key == quoted {
                        found = Some(value);
                    }
                }
                found
            }
            _ => None,
        }
    }
}

/// The value that is the whole text; `None` if the text is not JSON.
pub(super) fn read(text: &str) -> Option<Json<'_>> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    let value = reader.value()?;
    reader.skip_blanks();
    (reader.at == text.len()).then_some(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Takes a byte after blanks, if it is this one.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn value(&mut self) -> Option<Json<'a>> {
        self.skip_blanks();
        match self.peek() {
            b'"' => self.quoted().map(Json::Text),
            b'[' => self.list(),
            b'{' => self.object(),
            b't' => self.word("true", Json::Boolean(true)),
            b'f' => self.word("false", Json::Boolean(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Option<Json<'a>> {
        let is_next = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        is_next.then_some(value)
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let start = self.at;
        loop {
            self.at += 1;
            match self.peek() {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    match self.peek() {
                        b'u' => {
                            let digits = self.text.as_bytes().get(self.at + 1..self.at + 5)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 4;
                        }
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        _ => return None,
                    }
                }
                // Also behind the end.
                0..b' ' => return None,
                _ => {}
            }
        }
        self.at += 1;
        Some(self.since(start))
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Json<'a>> {
        let start = self.at;
        self.at += usize::from(self.peek() == b'-');
        if self.peek() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            self.digits()?;
        }
        Some(Json::Number(self.since(start)))
    }

    /// Goes one level deeper.
    fn enter(&mut self) -> Option<()> {
        self.at += 1;
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    fn list(&mut self) -> Option<Json<'a>> {
        self.enter()?;
        let mut list = Vec::new();
        if !self.take(b']') {
            loop {
                list.push(self.value()?);
                if !self.take(b',') {
                    break;
                }
            }
            self.take(b']').then_some(())?;
        }
        self.depth -= 1;
        Some(Json::List(list))
    }

    fn object(&mut self) -> Option<Json<'a>> {
        self.enter()?;
        let mut fields = Vec::new();
        if !self.take(b'}') {
            loop {
                self.skip_blanks();
                let key = (self.peek() == b'"').then(|| self.quoted()).flatten()?;
                self.take(b':').then_some(())?;
                fields.push((key, self.value()?));
                if !self.take(b',') {
                    break;
                }
            }
            self.take(b'}').then_some(())?;
        }
        self.depth -= 1;
        Some(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_that_is_nearly_json_is_not_read() {
        for text in [
            "",
            "[",
            "[1,]",
            "[1 2]",
            "[01]",
            "[.5]",
            "[1.]",
            "[1e]",
            "[+1]",
            "[a]",
            "[\"\t\"]",
            "[\"\\x\"]",
            "[\"\\u{41}\"]",
            "[\"a]",
            "[1] 2",
            "{a:1}",
            "{\"a\" 1}",
            "{\"a\":1,}",
            "[nul]",
            "[-]",
            "{\"a\":}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&"[".repeat(1_000_000)), None);
    }

    #[test]
    fn the_last_of_equal_fields_counts() {
        let json = read(" {\"a\" : 1, \"b\":[true,null], \"a\":\"\\u0041\\n\"} ").unwrap();
        assert_eq!(json.field("\"a\""), Some(&Json::Text(r#""\u0041\n""#)));
        let list = Json::List(vec![Json::Boolean(true), Json::Null]);
        assert_eq!(json.field("\"b\""), Some(&list));
    }

    proptest! {
        #[test]
        fn it_reads_what_serde_reads(text in r#"[\[\]{},:0-9eE.+\-"\\untrfals ]{0,12}"#) {
            let theirs: Result<serde_json::Value, _> = serde_json::from_str(&text);
            // Numbers beyond all doubles are no error here.
            let is_json = theirs.map_or_else(
                |error| error.to_string().starts_with("number out of range"),
                |_| true,
            );
            prop_assert_eq!(read(&text).is_some(), is_json, "{}", text);
        }
    }
}
