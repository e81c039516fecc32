//! Workloads as text: `rate=40G,size=imix,flows=4096,zipf=1.1,burst=8,udp,poisson,seed=7`.

use std::fmt;

/// Rates of what comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bits per second on the wire, with preamble, gap and CRC: `100G`.
    Wire(f64),
    /// Frames per second: `10Mpps`.
    Frames(f64),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Wire(bits) => write!(f, "{}G", bits / 1e9),
            Rate::Frames(frames) => write!(f, "{}Mpps", frames / 1e6),
        }
    }
}

/// Frame sizes in bytes without CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    Fixed(u32),
    /// Seven of 60, four of 590 and one of 1514 (simple Internet mix).
    Imix,
    /// Any of these, evenly.
    Between(u32, u32),
    /// As the frames of the capture are.
    Capture,
}

/// When frames come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// At random, independent of each other.
    Poisson,
}

/// Synthetic traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub rate: Option<Rate>,
    pub sizes: Sizes,
    pub flows: u32,
    /// Exponent of the popularity of flows; 0 is even.
    pub zipf: f64,
    /// Frames that come together.
    pub burst: u32,
    pub arrivals: Arrivals,
    /// Protocol of plain frames, where there is no capture to take frames from.
    pub tcp: bool,
    pub seed: u64,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            rate: None,
            sizes: Sizes::Fixed(256),
            flows: 1024,
            zipf: 0.0,
            burst: 1,
            arrivals: Arrivals::Even,
            tcp: false,
            seed: 1,
        }
    }
}

/// Most flows and frames of a burst.
const MOST: u32 = 1 << 24;
/// Sizes a frame may have.
const SMALLEST: u32 = 42;
const LARGEST: u32 = 9600;

const WORDS: &str = "rate=100G|10Mpps, size=256|imix|64..1500|capture, flows=N, zipf=S, burst=N, poisson, even, udp, tcp, seed=N";

/// Reads a workload. What is not said is as in [`Spec::default`].
///
/// # Errors
/// One sentence that names the part, what is wrong with it, and what may stand there.
pub fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once('=').map_or((part, None), |(n, v)| (n.trim(), Some(v.trim())));
        match (name, value) {
            ("udp", None) => spec.tcp = false,
            ("tcp", None) => spec.tcp = true,
            ("poisson", None) => spec.arrivals = Arrivals::Poisson,
            ("even", None) => spec.arrivals = Arrivals::Even,
            ("rate", Some(value)) => spec.rate = Some(parse_rate(value)?),
            ("size", Some(value)) => spec.sizes = sizes(value)?,
            ("flows", Some(value)) => spec.flows = count(name, value)?,
            ("burst", Some(value)) => spec.burst = count(name, value)?,
            ("seed", Some(value)) => {
                let wrong = |_| {
                    format!("workload: `seed={value}`: expected a number from 0 to {}", u64::MAX)
                };
                spec.seed = value.parse().map_err(wrong)?;
            }
            ("zipf", Some(value)) => {
                let exponent = value.parse::<f64>().ok().filter(|s| (0.0..=10.0).contains(s));
                spec.zipf = exponent.ok_or_else(|| {
                    format!("workload: `zipf={value}`: expected an exponent from 0 to 10")
                })?;
            }
            ("rate" | "size" | "flows" | "burst" | "seed" | "zipf", None) => {
                return Err(format!("workload: `{name}` needs a value; there are {WORDS}"));
            }
            ("udp" | "tcp" | "poisson" | "even", Some(_)) => {
                return Err(format!("workload: `{name}` takes no value; there are {WORDS}"));
            }
            _ => return Err(format!("workload: there is no `{name}`; there are {WORDS}")),
        }
    }
    Ok(spec)
}

fn count(name: &str, value: &str) -> Result<u32, String> {
    let number = value.parse::<u32>().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("workload: `{name}={value}`: expected a number from 1 to {MOST}"))
}

fn sizes(value: &str) -> Result<Sizes, String> {
    let wrong = || {
        format!(
            "workload: `size={value}`: expected bytes without CRC from {SMALLEST} to {LARGEST}, a range as 64..1500, \
             imix, or capture"
        )
    };
    let bytes = |text: &str| text.parse::<u32>().ok().filter(|n| (SMALLEST..=LARGEST).contains(n));
    match value {
        "imix" => Ok(Sizes::Imix),
        "capture" => Ok(Sizes::Capture),
        _ => match value.split_once("..") {
            None => bytes(value).map(Sizes::Fixed).ok_or_else(wrong),
            Some((low, high)) => match (bytes(low), bytes(high)) {
                (Some(low), Some(high)) if low <= high => Ok(Sizes::Between(low, high)),
                _ => Err(wrong()),
            },
        },
    }
}

/// Reads `100G` (bits per second on the wire) or `10Mpps` (frames per second).
///
/// # Errors
/// A sentence with the text and what it should be.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let wrong = || {
        format!(
            "`{text}` is no rate: write bits per second as 100G, or frames per second as 10Mpps"
        )
    };
    let (number, frames) = match text.strip_suffix("pps") {
        Some(rest) => (rest, true),
        None => (text.strip_suffix("bit/s").unwrap_or(text), false),
    };
    let number = number.trim();
    let factor = match number.chars().next_back() {
        Some('k' | 'K') => 1e3,
        Some('M') => 1e6,
        Some('G') => 1e9,
        Some('T') => 1e12,
        _ => 1.0,
    };
    let digits = if factor > 1.0 { &number[..number.len() - 1] } else { number };
    let value = digits.trim().parse::<f64>().map_err(|_| wrong())? * factor;
    // Slower than one frame an hour, or faster than any line, is a slip of the pen.
    if !(1e-3..=1e15).contains(&value) {
        return Err(wrong());
    }
    Ok(if frames { Rate::Frames(value) } else { Rate::Wire(value) })
}

/// Reads a trace of rates: lines `seconds,rate`, times growing, rates as in [`parse_rate`] or
/// frames per second without a unit. Lines that are empty or start with `#` are skipped, as is a
/// first line of names.
///
/// # Errors
/// The line's number and what is wrong with it.
pub fn parse_rates(text: &str) -> Result<Vec<(f64, Rate)>, String> {
    let mut list: Vec<(f64, Rate)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let names = number == 0 && line.starts_with(|c: char| c.is_ascii_alphabetic());
        if line.is_empty() || line.starts_with('#') || names {
            continue;
        }
        let fail = |reason: &str| format!("line {}: `{line}`: {reason}", number + 1);
        let (time, rate) = line.split_once(',').ok_or_else(|| fail("expected `seconds,rate`"))?;
        let time: f64 = time
            .trim()
            .parse()
            .ok()
            .filter(|t: &f64| (0.0..=1e6).contains(t))
            .ok_or_else(|| fail("the time must be seconds from 0 to 1000000"))?;
        if list.last().is_some_and(|(before, _)| *before >= time) {
            return Err(fail("times must grow"));
        }
        let rate = rate.trim();
        let rate = match rate.parse::<f64>() {
            Ok(0.0) => Rate::Frames(0.0),
            Ok(_) => parse_rate(&format!("{rate}pps")).map_err(|e| fail(&e))?,
            Err(_) => parse_rate(rate).map_err(|e| fail(&e))?,
        };
        list.push((time, rate));
    }
    if list.is_empty() {
        Err("there is no line `seconds,rate` in it".to_string())
    } else {
        Ok(list)
    }
}

/// Fuzz entry: any bytes end with a workload or one sentence.
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        for error in [parse(text).err(), parse_rates(text).err()].into_iter().flatten() {
            assert!(!error.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_read() {
        let spec =
            parse("rate=100G, size=64..1500,flows=7,zipf=1.1,burst=3,tcp,poisson,seed=9").unwrap();
        let want = Spec {
            rate: Some(Rate::Wire(1e11)),
            sizes: Sizes::Between(64, 1500),
            flows: 7,
            zipf: 1.1,
            burst: 3,
            arrivals: Arrivals::Poisson,
            tcp: true,
            seed: 9,
        };
        assert_eq!(spec, want);
        assert_eq!(parse_rate("10.5Mpps"), Ok(Rate::Frames(10.5e6)));
        assert_eq!(parse_rate("40Gbit/s"), Ok(Rate::Wire(4e10)));
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        let errors = [
            "speed=3",
            "rate",
            "rate=fast",
            "size=9",
            "size=90..80",
            "flows=0",
            "tcp=1",
            "zipf=-1",
        ];
        let messages: Vec<String> = errors.iter().map(|text| parse(text).unwrap_err()).collect();
        assert_eq!(
            messages,
            [
                format!("workload: there is no `speed`; there are {WORDS}"),
                format!("workload: `rate` needs a value; there are {WORDS}"),
                "`fast` is no rate: write bits per second as 100G, or frames per second as 10Mpps".to_string(),
                "workload: `size=9`: expected bytes without CRC from 42 to 9600, a range as 64..1500, imix, or capture"
                    .to_string(),
                "workload: `size=90..80`: expected bytes without CRC from 42 to 9600, a range as 64..1500, imix, or \
                 capture"
                    .to_string(),
                "workload: `flows=0`: expected a number from 1 to 16777216".to_string(),
                format!("workload: `tcp` takes no value; there are {WORDS}"),
                "workload: `zipf=-1`: expected an exponent from 0 to 10".to_string(),
            ]
        );
    }

    #[test]
    fn traces_of_rates_are_read_and_checked() {
        let list = parse_rates("time,rate\n0,10G\n# night\n1.5,2000000\n2,0\n").unwrap();
        assert_eq!(
            list,
            [(0.0, Rate::Wire(1e10)), (1.5, Rate::Frames(2e6)), (2.0, Rate::Frames(0.0))]
        );
        assert_eq!(parse_rates("1,2\n1,3").unwrap_err(), "line 2: `1,3`: times must grow");
        assert!(parse_rates("").is_err());
    }

    /// Bytes made from the syntax's own pieces, and from noise.
    #[test]
    fn no_text_is_too_strange() {
        let pieces = [
            "rate=", "10G", ",", "..", "size=", "pps", "k", "-", "é", "\n", "1e999", "imix", "=",
            "0", "#",
        ];
        let mut random = nicforge_util::Random::new(1);
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..random.below(9) {
                text.push_str(pieces[random.below(pieces.len() as u64) as usize]);
            }
            fuzz(text.as_bytes());
            fuzz(&random.next().to_le_bytes());
        }
    }
}
