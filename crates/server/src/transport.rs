//! How much one side of a connection may send ahead of the other.
//!
//! Fixed windows instead of adaptive ones: the HTTP/2 library ends a connection on which too many
//! small frames wait to be read ("too_many_data_frames"), counted by the window that it begins with,
//! and a burst of a few hundred small calls on one connection is what this program is for.

/// Bytes under way on one connection: room for the small frames of every call that may be under way.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Bytes under way of one call.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// Calls under way at once on one connection.
pub(crate) const STREAMS_MAX: u32 = 4096;

/// What the library counts for a small frame.
const SMALL_FRAME_BYTES: u32 = 256;

// The library allows small frames for half of the window.
const _: () = assert!(2 * SMALL_FRAME_BYTES * STREAMS_MAX <= CONNECTION_WINDOW_BYTES);
