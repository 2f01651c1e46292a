//! Nothing: depending on `rocksdb` is what builds the archive.
