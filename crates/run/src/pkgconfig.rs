//! Flags of installed libraries, as pkg-config knows them.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Flags of a library by one of pkg-config's options, or what it says instead; asked once.
pub fn ask(what: &str, library: &str) -> Result<Vec<String>, String> {
    static KNOWN: Mutex<Vec<(String, Vec<String>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = format!("{what} {library}");
    if let Some((_, flags)) = known.iter().find(|(other, _)| *other == asked) {
        return Ok(flags.clone());
    }
    let ran = Command::new("pkg-config").args([what, library]).output();
    let ran = ran.map_err(|error| format!("pkg-config: {error}"))?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or("").to_string());
    }
    let flags: Vec<String> =
        String::from_utf8_lossy(&ran.stdout).split_whitespace().map(String::from).collect();
    known.push((asked, flags.clone()));
    Ok(flags)
}

/// Linker flags of OpenSSL, if generated code has ciphers and it is there: the runtime has them
/// too, only slower.
pub fn ciphers(source: &str) -> Option<Vec<String>> {
    let asks = source.contains("#include \"nf_crypto.h\"");
    asks.then(|| ask("--libs", "libcrypto").ok()).flatten()
}

/// The compiler's flag that has the runtime call what [`ciphers`] links.
pub fn ciphers_flag(source: &str) -> Option<String> {
    ciphers(source).map(|_| "-DNF_OPENSSL".to_string())
}
