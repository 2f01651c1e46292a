//! How much memory a decoder takes, counted where all memory is taken.

use peak_alloc::PeakAlloc;

#[global_allocator]
static COUNTED: PeakAlloc = PeakAlloc;

/// Runs `f`, and says by how many bytes more than before were in use at once.
///
/// It counts the whole process: nothing else may run.
pub(crate) fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    COUNTED.reset_peak_usage();
    let before = COUNTED.current_usage();
    let result = f();
    (result, COUNTED.peak_usage().saturating_sub(before))
}
