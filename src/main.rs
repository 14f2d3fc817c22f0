use mimalloc::MiMalloc;
use std::process::ExitCode;

/// What windows keep of each request comes and goes by the thousand: a worker takes two thirds of the time that it takes
/// with the allocator of the C library (docs/performance.md).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    kvset::program::main()
}
