//! Asking for memory without waiting for it.
//!
//! A read that misses the processor's caches holds up all that comes after it as soon as a few hundred
//! instructions wait behind it. A prefetch holds up nothing: it is over when memory has been asked.

/// Bytes that are brought near at once.
pub(super) const LINE: usize = 64;

/// How far ahead of its end a list asks for memory that it will grow into. Nobody else does: a processor watches what
/// is read for a rhythm, and what is added to a list is written.
pub(super) const LINES_AHEAD: usize = 2;

/// Has the memory in which a value begins brought near. Changes nothing, whatever the value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "std's safe function for this, core::hint::prefetch_read, is not stable")]
pub(super) fn prefetch<T: Copy>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is one of SSE, which every x86-64 processor has, and reads nothing into the program.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
}

/// The same where there is no stable way to ask: the value is read.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn prefetch<T: Copy>(value: &T) {
    std::hint::black_box(*value);
}
