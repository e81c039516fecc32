//! Text to tokens.

use super::parse::ParseError;

/// A token and the byte offset at which it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Token<'a> {
    pub kind: Tok<'a>,
    pub at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Tok<'a> {
    Word(&'a str),
    /// A string literal, escapes resolved.
    Text(String),
    Int(u64),
    /// A number with a fraction.
    Real(f32),
    /// A value: how the text writes it (without `%`), and the source name in it.
    Value {
        key: &'a str,
        name: Option<String>,
    },
    /// One character of punctuation.
    Punct(char),
    /// `->`
    Arrow,
    End,
}

impl Tok<'_> {
    /// For `found …` in messages.
    pub fn describe(&self) -> String {
        match self {
            Tok::Word(word) => format!("`{word}`"),
            Tok::Text(_) => "a string".to_string(),
            Tok::Int(value) => format!("`{value}`"),
            Tok::Real(value) => format!("`{value}`"),
            Tok::Value { key, .. } => format!("`%{key}`"),
            Tok::Punct(c) => format!("`{c}`"),
            Tok::Arrow => "`->`".to_string(),
            Tok::End => "the end of the text".to_string(),
        }
    }
}

/// Longest text that is parsed, in bytes; keeps the memory that hostile text can cost within
/// bounds.
const MAX_TEXT: usize = 64 << 20;

/// All tokens of `text`; the last one is [`Tok::End`].
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes; αIR text may have {MAX_TEXT}", text.len());
        return Err(ParseError { line: 1, col: 1, message });
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let kind = lexer.next()?;
        let end = kind == Tok::End;
        found.push(Token { kind, at });
        if end {
            return Ok(found);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the characters that satisfy `accept`.
    fn take(&mut self, accept: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take(char::is_whitespace);
            if !self.rest().starts_with("//") {
                return;
            }
            self.take(|c| c != '\n');
        }
    }

    fn error(&self, at: usize, message: &str) -> ParseError {
        ParseError::at(self.text, at, message.to_string())
    }

    fn next(&mut self) -> Result<Tok<'a>, ParseError> {
        let Some(c) = self.peek() else { return Ok(Tok::End) };
        if is_word_start(c) {
            return Ok(Tok::Word(self.take(is_word)));
        }
        if c.is_ascii_digit() {
            return self.number();
        }
        if self.rest().starts_with("->") {
            self.at += 2;
            return Ok(Tok::Arrow);
        }
        match c {
            '"' => Ok(Tok::Text(self.string()?)),
            '%' => self.value(),
            '(' | ')' | '{' | '}' | '[' | ']' | ',' | ':' | '=' | '.' | '#' | '@' | '-' => {
                self.at += 1;
                Ok(Tok::Punct(c))
            }
            _ => Err(self.error(self.at, &format!("the character {c:?} means nothing here"))),
        }
    }

    fn number(&mut self) -> Result<Tok<'a>, ParseError> {
        let start = self.at;
        if let Some(digits) = self.rest().strip_prefix("0x") {
            let len = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            self.at += 2 + len;
            return u64::from_str_radix(&digits[..len], 16).map(Tok::Int).map_err(|_| {
                self.error(start, "expected up to 16 hexadecimal digits behind `0x`")
            });
        }
        self.take(|c| c.is_ascii_digit());
        let mut after = self.rest().chars();
        if after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
            return match self.text[start..self.at].parse() {
                Ok(value) => Ok(Tok::Real(value)),
                Err(_) => Err(self.error(start, "this is no number")),
            };
        }
        self.text[start..self.at]
            .parse()
            .map(Tok::Int)
            .map_err(|_| self.error(start, "the number does not fit 64 bits"))
    }

    /// `%name`, `%name.2`, `%"a name"`, `%3`
    fn value(&mut self) -> Result<Tok<'a>, ParseError> {
        let start = self.at;
        self.at += 1;
        let name = match self.peek() {
            Some(c) if c.is_ascii_digit() => {
                self.take(|c| c.is_ascii_digit());
                None
            }
            Some('"') => Some(self.string()?),
            Some(c) if is_word_start(c) => Some(self.take(is_word).to_string()),
            _ => return Err(self.error(start, "expected a value's name or number behind `%`")),
        };
        let mut after = self.rest().chars();
        if name.is_some()
            && after.next() == Some('.')
            && after.next().is_some_and(|c| c.is_ascii_digit())
        {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
        }
        Ok(Tok::Value { key: &self.text[start + 1..self.at], name })
    }

    fn string(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            out.push_str(self.take(|c| c != '"' && c != '\\' && c != '\n'));
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some('\\') => out.push(self.escape()?),
                _ => return Err(self.error(start, "the string has no closing `\"` on its line")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        self.at += 1;
        let c = self.peek();
        self.at += c.map_or(0, char::len_utf8);
        let scalar = match c {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some(c @ ('"' | '\\')) => Some(c),
            Some('u') if self.peek() == Some('{') => {
                self.at += 1;
                let digits = self.take(|c| c.is_ascii_hexdigit());
                let closed = self.peek() == Some('}');
                self.at += closed as usize;
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| closed);
                code.and_then(char::from_u32)
            }
            _ => None,
        };
        scalar.ok_or_else(|| {
            self.error(start, "expected one of \\n \\t \\\" \\\\ \\u{1f} in a string")
        })
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
