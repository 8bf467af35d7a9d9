//! A child process in a group of its own, until nothing of it is left.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// After the last signal: what is still in a pipe is read, and the dead are collected, for this long.
const LAST_WORDS: Duration = Duration::from_millis(200);

const CHUNK: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum FollowError {
    TooMuchOutput { stream: &'static str },
    Io(io::Error),
}

/// What it wrote.
#[derive(Debug, Default)]
pub(super) struct Captured {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

pub(super) struct Running {
    // First, so that it is dropped before the child is collected and the group's number is free again.
    group: Group,
    child: Child,
    exited: Exited,
    stdin: Option<(ChildStdin, String)>,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
}

impl Running {
    pub(super) fn start(mut command: Command, stdin: Option<String>, limit: u64) -> io::Result<Running> {
        let mut child = command
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Running {
            group: Group { id },
            exited: Exited::watch(id),
            stdin: child.stdin.take().zip(stdin),
            stdout: Output::new("stdout", child.stdout.take(), limit),
            stderr: Output::new("stderr", child.stderr.take(), limit),
            child,
        })
    }

    /// Until the command has exited and nobody holds its pipes any more, as a shell's `$(…)` waits.
    pub(super) async fn finish(&mut self) -> Result<(), FollowError> {
        let stdin = self.stdin.take();
        let feed = async {
            if let Some((mut pipe, text)) = stdin {
                // A command that does not read all of its input is no error.
                let _ = pipe.write_all(text.as_bytes()).await;
            }
            Ok(())
        };
        let exit = async { self.exited.wait(&mut self.child).await.map_err(FollowError::Io) };
        tokio::try_join!(feed, self.stdout.read(), self.stderr.read(), exit)?;
        Ok(())
    }

    /// Ends what the command left behind and collects it. Call after [`Running::finish`].
    pub(super) async fn reap(&mut self) -> io::Result<ExitStatus> {
        // Before the wait: until then the group's number cannot belong to anyone else.
        self.group.signal(libc::SIGKILL);
        let exit = self.child.wait().await?;
        self.group.id = None;
        Ok(exit)
    }

    /// Asks the whole group to end, and ends it when it has not after `grace`.
    pub(super) async fn end(mut self, grace: Duration) -> (Captured, Option<ExitStatus>) {
        self.group.signal(libc::SIGTERM);
        // An output over its limit ends the grace too.
        let _ = tokio::time::timeout(grace, self.finish()).await;
        self.kill().await
    }

    pub(super) async fn kill(mut self) -> (Captured, Option<ExitStatus>) {
        self.group.signal(libc::SIGKILL);
        // One that left the group may hold the pipes for ever, so their end is not waited for.
        let _ = tokio::time::timeout(LAST_WORDS, self.finish()).await;
        // A process the kernel cannot end now is collected by tokio when it can.
        let exit = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        if exit.is_ok() {
            self.group.id = None;
        }
        (self.captured(), exit.ok().and_then(Result::ok))
    }

    pub(super) fn captured(&mut self) -> Captured {
        Captured { stdout: self.stdout.take(), stderr: self.stderr.take() }
    }
}

/// The processes started by the command, as far as they stayed in its group. Killed when dropped.
struct Group {
    id: Option<i32>,
}

impl Group {
    fn signal(&self, signal: i32) {
        if let Some(id) = self.id {
            // SAFETY: takes two numbers. The group is the command's own until it has been waited for.
            unsafe { libc::kill(-id, signal) };
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
    }
}

struct Output<R> {
    name: &'static str,
    pipe: Option<R>,
    bytes: Vec<u8>,
    limit: u64,
}

impl<R: AsyncRead + Unpin> Output<R> {
    fn new(name: &'static str, pipe: Option<R>, limit: u64) -> Output<R> {
        Output { name, pipe, bytes: Vec::new(), limit }
    }

    /// To the end. What was read stays when this is dropped half-way.
    async fn read(&mut self) -> Result<(), FollowError> {
        while let Some(pipe) = &mut self.pipe {
            self.bytes.reserve(CHUNK);
            if pipe.read_buf(&mut self.bytes).await.map_err(FollowError::Io)? == 0 {
                self.pipe = None;
            }
            if self.bytes.len() as u64 > self.limit {
                self.pipe = None;
                return Err(FollowError::TooMuchOutput { stream: self.name });
            }
        }
        Ok(())
    }

    fn take(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.bytes))
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// Tells that the command has exited, without collecting it where the system can do that.
enum Exited {
    #[cfg(target_os = "linux")]
    Descriptor(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    Unknown,
}

impl Exited {
    #[cfg(target_os = "linux")]
    fn watch(id: Option<i32>) -> Exited {
        use std::os::fd::{FromRawFd, OwnedFd};
        use tokio::io::Interest;
        use tokio::io::unix::AsyncFd;

        let Some(id) = id else { return Exited::Unknown };
        // SAFETY: takes two numbers, and gives a new descriptor or -1.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
        let Some(descriptor) = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0) else {
            return Exited::Unknown;
        };
        // SAFETY: the descriptor is new and belongs to nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: an `OwnedFd` stays the same open descriptor as long as it lives.
        match unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) } {
            Ok(descriptor) => Exited::Descriptor(descriptor),
            Err(_) => Exited::Unknown,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn watch(_id: Option<i32>) -> Exited {
        Exited::Unknown
    }

    async fn wait(&self, child: &mut Child) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Exited::Descriptor(descriptor) => descriptor.readable().await.map(drop),
            Exited::Unknown => child.wait().await.map(drop),
        }
    }
}
