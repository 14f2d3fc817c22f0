use std::process::ExitCode;

fn main() -> ExitCode {
    kvset::cli::main()
}
