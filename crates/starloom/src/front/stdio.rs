//! One client over standard input and output, a message per line.
//!
//! Pipes and sockets are read and written without blocking, straight from the runtime's threads; an
//! answer goes out on the thread that made it. Only what cannot be polled (a file) is read by a thread
//! of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::peer::{Admission, Peer};
use super::rpc::{self, INVALID_REQUEST, Incoming, Malformed, Message, RpcError, response};
use crate::app::{App, Change};

/// A line longer than this is answered with an error and skipped, not kept in memory.
const MAX_LINE: usize = 32 << 20;

/// Serves until the input ends or the app shuts down; then lets what runs finish, for a while.
pub async fn serve(app: Arc<App>) -> std::io::Result<()> {
    let writer = Arc::new(LineWriter::new()?);
    let flusher = tokio::spawn(writer.clone().flush_forever());
    let peer = Arc::new(Peer::new(app.clone()));
    let announcer = tokio::spawn(announce(app.clone(), peer.clone(), writer.clone()));
    let tasks = TaskTracker::new();

    let mut reader = LineReader::new()?;
    let outcome = loop {
        let line = tokio::select! {
            line = reader.next() => line,
            () = app.shutdown.cancelled() => break Ok(()),
        };
        match line {
            Ok(Line::Text(bytes)) => take_line(&peer, &writer, &tasks, &bytes),
            Ok(Line::TooLong) => {
                let error =
                    RpcError::new(INVALID_REQUEST, format!("a line longer than {} MB", MAX_LINE >> 20));
                writer.send(response(None, &Err(error)));
            }
            Ok(Line::End) => break Ok(()),
            Err(error) => break Err(error),
        }
        writer.below_limit().await;
    };

    announcer.abort();
    tasks.close();
    if tokio::time::timeout(app.settings.grace, tasks.wait()).await.is_err() {
        tracing::warn!("calls still run after the grace period; they are cancelled");
        peer.cancel_all();
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), tasks.wait()).await;
    }
    let _ = tokio::time::timeout(std::time::Duration::from_secs(5), writer.flushed()).await;
    flusher.abort();
    outcome
}

fn take_line(peer: &Arc<Peer>, writer: &Arc<LineWriter>, tasks: &TaskTracker, bytes: &[u8]) {
    match rpc::decode(bytes) {
        Incoming::Nothing => {}
        Incoming::One(Err(Malformed { id, error })) => writer.send(response(id.as_ref(), &Err(error))),
        Incoming::One(Ok(message)) => take_message(peer, writer, tasks, message),
        Incoming::Batch(messages) if peer.takes_batches() => take_batch(peer, writer, tasks, messages),
        Incoming::Batch(_) => {
            let message = "batches exist only in protocol version 2025-03-26";
            writer.send(response(None, &Err(RpcError::new(INVALID_REQUEST, message))));
        }
    }
}

fn take_message(peer: &Arc<Peer>, writer: &Arc<LineWriter>, tasks: &TaskTracker, message: Message) {
    match peer.admit(message) {
        Admission::Nothing => {}
        Admission::Answered(id, outcome) => writer.send(response(Some(&id), &outcome)),
        Admission::Run(request) => {
            let (peer, writer) = (peer.clone(), writer.clone());
            tasks.spawn(async move {
                if let Some((id, outcome)) = peer.run(request).await {
                    writer.send(response(Some(&id), &outcome));
                }
            });
        }
    }
}

/// A batch is answered by a batch, when all of it is done.
fn take_batch(
    peer: &Arc<Peer>,
    writer: &Arc<LineWriter>,
    tasks: &TaskTracker,
    messages: Vec<Result<Message, Malformed>>,
) {
    let (peer, writer) = (peer.clone(), writer.clone());
    tasks.spawn(async move {
        if let Some(answer) = answer_batch(&peer, messages).await {
            writer.send(answer);
        }
    });
}

/// `None` when nothing in it wanted an answer.
pub(super) async fn answer_batch(peer: &Peer, messages: Vec<Result<Message, Malformed>>) -> Option<Vec<u8>> {
    let mut answers: Vec<Vec<u8>> = Vec::new();
    let mut running = Vec::new();
    for message in messages {
        match message {
            Err(Malformed { id, error }) => answers.push(response(id.as_ref(), &Err(error))),
            Ok(message) => match peer.admit(message) {
                Admission::Nothing => {}
                Admission::Answered(id, outcome) => answers.push(response(Some(&id), &outcome)),
                Admission::Run(request) => running.push(peer.run(request)),
            },
        }
    }
    for (id, outcome) in futures_util::future::join_all(running).await.into_iter().flatten() {
        answers.push(response(Some(&id), &outcome));
    }
    if answers.is_empty() {
        return None;
    }
    let mut batch = vec![b'['];
    batch.extend(answers.join(&b','));
    batch.push(b']');
    Some(batch)
}

/// Tells the client that the list changed.
async fn announce(app: Arc<App>, peer: Arc<Peer>, writer: Arc<LineWriter>) {
    use tokio::sync::broadcast::error::RecvError;
    let mut changes = app.changes.subscribe();
    loop {
        match changes.recv().await {
            // Missed ones mean the same: something changed.
            Ok(Change::Tools) | Err(RecvError::Lagged(_)) => {
                if peer.is_ready() {
                    writer.send(rpc::notification("notifications/tools/list_changed"));
                }
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// Whether the runtime can wait for it: pipes and sockets, not files and terminals.
fn can_be_polled(file: &File) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.metadata().is_ok_and(|meta| meta.file_type().is_fifo() || meta.file_type().is_socket())
}

fn set_nonblocking(file: &File) -> std::io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: plain system calls on a descriptor that is open as long as `file` is.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

fn polled(file: File, interest: tokio::io::Interest) -> std::io::Result<AsyncFd<File>> {
    // SAFETY: the file is owned by the `AsyncFd`, is never replaced, and so stays open while registered.
    unsafe { AsyncFd::register_with_interest(file, interest) }.map_err(std::io::Error::from)
}

enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
}

/// Splits what comes in into lines.
struct LineReader {
    input: Input,
    pending: Vec<u8>,
    /// How much of `pending` has been searched for a newline.
    searched: usize,
    skipping: bool,
}

enum Input {
    Polled(AsyncFd<File>),
    Threaded(tokio::io::Stdin),
}

impl LineReader {
    fn new() -> std::io::Result<LineReader> {
        let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let input = if can_be_polled(&file) {
            set_nonblocking(&file)?;
            Input::Polled(polled(file, tokio::io::Interest::READABLE)?)
        } else {
            Input::Threaded(tokio::io::stdin())
        };
        Ok(LineReader { input, pending: Vec::new(), searched: 0, skipping: false })
    }

    /// Cancel-safe: what was read stays in `pending`.
    async fn next(&mut self) -> std::io::Result<Line> {
        loop {
            if let Some(at) = self.pending[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let rest = self.pending.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.truncate(end);
                self.searched = 0;
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return Ok(Line::Text(line));
            }
            self.searched = self.pending.len();
            if self.pending.len() > MAX_LINE {
                self.pending.clear();
                self.searched = 0;
                if !std::mem::replace(&mut self.skipping, true) {
                    return Ok(Line::TooLong);
                }
            }
            if self.read().await? == 0 {
                // A last line without its newline still counts.
                if self.pending.is_empty() || self.skipping {
                    return Ok(Line::End);
                }
                self.searched = 0;
                return Ok(Line::Text(std::mem::take(&mut self.pending)));
            }
        }
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        let mut buffer = [0_u8; 16 << 10];
        let count = match &mut self.input {
            Input::Polled(input) => loop {
                let mut guard = input.readable().await?;
                match guard.try_io(|input| input.get_ref().read(&mut buffer)) {
                    Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(result) => break result?,
                    Err(_would_block) => {}
                }
            },
            Input::Threaded(input) => tokio::io::AsyncReadExt::read(input, &mut buffer).await?,
        };
        self.pending.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// Writes whole lines, on the caller's thread where that does not block.
struct LineWriter {
    output: Output,
    state: Mutex<VecDeque<u8>>,
    /// Something is left for the flusher.
    leftover: Notify,
    /// The flusher made room.
    drained: Notify,
}

enum Output {
    Polled(AsyncFd<File>),
    Blocking(File),
}

/// With more than this unread, nothing more is taken in from the client.
const MAX_UNREAD: usize = 64 << 20;

impl LineWriter {
    fn new() -> std::io::Result<LineWriter> {
        let file = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let output = if can_be_polled(&file) {
            set_nonblocking(&file)?;
            Output::Polled(polled(file, tokio::io::Interest::WRITABLE)?)
        } else {
            Output::Blocking(file)
        };
        Ok(LineWriter { output, state: Mutex::default(), leftover: Notify::new(), drained: Notify::new() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, VecDeque<u8>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        let mut pending = self.state();
        let written = match &self.output {
            _ if !pending.is_empty() => 0,
            Output::Polled(output) => write_some(output.get_ref(), &line),
            Output::Blocking(output) => {
                if let Err(error) = (&mut &*output).write_all(&line) {
                    tracing::warn!("cannot write to the client: {error}");
                }
                line.len()
            }
        };
        if written < line.len() {
            pending.extend(&line[written..]);
            drop(pending);
            self.leftover.notify_one();
        }
    }

    /// Writes what `send` could not, as the client makes room.
    async fn flush_forever(self: Arc<LineWriter>) {
        let Output::Polled(output) = &self.output else { return };
        loop {
            self.leftover.notified().await;
            while !self.state().is_empty() {
                let Ok(mut guard) = output.writable().await else { return };
                let mut pending = self.state();
                let outcome = guard.try_io(|output| output.get_ref().write(pending.as_slices().0));
                match outcome {
                    Ok(Ok(count)) => drop(pending.drain(..count)),
                    Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(Err(_)) => pending.clear(),
                    Err(_would_block) => {}
                }
                drop(pending);
                self.drained.notify_waiters();
            }
        }
    }

    async fn below_limit(&self) {
        self.until(|unread| unread <= MAX_UNREAD).await;
    }

    async fn flushed(&self) {
        self.until(|unread| unread == 0).await;
    }

    async fn until(&self, enough: impl Fn(usize) -> bool) {
        loop {
            let drained = self.drained.notified();
            if enough(self.state().len()) {
                return;
            }
            drained.await;
        }
    }
}

/// A client that went away is noticed by the reader; what is written for it is dropped.
fn write_some(output: &File, bytes: &[u8]) -> usize {
    loop {
        match (&mut &*output).write(bytes) {
            Ok(count) => return count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
            Err(_) => return bytes.len(),
        }
    }
}
