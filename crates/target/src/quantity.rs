//! Numbers with units, as spec files write them: `"800 MHz"`, `"4 KiB"`, `"40 Gbit/s"`, `"90 ns"`.
//!
//! A number without its unit, or with the unit of something else, is refused where it stands.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A unit of measure: its spellings and their factors to the base unit.
pub trait Measure: Copy + 'static {
    const WHAT: &'static str;
    const UNITS: &'static [(&'static str, f64)];
}

/// A number in the base unit of what it measures.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Quantity<M: Measure> {
    pub value: f64,
    measure: M,
}

macro_rules! measures {
    ($($(#[$doc:meta])* $name:ident $tag:ident $what:literal [$($unit:literal = $factor:expr),*];)*) => {$(
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $tag;
        impl Measure for $tag {
            const WHAT: &'static str = $what;
            const UNITS: &'static [(&'static str, f64)] = &[$(($unit, $factor)),*];
        }
        $(#[$doc])*
        pub type $name = Quantity<$tag>;
        impl $name {
            pub const fn of(value: f64) -> $name {
                Quantity { value, measure: $tag }
            }
        }
    )*};
}

measures! {
    /// Clock, in cycles per second.
    Frequency FrequencyTag "a frequency" ["MHz" = 1e6, "GHz" = 1e9, "kHz" = 1e3, "Hz" = 1.0];
    /// Memory size, in bytes.
    Size SizeTag "a size" ["KiB" = 1024.0, "MiB" = 1048576.0, "GiB" = 1073741824.0, "B" = 1.0];
    /// Time, in nanoseconds.
    Time TimeTag "a time" ["ns" = 1.0, "us" = 1e3, "ms" = 1e6, "s" = 1e9];
    /// Line rate, in bits per second.
    BitRate BitRateTag "a bit rate" ["Gbit/s" = 1e9, "Mbit/s" = 1e6, "Tbit/s" = 1e12, "kbit/s" = 1e3];
    /// Operations or packets per second.
    Rate RateTag "a rate" ["M/s" = 1e6, "Mpps" = 1e6, "k/s" = 1e3, "G/s" = 1e9, "/s" = 1.0, "kpps" = 1e3, "pps" = 1.0];
    /// Power, in watts.
    Power PowerTag "a power" ["W" = 1.0, "mW" = 1e-3];
}

impl<M: Measure> Quantity<M> {
    /// Reads `text`; the error says which units there are.
    pub fn parse(text: &str) -> Result<Quantity<M>, String>
    where
        M: Default,
    {
        let units = || M::UNITS.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ");
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let value: Option<f64> = number.replace('_', "").parse().ok();
        let factor =
            M::UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, factor)| *factor);
        match (value, factor) {
            (Some(value), Some(factor)) if value.is_finite() => {
                Ok(Quantity { value: value * factor, measure: M::default() })
            }
            (Some(_), None) => {
                Err(format!("`{text}` is not {}: its unit must be one of {}", M::WHAT, units()))
            }
            _ => Err(format!("`{text}` is not {}: write a number and one of {}", M::WHAT, units())),
        }
    }
}

impl<M: Measure> fmt::Display for Quantity<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The largest unit of which there is at least one; the list's first unit is the usual one.
        let fitting = M::UNITS.iter().filter(|(_, factor)| self.value >= *factor);
        let smallest = || M::UNITS.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let chosen = fitting.fold(None::<&(&str, f64)>, |best, unit| match best {
            Some(best) if best.1 >= unit.1 => Some(best),
            _ => Some(unit),
        });
        let Some((unit, factor)) = chosen.or_else(smallest) else { return Ok(()) };
        let number = self.value / factor;
        let digits = if number.fract().abs() < 5e-4 {
            0
        } else if number < 10.0 {
            2
        } else {
            1
        };
        write!(f, "{number:.digits$} {unit}")
    }
}

impl<M: Measure> fmt::Debug for Quantity<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de, M: Measure + Default> Deserialize<'de> for Quantity<M> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text<M>(M);
        impl<M: Measure + Default> Visitor<'_> for Text<M> {
            type Value = Quantity<M>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let units: Vec<&str> = M::UNITS.iter().map(|(unit, _)| *unit).collect();
                write!(f, "{} as text, a number and one of {}", M::WHAT, units.join(", "))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity<M>, E> {
                Quantity::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Text(M::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_shown() {
        assert_eq!(Frequency::parse("800 MHz").unwrap().value, 8e8);
        assert_eq!(Size::parse("4KiB").unwrap().value, 4096.0);
        assert_eq!(BitRate::parse("40 Gbit/s").unwrap().to_string(), "40 Gbit/s");
        assert_eq!(Rate::parse("197.4 M/s").unwrap().to_string(), "197.4 M/s");
        assert_eq!(Time::parse("0.5 ns").unwrap().to_string(), "0.50 ns");
    }

    #[test]
    fn foreign_units_are_refused_with_the_right_ones() {
        let error = Frequency::parse("4 KiB").unwrap_err();
        assert_eq!(error, "`4 KiB` is not a frequency: its unit must be one of MHz, GHz, kHz, Hz");
        assert!(Size::parse("many").is_err());
        assert!(Time::parse("3").is_err());
    }
}
