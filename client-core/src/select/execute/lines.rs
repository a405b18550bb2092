//! Reads the lines of a plan, byte by byte: the standard library's searches in text would add
//! several kilobytes to a browser's module.

/// The lines of a plan.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a>(&'a [u8]);

/// One line: a field, or the end of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line<'a> {
    sign: u8,
    pub(super) key: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) mask: u32,
    /// A JSON object, or empty.
    pub(super) arguments: &'a [u8],
}

/// Takes the bytes up to an end, which is taken too, or all.
pub(crate) fn take<'a>(from: &mut &'a [u8], end: u8) -> &'a [u8] {
    let at = from.iter().position(|byte| *byte == end);
    let (taken, rest) = from.split_at(at.unwrap_or(from.len()));
    *from = rest.get(1..).unwrap_or_default();
    taken
}

/// Takes the bytes up to a blank, which is taken too, or up to the end of the line.
fn word<'a>(from: &mut &'a [u8]) -> &'a [u8] {
    let at = from.iter().position(|byte| *byte <= b' ');
    let at = at.unwrap_or(from.len());
    let is_blank = from.get(at) == Some(&b' ');
    let (word, rest) = from.split_at(at);
    *from = rest.get(usize::from(is_blank)..).unwrap_or_default();
    word
}

/// The decimal number at the start of some bytes.
pub(crate) fn number(bytes: &[u8]) -> u32 {
    let mut number = 0_u32;
    for byte in bytes {
        if !byte.is_ascii_digit() {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
    }
    number
}

impl<'a> Lines<'a> {
    pub(super) const fn new(plan: &'a [u8]) -> Self {
        Self(plan)
    }

    /// The next line; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<Line<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let rest = &mut self.0;
        let sign = word(rest).first().copied().unwrap_or(0);
        Some(Line {
            sign,
            key: word(rest),
            name: word(rest),
            mask: number(word(rest)),
            arguments: take(rest, b'\n'),
        })
    }

    /// Takes the lines up to the end of an object.
    pub(super) fn skip_object(&mut self) -> &'a [u8] {
        let all = self.0;
        let mut depth = 1;
        while depth > 0 {
            match self.next().map(|line| line.sign) {
                Some(b'{') => depth += 1,
                Some(b'=') => {}
                Some(_) => depth -= 1,
                None => break,
            }
        }
        all.get(..all.len() - self.0.len()).unwrap_or_default()
    }
}

impl<'a> Line<'a> {
    /// Whether it is a field, not the end of an object.
    pub(super) fn is_field(&self) -> bool {
        self.is_object() || self.sign == b'='
    }

    /// Whether lines of fields follow.
    pub(super) fn is_object(&self) -> bool {
        self.sign == b'{'
    }

    /// The field's name.
    pub(super) fn name_text(&self) -> String {
        self.name.iter().copied().map(char::from).collect()
    }

    /// The name of the type that `__typename` reads.
    pub(super) fn type_name(&self) -> Option<&'a [u8]> {
        let mut name = self.name;
        let before = take(&mut name, b':');
        (before.len() < self.name.len()).then_some(name)
    }

    /// The number in the arguments `{"length":10}`; 0 without one, and for a negative one.
    pub(super) fn length(arguments: &[u8]) -> u32 {
        let mut rest = arguments;
        take(&mut rest, b':');
        number(rest)
    }
}
