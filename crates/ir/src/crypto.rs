//! Ciphers and digests over bytes of a packet: what they take and give, and what they do.
//!
//! RustCrypto does it, so that the interpreter is no second opinion of our own.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::{AeadInOut, AesGcm};
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyInit, KeyIvInit, StreamCipher};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::ops::CryptoOp;

/// Bytes of a block of AES.
const BLOCK: usize = 16;

/// An argument of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Name in messages.
    pub name: &'static str,
    /// Bytes it may have; empty if it may have any number.
    bytes: &'static [u32],
}

impl Takes {
    /// Tells whether an argument may have `size` bytes.
    pub fn fits(&self, size: u32) -> bool {
        self.bytes.is_empty() || self.bytes.contains(&size)
    }

    /// Numbers of bytes it may have, as text.
    pub fn sizes(&self) -> String {
        let texts: Vec<String> = self.bytes.iter().map(u32::to_string).collect();
        match texts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            Some((last, _)) => last.clone(),
            None => "any number of".to_string(),
        }
    }
}

const KEY: Takes = Takes { name: "the key", bytes: &[16, 24, 32] };
const IV: Takes = Takes { name: "the IV", bytes: &[16] };
const NONCE: Takes = Takes { name: "the nonce", bytes: &[12] };
const BESIDE: Takes = Takes { name: "the authenticated data", bytes: &[] };
const TAG: Takes = Takes { name: "the tag", bytes: &[16] };
const SECRET: Takes = Takes { name: "the key", bytes: &[] };

/// Runs a cipher with keys of one length; for one type at a time, since the modes' traits are
/// stated in terms of it.
macro_rules! with {
    ($aes:ty, $op:expr, $bytes:expr, $args:expr) => {{
        const SIZED: &str = "the verifier has seen sizes";
        let (op, bytes, args) = ($op, $bytes, $args);
        let gcm = || AesGcm::<$aes, U12>::new_from_slice(args[0]).expect(SIZED);
        let nonce = || args[1].try_into().expect(SIZED);
        match op {
            CryptoOp::AesCtr => {
                let mut ctr =
                    ctr::Ctr128BE::<$aes>::new_from_slices(args[0], args[1]).expect(SIZED);
                ctr.apply_keystream(bytes);
                Some(Vec::new())
            }
            CryptoOp::AesCbcEncrypt | CryptoOp::AesCbcDecrypt if bytes.len() % BLOCK != 0 => None,
            CryptoOp::AesCbcEncrypt => {
                let len = bytes.len();
                cbc::Encryptor::<$aes>::new_from_slices(args[0], args[1])
                    .expect(SIZED)
                    .encrypt_padded::<NoPadding>(bytes, len)
                    .ok()
                    .map(|_| Vec::new())
            }
            CryptoOp::AesCbcDecrypt => cbc::Decryptor::<$aes>::new_from_slices(args[0], args[1])
                .expect(SIZED)
                .decrypt_padded::<NoPadding>(bytes)
                .ok()
                .map(|_| Vec::new()),
            CryptoOp::AesGcmSeal => {
                let tag = gcm().encrypt_inout_detached(nonce(), args[2], bytes.into());
                tag.ok().map(|tag| tag.to_vec())
            }
            CryptoOp::AesGcmOpen => {
                let tag = args[3].try_into().expect(SIZED);
                let opened = gcm().decrypt_inout_detached(nonce(), args[2], bytes.into(), tag);
                opened.ok().map(|()| Vec::new())
            }
            other => unreachable!("{other:?} is no cipher"),
        }
    }};
}

impl CryptoOp {
    /// Its arguments in order.
    pub fn takes(self) -> &'static [Takes] {
        match self {
            CryptoOp::AesCtr | CryptoOp::AesCbcEncrypt | CryptoOp::AesCbcDecrypt => &[KEY, IV],
            CryptoOp::AesGcmSeal => &[KEY, NONCE, BESIDE],
            CryptoOp::AesGcmOpen => &[KEY, NONCE, BESIDE, TAG],
            CryptoOp::HmacSha256 => &[SECRET],
            CryptoOp::Sha256 | CryptoOp::Crc32 => &[],
        }
    }

    /// Bytes it gives besides the packet's.
    pub fn gives(self) -> Option<u32> {
        match self {
            CryptoOp::AesGcmSeal => Some(16),
            CryptoOp::Sha256 | CryptoOp::HmacSha256 => Some(32),
            CryptoOp::Crc32 => Some(4),
            _ => None,
        }
    }

    /// True for ciphers, which change the packet's bytes; digests only read them.
    pub fn changes_packet(self) -> bool {
        !matches!(self, CryptoOp::Sha256 | CryptoOp::HmacSha256 | CryptoOp::Crc32)
    }

    /// Runs it on bytes: what it gives, or nothing and no change if it refuses them. Arguments have
    /// the sizes that [`CryptoOp::takes`] says.
    pub(crate) fn run(self, bytes: &mut [u8], args: &[&[u8]]) -> Option<Vec<u8>> {
        match self {
            CryptoOp::Sha256 => Some(Sha256::digest(bytes).to_vec()),
            CryptoOp::Crc32 => Some(crc32fast::hash(bytes).to_le_bytes().to_vec()),
            CryptoOp::HmacSha256 => {
                let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(args[0])
                    .expect("keys of any length are taken");
                mac.update(bytes);
                Some(mac.finalize().into_bytes().to_vec())
            }
            _ => match args[0].len() {
                16 => with!(Aes128, self, bytes, args),
                24 => with!(Aes192, self, bytes, args),
                _ => with!(Aes256, self, bytes, args),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// SP 800-38A, F.5.1 and F.2.1; RFC 4231, 4.2; FIPS 180-4's "abc"; the check of CRC-32.
    #[test]
    fn published_examples_come_out() {
        let key = bytes("2b7e151628aed2a6abf7158809cf4f3c");
        let plain = bytes("6bc1bee22e409f96e93d7e117393172a");
        for (op, iv, wanted) in [
            (
                CryptoOp::AesCtr,
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                "874d6191b620e3261bef6864990db6ce",
            ),
            (
                CryptoOp::AesCbcEncrypt,
                "000102030405060708090a0b0c0d0e0f",
                "7649abac8119b246cee98e9b12e9197d",
            ),
        ] {
            let mut text = plain.clone();
            assert_eq!(op.run(&mut text, &[&key, &bytes(iv)]), Some(Vec::new()));
            assert_eq!(text, bytes(wanted), "{op:?}");
        }
        let digest = CryptoOp::Sha256.run(&mut b"abc".to_vec(), &[]);
        let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest, Some(bytes(wanted)));
        let mac = CryptoOp::HmacSha256.run(&mut b"Hi There".to_vec(), &[&[0x0b; 20]]);
        let wanted = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(mac, Some(bytes(wanted)));
        let sum = CryptoOp::Crc32.run(&mut b"123456789".to_vec(), &[]);
        assert_eq!(sum, Some(0xcbf4_3926_u32.to_le_bytes().to_vec()));
    }

    #[test]
    fn what_is_refused_stays_as_it_was() {
        let (key, nonce, mut text) = ([7; 16], [1; 12], b"a packet's bytes, and more".to_vec());
        let plain = text.clone();
        assert_eq!(CryptoOp::AesCbcEncrypt.run(&mut text, &[&key, &[0; 16]]), None);
        assert_eq!(text, plain);
        let tag = CryptoOp::AesGcmSeal.run(&mut text, &[&key, &nonce, b"head"]).expect("a tag");
        let sealed = text.clone();
        assert_eq!(CryptoOp::AesGcmOpen.run(&mut text, &[&key, &nonce, b"heat", &tag]), None);
        assert_eq!(text, sealed);
        let opened = CryptoOp::AesGcmOpen.run(&mut text, &[&key, &nonce, b"head", &tag]);
        assert_eq!((opened, text), (Some(Vec::new()), plain));
    }
}
