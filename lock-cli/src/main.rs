//! lockctl, with the backends of this workspace.

fn main() -> std::process::ExitCode {
    lock_cli::main_with(lock_config::Schemes::builtin())
}
