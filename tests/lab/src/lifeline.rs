use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;

use crate::{Program, ServerError};

/// From util-linux, which Debian always has.
const SETPRIV: Program = Program { name: "setpriv", package: "util-linux" };

/// The shell is there because this process may have ended before `setpriv` came to ask for the signal. In that case the
/// shell has another parent.
const IF_PARENT_LIVES: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A command that runs `program` as a child which the kernel kills when this process ends, in whatever way. The child has the
/// process id of the program. It has to be started by [`spawn`].
pub(crate) fn bound(program: &Path) -> Result<Command, ServerError> {
    let mut command = Command::new(SETPRIV.find()?);
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", IF_PARENT_LIVES]);
    command.arg(std::process::id().to_string()).arg(program).stdin(Stdio::null());
    Ok(command)
}

/// Starts a command from a thread that lives as long as this process: what `setpriv` asks for is a signal at the end of the
/// thread that started it (prctl(2), `PR_SET_PDEATHSIG`), and a test's thread may end before the server shall.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        let serve = move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        };
        thread::Builder::new()
            .name("lock-lab starter".to_owned())
            .spawn(serve)
            .expect("the system has one more thread");
        orders
    });
    let (answer, answered) = mpsc::channel();
    STARTER.send((command, answer)).expect("the thread ends with the process");
    answered.recv().expect("every order is answered")
}
