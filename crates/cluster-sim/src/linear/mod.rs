//! Whether a history can be told as one thing after another.
