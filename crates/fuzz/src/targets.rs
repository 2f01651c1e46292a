//! The list of all targets, and the bound that holds for each.

use firstclaim_core::limits;
use firstclaim_replica::fuzzing;

use crate::{files, memory, requests, responses, text};

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Names the folder of its kept inputs.
    pub name: &'static str,
    /// Takes any bytes, and says whether they were accepted.
    accepts: fn(&[u8]) -> bool,
    /// What it may take of memory.
    bound: Bound,
}

/// Most bytes of memory that a target takes, checks and copies of its own included.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// However short the input is.
    free: usize,
    /// For each byte of the input.
    per_byte: usize,
    /// For the structures of a message, however long the input is.
    structures: usize,
}

impl Bound {
    const TEXT: Self = Self { free: 4 << 20, per_byte: 64, structures: 0 };
    /// A declared length makes room for up to 1 MiB of elements, or for a text up to the limit of the
    /// codec, before its content is found missing.
    const BINCODE: Self = Self { free: 12 << 20, per_byte: 64, structures: 0 };
    /// Two bytes are an empty part of a message, which is a structure in memory, so messages are weighed
    /// first. A list takes up to three times its size while it grows, and a check holds two copies.
    const REQUEST: Self =
        Self { free: 1 << 20, per_byte: 64, structures: 5 * limits::REQUEST_MEMORY_MAX };
    /// As before.
    const RESPONSE: Self =
        Self { free: 1 << 20, per_byte: 64, structures: 5 * limits::ANSWER_MEMORY_MAX };

    fn of(target: &str) -> Self {
        match target {
            "request" | "peer" | "message" | "manifest" => Self::REQUEST,
            "response" => Self::RESPONSE,
            "payload" | "sealed" => Self::BINCODE,
            _ => Self::TEXT,
        }
    }
}

impl Target {
    /// Gives the bytes to the decoder, and says whether they were accepted.
    ///
    /// # Panics
    ///
    /// If something does not hold that must hold for all bytes.
    #[must_use]
    pub fn run(&self, bytes: &[u8]) -> bool {
        let (accepted, peak) = memory::peak_of(|| (self.accepts)(bytes));
        let Bound { free, per_byte, structures } = self.bound;
        let most = free + per_byte * bytes.len() + structures;
        assert!(peak <= most, "{} bytes took {peak} bytes of memory", bytes.len());
        accepted
    }
}

/// All targets.
#[must_use]
pub fn targets() -> Vec<Target> {
    const OURS: [fuzzing::Door; 7] = [
        ("request", requests::request),
        ("response", responses::response),
        ("status", responses::status),
        ("text", text::text),
        ("json", text::json),
        ("config", files::config),
        ("policy_file", files::policy_file),
    ];
    let all = OURS.iter().chain(fuzzing::DOORS);
    all.map(|(name, accepts)| Target { name, accepts: *accepts, bound: Bound::of(name) }).collect()
}
