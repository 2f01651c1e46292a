//! Requests of clients and operators: from bytes to what goes into the log.

mod calls;
mod reading;

pub(crate) use calls::accepted;
pub use calls::message_of;

/// The names of the calls, in the order of the byte that chooses one.
pub fn names() -> impl Iterator<Item = &'static str> {
    calls::CALLS.iter().chain(reading::CALLS).map(|(name, _)| *name)
}

/// A byte that chooses the call, the bytes of its message.
pub(crate) fn request(bytes: &[u8]) -> bool {
    let Some((call, message)) = bytes.split_first() else { return false };
    let mut calls = calls::CALLS.iter().chain(reading::CALLS);
    calls.nth(usize::from(*call)).is_some_and(|(_, read)| read(message))
}
