//! C types, read from clang's spelling of them.
//!
//! clang's JSON gives types as strings. [`parse`] reads specifiers and an abstract declarator;
//! names (typedefs, tags) are looked up by the caller, so that typedefs stay visible: `nf_be16`
//! says more than `unsigned short`.

use nicforge_ir::{StructId, Type};

/// A C type as far as the subset knows types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CType {
    Void,
    /// `network`: declared `nf_be16`, `nf_be32` or `nf_be64`.
    Int {
        bits: u8,
        signed: bool,
        network: bool,
    },
    Struct(StructId),
    Array(Box<CType>, u32),
    Packet,
    Pointer {
        to: Box<CType>,
        /// The target is `const`.
        read_only: bool,
    },
    Function {
        result: Box<CType>,
        variadic: bool,
    },
    /// Outside the subset.
    Refused(Refusal),
}

/// Why a type is outside the subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Float,
    Vla,
    /// An atomic object that is no integer: it may have other bytes than its type.
    Atomic,
    WideInt,
    /// NF_TABLE's own struct.
    Table,
    /// The struct's own declaration was refused and reported.
    Reported,
    Unknown(String),
}

impl CType {
    pub const BOOL: CType = CType::int(1, false);
    pub const INT: CType = CType::int(32, true);

    pub const fn int(bits: u8, signed: bool) -> CType {
        CType::Int { bits, signed, network: false }
    }

    /// The αIR type of an integer.
    pub fn int_type(&self) -> Option<Type> {
        match self {
            CType::Int { bits, signed, .. } => Some(Type::Int { bits: *bits, signed: *signed }),
            _ => None,
        }
    }
}

/// Looks names up while a type is read.
pub trait Names {
    /// The type a typedef stands for.
    fn typedef(&mut self, name: &str) -> Option<CType>;
    /// The struct, union or enum of a tag; `tag` as clang writes it behind the keyword.
    fn tagged(&mut self, keyword: &str, tag: &str) -> CType;
}

/// Reads a type as clang spells it.
pub fn parse(text: &str, names: &mut dyn Names) -> CType {
    let mut parser = Parser { rest: text, names };
    let (base, read_only) = parser.specifiers();
    parser.declarator(base, read_only)
}

struct Parser<'a> {
    rest: &'a str,
    names: &'a mut dyn Names,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn peek_word(&mut self) -> String {
        self.skip_space();
        self.rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    }

    fn word(&mut self) -> String {
        let word = self.peek_word();
        self.rest = &self.rest[word.len()..];
        word
    }

    /// The text up to the bracket that matches the one just read, without it.
    fn balanced(&mut self, open: char, close: char) -> String {
        let mut depth = 1;
        for (at, c) in self.rest.char_indices() {
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
                if depth == 0 {
                    let inner = self.rest[..at].to_string();
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return inner;
                }
            }
        }
        std::mem::take(&mut self.rest).to_string()
    }

    /// A tag, which clang writes as a name, a place in parentheses, or `outer::` and one of the
    /// two.
    fn tag(&mut self) -> String {
        let mut tag = String::new();
        loop {
            let word = self.word();
            tag.push_str(&word);
            // Behind a name a parenthesis starts a function's parameters.
            if word.is_empty() && self.eat("(") {
                let inner = self.balanced('(', ')');
                return format!("{tag}({inner})");
            }
            if !self.eat("::") {
                return tag;
            }
            tag.push_str("::");
        }
    }

    fn specifiers(&mut self) -> (CType, bool) {
        let mut read_only = false;
        let (mut signed, mut longs, mut base) = (None, 0, None::<CType>);
        loop {
            let word = self.peek_word();
            match word.as_str() {
                "const" => read_only = true,
                // Handlers run one at a time.
                "volatile" | "restrict" | "__restrict" => {}
                "_Atomic" => {
                    self.word();
                    self.eat("(");
                    let of = self.balanced('(', ')');
                    base = Some(match parse(&of, self.names) {
                        ty @ (CType::Int { .. } | CType::Refused(_)) => ty,
                        _ => CType::Refused(Refusal::Atomic),
                    });
                    continue;
                }
                "__attribute__" => {
                    self.word();
                    self.eat("(");
                    self.balanced('(', ')');
                    continue;
                }
                "signed" => signed = Some(true),
                "unsigned" => signed = Some(false),
                "long" => longs += 1,
                "short" => base = Some(CType::int(16, true)),
                "char" => base = Some(CType::int(8, true)),
                "int" => {
                    base.get_or_insert(CType::INT);
                }
                "void" => base = Some(CType::Void),
                "_Bool" | "bool" => base = Some(CType::BOOL),
                "float" | "double" | "_Float16" | "__fp16" | "__bf16" | "__float128"
                | "_Complex" => {
                    base = Some(CType::Refused(Refusal::Float));
                }
                "__int128" => base = Some(CType::Refused(Refusal::WideInt)),
                "struct" | "union" | "enum" => {
                    self.word();
                    let tag = self.tag();
                    base = Some(self.names.tagged(&word, &tag));
                    continue;
                }
                "" => break,
                _ if base.is_none() && signed.is_none() && longs == 0 => {
                    let unknown = || CType::Refused(Refusal::Unknown(word.clone()));
                    base = Some(self.names.typedef(&word).unwrap_or_else(unknown));
                }
                _ => break,
            }
            self.word();
        }
        let base = match (base, longs) {
            (Some(CType::Refused(r)), _) => CType::Refused(r),
            (_, 1..) => CType::int(64, signed.unwrap_or(true)),
            (Some(CType::Int { bits, .. }), _) if signed.is_some() => {
                CType::int(bits, signed == Some(true))
            }
            (Some(base), _) => base,
            (None, _) if signed.is_some() => CType::int(32, signed == Some(true)),
            (None, _) => CType::Refused(Refusal::Unknown(self.rest.trim().to_string())),
        };
        (base, read_only)
    }

    fn declarator(&mut self, mut base: CType, mut read_only: bool) -> CType {
        while self.eat("*") {
            base = match base {
                CType::Packet => CType::Pointer { to: Box::new(CType::Packet), read_only },
                to => CType::Pointer { to: Box::new(to), read_only },
            };
            read_only = false;
            loop {
                match self.peek_word().as_str() {
                    "const" => read_only = true,
                    "volatile" | "restrict" | "__restrict" => {}
                    _ => break,
                }
                self.word();
            }
        }
        self.skip_space();
        let nested = self.rest.starts_with("(*").then(|| {
            self.eat("(");
            self.balanced('(', ')')
        });
        base = self.suffixes(base);
        match nested {
            Some(inner) => Parser { rest: &inner, names: self.names }.declarator(base, read_only),
            None => base,
        }
    }

    fn suffixes(&mut self, base: CType) -> CType {
        if self.eat("[") {
            let length = self.balanced('[', ']');
            let element = self.suffixes(base);
            return match (length.trim().parse(), element) {
                (_, CType::Refused(r)) => CType::Refused(r),
                (Ok(length), element) => CType::Array(Box::new(element), length),
                (Err(_), _) => CType::Refused(Refusal::Vla),
            };
        }
        if self.eat("(") {
            let parameters = self.balanced('(', ')');
            let variadic = parameters.trim_end().ends_with("...");
            return CType::Function { result: Box::new(base), variadic };
        }
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;
    impl Names for Known {
        fn typedef(&mut self, name: &str) -> Option<CType> {
            match name {
                "nf_be16" => Some(CType::Int { bits: 16, signed: false, network: true }),
                "nf_pkt" => Some(CType::Packet),
                "uint8_t" => Some(CType::int(8, false)),
                _ => None,
            }
        }
        fn tagged(&mut self, keyword: &str, tag: &str) -> CType {
            match (keyword, tag) {
                (
                    "struct",
                    "s" | "(unnamed struct at a b.c:5:1)" | "T::(anonymous at a.c:3:25)",
                ) => CType::Struct(cranelift_entity::EntityRef::new(0)),
                _ => CType::Refused(Refusal::Unknown(tag.to_string())),
            }
        }
    }

    fn read(text: &str) -> CType {
        parse(text, &mut Known)
    }

    #[test]
    fn integers() {
        for (text, bits, signed) in [
            ("int", 32, true),
            ("unsigned int", 32, false),
            ("unsigned", 32, false),
            ("char", 8, true),
            ("signed char", 8, true),
            ("const unsigned char", 8, false),
            ("short", 16, true),
            ("unsigned short", 16, false),
            ("long", 64, true),
            ("unsigned long long", 64, false),
            ("uint8_t", 8, false),
        ] {
            assert_eq!(read(text), CType::int(bits, signed), "{text}");
        }
        assert_eq!(read("_Bool"), CType::BOOL);
        assert_eq!(read("const nf_be16"), CType::Int { bits: 16, signed: false, network: true });
    }

    #[test]
    fn declarators() {
        let s = || CType::Struct(cranelift_entity::EntityRef::new(0));
        assert_eq!(
            read("char (*)[1024]"),
            CType::Pointer {
                to: Box::new(CType::Array(Box::new(CType::int(8, true)), 1024)),
                read_only: false
            }
        );
        let inner = CType::Array(Box::new(CType::int(8, false)), 3);
        assert_eq!(read("uint8_t[2][3]"), CType::Array(Box::new(inner), 2));
        assert_eq!(read("const struct s *"), CType::Pointer { to: Box::new(s()), read_only: true });
        assert_eq!(read("struct (unnamed struct at a b.c:5:1)"), s());
        assert_eq!(read("struct T::(anonymous at a.c:3:25)[4]"), CType::Array(Box::new(s()), 4));
        assert!(matches!(read("void (nf_pkt, ...)"), CType::Function { variadic: true, .. }));
        assert!(
            matches!(read("int (*)(int)"), CType::Pointer { to, .. } if matches!(*to, CType::Function { .. }))
        );
        assert_eq!(read("nf_pkt"), CType::Packet);
        assert!(
            matches!(read("struct s (struct s)"), CType::Function { result, .. } if *result == s())
        );
    }

    #[test]
    fn qualifiers_say_nothing() {
        for text in ["volatile int", "_Atomic(int)", "const volatile _Atomic(int)"] {
            assert_eq!(read(text), CType::INT, "{text}");
        }
        assert_eq!(read("volatile int *volatile"), read("int *"));
    }

    #[test]
    fn refusals() {
        for (text, why) in [
            ("double", Refusal::Float),
            ("long double", Refusal::Float),
            ("unsigned __int128", Refusal::WideInt),
            ("_Atomic(struct s)", Refusal::Atomic),
            ("int[n]", Refusal::Vla),
            ("union u", Refusal::Unknown("u".into())),
            ("mystery", Refusal::Unknown("mystery".into())),
        ] {
            assert_eq!(read(text), CType::Refused(why), "{text}");
        }
    }
}
