//! The call an effect belongs to: what it may do, and when it has to end.

use std::future::Future;
use std::time::{Duration, Instant};

use starloom_engine::{EffectError, Stop};
use tokio_util::sync::CancellationToken;

use crate::{Grants, Services};

/// Timeouts beyond this are as good as none.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(31_536_000);

/// Everything [`crate::perform`] needs beside the effect itself.
///
/// `cancelled` is what wakes an effect that waits; `stop` carries the deadline. A canceller sets both.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub services: &'a Services,
    pub grants: &'a Grants,
    pub stop: &'a Stop,
    pub cancelled: &'a CancellationToken,
    /// A multi-threaded runtime with timers and I/O. The calling thread may be one of its own only
    /// inside `block_in_place`.
    pub runtime: &'a tokio::runtime::Handle,
}

impl Scope<'_> {
    pub(crate) fn is_stopped(&self) -> bool {
        is_stopped(self.stop, self.cancelled)
    }

    /// Ends when the call has to.
    pub(crate) async fn stopped(&self) {
        if self.stop.is_cancelled() {
            return;
        }
        let late = async {
            // Read again after each wait: the deadline moves while a person answers.
            while self.stop.remaining() > Duration::ZERO {
                tokio::time::sleep_until(self.stop.deadline().into()).await;
            }
        };
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            () = late => {}
        }
    }

    /// Runs `work` on this thread, until the call has to end.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, EffectError> {
        // On the heap: futures of drivers are large, and so would be the stack of every waiting thread.
        let work = Box::pin(work);
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.stopped() => Err(EffectError::Stopped),
                done = work => Ok(done),
            }
        })
    }

    /// As [`Scope::wait`]; `None` when `timeout` passed first. A deadline that comes sooner wins.
    pub(crate) fn wait_at_most<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, EffectError> {
        let deadline = self.stop.deadline();
        let ends = Instant::now() + timeout;
        let work = async {
            if ends >= deadline {
                return Some(work.await);
            }
            tokio::time::timeout_at(ends.into(), work).await.ok()
        };
        self.wait(work)
    }
}

pub(crate) fn is_stopped(stop: &Stop, cancelled: &CancellationToken) -> bool {
    stop.is_cancelled() || cancelled.is_cancelled() || stop.remaining().is_zero()
}

/// A script's number of seconds as a timeout.
pub(crate) fn timeout_from(seconds: Option<f64>, default: Duration) -> Result<Duration, EffectError> {
    match seconds {
        None => Ok(default.min(LONGEST_TIMEOUT)),
        Some(seconds) if seconds > 0.0 => {
            Ok(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_TIMEOUT).min(LONGEST_TIMEOUT))
        }
        Some(seconds) => {
            Err(EffectError::failed(format!("`timeout` must be a positive number of seconds, not {seconds}")))
        }
    }
}
