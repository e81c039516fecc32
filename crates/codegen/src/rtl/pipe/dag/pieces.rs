//! What is chosen among many ways, piece by piece.
//!
//! A loop that copies bytes is left after each of its trips, with a value that is one byte longer
//! than after the trip before. Chosen as a whole, every bit would have a term for each way, and
//! each way's value its registers. So of every wire it is kept which bits of which signals it puts
//! together, and pieces that are the same on several ways are chosen by a condition for all of
//! these.

use super::*;

/// `width` bits of a signal from bit `low` on; of none: zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    of: Option<String>,
    low: u32,
    width: u32,
}

impl Piece {
    fn text(&self) -> String {
        match &self.of {
            None => number(self.width, 0),
            Some(signal) => format!("{signal}[{}:{}]", self.low + self.width - 1, self.low),
        }
    }

    /// The part of it that lies in bits `from..to`, if it begins at bit `at`.
    fn within(&self, at: u32, from: u32, to: u32) -> Option<Piece> {
        let (first, last) = (at.max(from), (at + self.width).min(to));
        (first < last).then(|| Piece {
            of: self.of.clone(),
            low: self.low + first - at,
            width: last - first,
        })
    }
}

/// Bits `from..to` of a list of pieces, lowest first.
fn cut(pieces: &[Piece], from: u32, to: u32) -> Vec<Piece> {
    let mut at = 0;
    let mut list = Vec::new();
    for piece in pieces {
        list.extend(piece.within(at, from, to));
        at += piece.width;
    }
    list
}

/// Names of a part of a signal: the signal, its last bit and its first one.
fn part_of(text: &str) -> Option<(&str, u32, u32)> {
    let (signal, bits) = text.strip_suffix(']')?.split_once('[')?;
    let (last, first) = bits.split_once(':').unwrap_or((bits, bits));
    Some((signal, last.parse().ok()?, first.parse().ok()?))
}

impl Walk<'_, '_, '_> {
    /// What an expression puts together, lowest bits first; none if it is more than that, or not
    /// known how wide.
    fn put_together(&self, value: &str) -> Option<Vec<Piece>> {
        if let Some(list) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            if list.contains('{') {
                return None;
            }
            let parts: Option<Vec<Vec<Piece>>> =
                list.rsplit(',').map(|part| self.put_together(part.trim())).collect();
            return Some(parts?.concat());
        }
        if let Some((width, digits)) = value.split_once("'h") {
            let zero = digits.bytes().all(|digit| digit == b'0');
            return zero.then_some(vec![Piece { of: None, low: 0, width: width.parse().ok()? }]);
        }
        let (signal, bits) = match part_of(value) {
            Some((signal, last, first)) => (signal, Some((first, last + 1))),
            None => (value, None),
        };
        let Some(name) = signal.strip_prefix('‹').and_then(|rest| rest.strip_suffix('›'))
        else {
            // The name of a constant.
            let (from, to) = bits?;
            let constant = self.low.declared.iter().find(|wire| wire.name == signal)?;
            let (_, digits) = constant.value.split_once("'h")?;
            let zero = digits.bytes().all(|digit| digit == b'0');
            return zero.then_some(vec![Piece { of: None, low: 0, width: to - from }]);
        };
        if name.contains('‹') {
            return None;
        }
        match (self.dag.pieces.get(name), bits) {
            (Some(pieces), None) => Some(pieces.clone()),
            (Some(pieces), Some((from, to))) => Some(cut(pieces, from, to)),
            (None, bits) => {
                let (from, to) = bits?;
                Some(vec![Piece { of: Some(signal.to_string()), low: from, width: to - from }])
            }
        }
    }

    /// Keeps what a wire puts together.
    pub(super) fn note_pieces(&mut self, name: &str, width: u32, value: &str, delay: u32) {
        let together = if delay == 0 { self.put_together(value) } else { None };
        let whole =
            |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.width).sum::<u32>() == width;
        let itself = || vec![Piece { of: Some(mark(name)), low: 0, width }];
        self.dag.pieces.insert(name.to_string(), together.filter(whole).unwrap_or_else(itself));
    }

    /// The value of whichever of many ways was taken, where that is put together of pieces that
    /// several ways have in common; none where it is not.
    pub(super) fn taken_in_pieces(&mut self, width: u32, from: &[(Way, String)]) -> Option<String> {
        let ways: Vec<Way> = from.iter().map(|(way, _)| way.clone()).collect();
        let lists = self.conditions_apart(&ways)?;
        let all: Option<Vec<Vec<Piece>>> =
            from.iter().map(|(_, text)| self.put_together(text)).collect();
        let all = all?;
        let mut ends = BTreeSet::from([width]);
        for pieces in &all {
            let mut at = 0;
            ends.extend(pieces.iter().map(|piece| {
                at += piece.width;
                at
            }));
        }
        if ends.len() < MANY {
            return None;
        }
        let (mut low, mut parts) = (0, Vec::new());
        for end in ends {
            let here = all.iter().map(|pieces| cut(pieces, low, end).pop());
            let here: Option<Vec<Piece>> = here.collect();
            parts.push(self.piece_of(&lists, &here?));
            low = end;
        }
        parts.reverse();
        Some(format!("{{{}}}", parts.join(", ")))
    }

    /// One piece of whichever way was taken.
    fn piece_of(&mut self, lists: &[Vec<String>], pieces: &[Piece]) -> String {
        let mut groups: Vec<(&Piece, Vec<Vec<String>>)> = Vec::new();
        for (piece, list) in pieces.iter().zip(lists) {
            match groups
                .iter_mut()
                .find(|(known, _)| known.of == piece.of && known.low == piece.low)
            {
                Some((_, of)) => of.push(list.clone()),
                None => groups.push((piece, vec![list.clone()])),
            }
        }
        if let [(piece, _)] = &groups[..] {
            return piece.text();
        }
        let width = pieces[0].width;
        let mut terms = Vec::new();
        for (piece, of) in groups.into_iter().filter(|(piece, _)| piece.of.is_some()) {
            let when = self.any_of(of);
            terms.push(format!("({{{width}{{{when}}}}} & {})", piece.text()));
        }
        let delay = timing::gathered(2 * terms.len() as u32);
        self.wire("piece", width, terms.join(" | "), delay)
    }
}
