//! Arguments of commands to runs that go on, and of `new`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use nicforge_driver::options::Source;

/// Which program is meant.
#[derive(ClapArgs)]
pub struct Running {
    /// Process id of the run, if there are several
    #[arg(long, global = true, value_name = "PID")]
    pub run: Option<u32>,
    /// A program that outlives its run, as `run --pin` was told; may be left out if no run and one
    /// such program is there
    #[arg(long, global = true, value_name = "NAME", value_parser = pin, conflicts_with = "run")]
    pub pin: Option<String>,
}

#[derive(ClapArgs)]
pub struct Table {
    #[command(subcommand)]
    pub action: TableAction,
    #[command(flatten)]
    pub running: Running,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The rest of a ternary entry's identity.
#[derive(ClapArgs)]
pub struct Matching {
    /// Ternary tables: the key's bits that must match (default: all)
    #[arg(long)]
    pub mask: Option<String>,
    /// Ternary tables: the highest priority wins (default: 0)
    #[arg(long)]
    pub priority: Option<u32>,
}

#[derive(Subcommand)]
pub enum TableAction {
    /// Names, kinds and sizes
    List,
    /// One entry
    Get {
        table: String,
        /// As in a table file: 7, 10.0.0.1, '{"src": "10.0.0.1", "port": 80}'
        #[arg(allow_negative_numbers = true)]
        key: String,
        #[command(flatten)]
        matching: Matching,
    },
    /// Insert or overwrite an entry
    Set {
        table: String,
        /// As in a table file: 7, 10.0.0.1, '{"src": "10.0.0.1", "port": 80}'
        #[arg(allow_negative_numbers = true)]
        key: String,
        /// As in a table file
        #[arg(allow_negative_numbers = true)]
        value: String,
        #[command(flatten)]
        matching: Matching,
    },
    /// Remove an entry
    Delete {
        table: String,
        /// As in a table file: 7, 10.0.0.1, '{"src": "10.0.0.1", "port": 80}'
        #[arg(allow_negative_numbers = true)]
        key: String,
        #[command(flatten)]
        matching: Matching,
    },
    /// All entries
    Dump { table: String },
}

#[derive(ClapArgs)]
pub struct Metrics {
    #[command(flatten)]
    pub running: Running,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Reload {
    #[command(flatten)]
    pub source: Source,
    /// Contents for tables that are new or changed (TOML or JSON; default: tables.toml beside the
    /// program)
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// Process id of the run, if there are several
    #[arg(long, value_name = "PID")]
    pub run: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Detach {
    /// As `run --pin` was told, or the path of its folder; may be left out if one only is pinned
    #[arg(value_parser = pin)]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Lsp {
    /// Targets that the program is for, names or .toml files: their costs are shown, and whether
    /// they take it
    #[arg(long, value_name = "TARGET", default_value = "bluefield2")]
    pub target: Vec<String>,
    /// Speak on standard input and output, which is the only way there is; editors say so
    #[arg(long, hide = true)]
    pub stdio: bool,
}

/// A name that can be one of a BPF file system's, or a path.
pub fn pin(text: &str) -> Result<String, String> {
    if text.is_empty() || (text.contains('.') && !text.contains('/')) {
        return Err("a name in a BPF file system is not empty and has no dot".to_string());
    }
    Ok(text.to_string())
}

#[derive(ClapArgs)]
pub struct New {
    /// Name of the program; makes a folder of that name
    pub name: String,
}
