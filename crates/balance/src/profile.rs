//! What a function costs on the NIC and on the host: the file that `profile` writes and simulator,
//! planner and daemon read.
//!
//! ```toml
//! function = "NAT"
//! source = "where the numbers come from"
//! packet_bytes = 1500        # on the wire: frame, CRC, preamble and gap
//! threshold_gbps = 40.3      # what the published system keeps on the NIC
//! [nic]
//! gbps = 42.4                # capacity of all queues together
//! queues = 8
//! ring = 146                 # packets a queue holds
//! base_us = 11.1             # latency without queueing and service
//! cv = 0.36                  # deviation of service times over their mean
//! [host]
//! # the same
//! [power]
//! idle_watts = 199.9         # the server with its NIC, nothing running
//! nic_watts = 1.0            # more when the NIC's processor works all the time
//! host_watts = 76.0          # more when the host is awake
//! ```

use serde::{Deserialize, Serialize};

/// A side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Capacity of all queues together, Gbit/s on the wire at `packet_bytes`.
    pub gbps: f64,
    pub queues: u32,
    /// Packets a queue holds.
    pub ring: u32,
    /// Latency without queueing and service, µs.
    pub base_us: f64,
    /// Deviation of service times over their mean.
    pub cv: f64,
    /// p99 that was measured at half the capacity, µs; 0 if it was not.
    #[serde(default)]
    pub measured_p99_us: f64,
}

/// Power, watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// The server with its NIC, nothing running.
    pub idle_watts: f64,
    /// More when the NIC's processor works all the time.
    pub nic_watts: f64,
    /// More when the host is awake.
    pub host_watts: f64,
}

/// A function on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub function: String,
    pub source: String,
    /// Mean size on the wire: frame, CRC, preamble and gap.
    pub packet_bytes: u32,
    /// What the published system keeps on the NIC, Gbit/s; 0 if it says nothing.
    #[serde(default)]
    pub threshold_gbps: f64,
    pub nic: Side,
    pub host: Side,
    pub power: Power,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("{place}: {message}")]
    Syntax { place: String, message: String },
    #[error("{place}: `{field}` is {value}; {rule}")]
    Range { place: String, field: String, value: String, rule: &'static str },
}

impl Profile {
    /// Reads a profile; `place` is what messages call it.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] with line and column, [`ProfileError::Range`] for numbers that mean
    /// nothing.
    pub fn parse(place: &str, text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            ProfileError::Syntax {
                place: format!("{place}:{line}"),
                message: error.message().to_string(),
            }
        })?;
        profile.check(place)?;
        Ok(profile)
    }

    fn check(&self, place: &str) -> Result<(), ProfileError> {
        let within = |field: String, value: f64, least: f64, most: f64, rule: &'static str| {
            let place = place.to_string();
            if value >= least && value <= most {
                return Ok(());
            }
            Err(ProfileError::Range { place, field, value: value.to_string(), rule })
        };
        for (name, side) in [("nic", &self.nic), ("host", &self.host)] {
            let field = |field: &str| format!("{name}.{field}");
            within(
                field("gbps"),
                side.gbps,
                1e-6,
                1e5,
                "a capacity is above 0 and at most 100000 Gbit/s",
            )?;
            within(
                field("queues"),
                side.queues.into(),
                1.0,
                1024.0,
                "a side has 1 to 1024 queues",
            )?;
            within(
                field("ring"),
                side.ring.into(),
                1.0,
                1e6,
                "a queue holds 1 to 1000000 packets",
            )?;
            within(field("base_us"), side.base_us, 0.0, 1e6, "a latency is 0 to 1000000 µs")?;
            within(field("cv"), side.cv, 0.0, 4.0, "a coefficient of variation is 0 to 4")?;
            let measured = side.measured_p99_us;
            within(field("measured_p99_us"), measured, 0.0, 1e9, "a latency is not negative")?;
        }
        let power = &self.power;
        for (field, watts) in [
            ("power.idle_watts", power.idle_watts),
            ("power.nic_watts", power.nic_watts),
            ("power.host_watts", power.host_watts),
        ] {
            within(field.to_string(), watts, 0.0, 1e5, "power is 0 to 100000 W")?;
        }
        within(
            "packet_bytes".to_string(),
            self.packet_bytes.into(),
            84.0,
            16384.0,
            "a packet takes 84 to 16384 bytes on the wire",
        )?;
        within(
            "threshold_gbps".to_string(),
            self.threshold_gbps,
            0.0,
            1e5,
            "a threshold is 0 to 100000 Gbit/s",
        )
    }

    /// The profile as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The threshold of the published system: the profile's, or nine tenths of the NIC's capacity.
    /// Gbit/s.
    pub fn published_threshold_gbps(&self) -> f64 {
        if self.threshold_gbps > 0.0 { self.threshold_gbps } else { 0.9 * self.nic.gbps }
    }
}

/// Built-in profiles, from published figures (see docs/balance.md).
const BUILT_IN: &[(&str, &str)] = &[
    ("nat", include_str!("../profiles/nat.toml")),
    ("count", include_str!("../profiles/count.toml")),
    ("ema", include_str!("../profiles/ema.toml")),
    ("knn", include_str!("../profiles/knn.toml")),
    ("rem", include_str!("../profiles/rem.toml")),
    ("crypto", include_str!("../profiles/crypto.toml")),
    ("kvs", include_str!("../profiles/kvs.toml")),
    ("bm25", include_str!("../profiles/bm25.toml")),
    ("bayes", include_str!("../profiles/bayes.toml")),
    ("compression", include_str!("../profiles/compression.toml")),
    ("nat+rem", include_str!("../profiles/nat-rem.toml")),
    ("nat+crypto", include_str!("../profiles/nat-crypto.toml")),
    ("count+rem", include_str!("../profiles/count-rem.toml")),
    ("count+crypto", include_str!("../profiles/count-crypto.toml")),
];

/// Names of built-in profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// A built-in profile; upper and lower case are the same.
pub fn built_in(name: &str) -> Option<Result<Profile, ProfileError>> {
    let name = name.to_lowercase().replace(' ', "");
    BUILT_IN
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(known, text)| Profile::parse(known, text))
}

/// Any bytes as a profile, for the fuzzer: what is read can be written and read again.
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(profile) = Profile::parse("fuzz", text)
    {
        assert_eq!(Profile::parse("again", &profile.to_toml()).as_ref(), Ok(&profile));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_read_and_written() {
        for name in names() {
            let profile = built_in(name).unwrap().unwrap();
            assert_eq!(profile.function.to_lowercase().replace(' ', ""), name);
            fuzz(profile.to_toml().as_bytes());
        }
        assert!(built_in("NAT + REM").is_some() && built_in("none").is_none());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let text = built_in("nat").unwrap().unwrap().to_toml();
        let error = |from: &str, to: &str| {
            Profile::parse("p.toml", &text.replace(from, to)).unwrap_err().to_string()
        };
        assert!(
            error("queues = 8", "queues = 0")
                .contains("`nic.queues` is 0; a side has 1 to 1024 queues")
        );
        assert!(error("ring", "rings").starts_with("p.toml:"));
        assert!(error("idle_watts = 199.9", "idle_watts = nan").contains("power.idle_watts"));
    }
}
