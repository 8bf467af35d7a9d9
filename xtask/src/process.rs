//! Running a child to its end, and ending it when we are told to stop.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use std::{io, mem, ptr, thread};

use anyhow::{Context, Result, bail, ensure};

const POLL: Duration = Duration::from_millis(20);
const GRACE: Duration = Duration::from_secs(3);

/// The signal that asked us to stop, 0 while there was none.
static STOP_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// From here on an interrupt no longer ends the process: `run` and
/// `fail_if_stopped` turn it into an error, so that every `Drop` still runs.
pub fn catch_stop_signals() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: both structs are plain data for which zero is valid, and the
        // handler only stores to an atomic.
        unsafe {
            let mut previous: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut previous);
            // Ignored by whoever started us (`nohup`, a shell's `&`): leave it so.
            if previous.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = note_stop_signal as *const () as usize;
            ensure!(
                libc::sigaction(signal, &action, ptr::null_mut()) == 0,
                "cannot catch signal {signal}: {}",
                io::Error::last_os_error()
            );
        }
    }
    Ok(())
}

extern "C" fn note_stop_signal(signal: libc::c_int) {
    STOP_SIGNAL.store(signal, Ordering::Relaxed);
}

pub fn fail_if_stopped() -> Result<()> {
    match STOP_SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        libc::SIGINT => bail!("interrupted"),
        signal => bail!("stopped by signal {signal}"),
    }
}

/// Runs a command with our stdout and stderr; its failure is an error that names it.
pub fn run(command: &mut Command) -> Result<()> {
    let status = run_to_status(command)?;
    ensure!(status.success(), "`{}`: {status}", display(command));
    Ok(())
}

fn run_to_status(command: &mut Command) -> Result<ExitStatus> {
    fail_if_stopped()?;
    // A group of its own, so that its children can be ended with it. Such a
    // group must not read from the terminal.
    command.process_group(0).stdin(Stdio::null());
    end_with_us(command, libc::SIGTERM);
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", display(command)))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(stopped) = fail_if_stopped() {
            end_group(&mut child);
            return Err(stopped);
        }
        thread::sleep(POLL);
    }
}

/// Runs a command and returns what it printed on stdout; its failure is an error with its stderr.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start `{}`", display(command)))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}`: {}\n{}", display(command), output.status, stderr.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Has the kernel send `signal` to the child when we end, however we end.
/// The kernel watches the thread that spawned, so this is for the main thread.
pub fn end_with_us(command: &mut Command, signal: libc::c_int) {
    let our_pid = std::process::id() as libc::pid_t;
    // SAFETY: the closure makes two system calls and touches no memory of ours.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            // We may have ended between the fork and the call above.
            if libc::getppid() != our_pid {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// True when the child ended within `time`.
pub fn ends_within(child: &mut Child, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

pub fn send_signal(child: &Child, signal: libc::c_int) {
    // SAFETY: a system call on a child that we have not reaped, so the id is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

fn end_group(child: &mut Child) {
    let group = -(child.id() as libc::pid_t);
    // SAFETY: system calls on a group whose leader we have not reaped.
    unsafe { libc::kill(group, libc::SIGTERM) };
    let ended = ends_within(child, GRACE);
    // What is left of the group after its leader is still ours to end.
    unsafe { libc::kill(group, libc::SIGKILL) };
    if !ended {
        let _ = child.wait();
    }
}

fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
