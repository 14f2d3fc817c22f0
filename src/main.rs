use std::process::ExitCode;

fn main() -> ExitCode {
    kvset::program::main()
}
