//! What bounds one evaluation, and how it is stopped from outside.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use starlark::eval::Evaluator;

use crate::effect::Host;
use crate::error::Uncatchable;
use crate::memory::allocated_by_this_thread;

/// The bounds of one load or one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub wall_clock: Duration,
    pub heap_bytes: usize,
    pub frames: usize,
    /// Function calls and loop rounds; `None` leaves it to the wall clock.
    pub ticks: Option<u64>,
}

impl Limits {
    pub const fn for_calls() -> Limits {
        Limits { wall_clock: Duration::from_secs(30), heap_bytes: 256 << 20, frames: 200, ticks: None }
    }

    pub const fn for_loading() -> Limits {
        Limits { wall_clock: Duration::from_secs(5), heap_bytes: 256 << 20, frames: 200, ticks: None }
    }
}

/// The limit that ended an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    WallClock(Duration),
    Memory(usize),
    Frames(usize),
    Ticks(u64),
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::WallClock(limit) => write!(f, "took longer than {} s", limit.as_secs_f64()),
            Limit::Memory(limit) => write!(f, "needed more than {} MB of memory", limit >> 20),
            Limit::Frames(limit) => write!(f, "nested function calls deeper than {limit}"),
            Limit::Ticks(limit) => write!(f, "ran for more than {limit} steps"),
        }
    }
}

/// Ends one evaluation from any thread, and carries its deadline.
#[derive(Clone)]
pub struct Stop(Arc<StopState>);

struct StopState {
    cancelled: AtomicBool,
    started: Instant,
    /// Nanoseconds after `started`. Atomic because the clock stands still while a person answers.
    deadline: AtomicU64,
    outer: Option<Stop>,
}

impl Stop {
    pub fn after(wall_clock: Duration) -> Stop {
        Stop(Arc::new(StopState {
            cancelled: AtomicBool::new(false),
            started: Instant::now(),
            deadline: AtomicU64::new(u64::try_from(wall_clock.as_nanos()).unwrap_or(u64::MAX)),
            outer: None,
        }))
    }

    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed) || self.0.outer.as_ref().is_some_and(Stop::is_cancelled)
    }

    pub fn deadline(&self) -> Instant {
        let allowed = Duration::from_nanos(self.0.deadline.load(Ordering::Relaxed));
        // A deadline too far away to be represented is as good as a year from now.
        self.0
            .started
            .checked_add(allowed)
            .unwrap_or_else(|| self.0.started + Duration::from_secs(31_536_000))
    }

    pub fn remaining(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// Moves the deadline: the time a person took to answer does not count.
    pub fn extend(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self
            .0
            .deadline
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |deadline| Some(deadline.saturating_add(by)));
    }

    /// A stop for a part of the work: it ends with this one, or after `wall_clock`.
    pub fn within(&self, wall_clock: Duration) -> Stop {
        let allowed = wall_clock.min(self.remaining());
        Stop(Arc::new(StopState {
            cancelled: AtomicBool::new(self.is_cancelled()),
            started: Instant::now(),
            deadline: AtomicU64::new(u64::try_from(allowed.as_nanos()).unwrap_or(u64::MAX)),
            outer: Some(self.clone()),
        }))
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline()
    }
}

/// Why an evaluation has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    Limit(Limit),
}

/// Watches one evaluation on its own thread. The first reason found is kept: it must not be caught.
#[derive(Clone)]
pub(crate) struct Watch(Rc<WatchState>);

struct WatchState {
    limits: Limits,
    stop: Stop,
    allocated_at_start: i64,
    reason: Cell<Option<StopReason>>,
}

thread_local! {
    /// The watch of the innermost evaluation, for values that have no evaluator at hand.
    static CURRENT: RefCell<Vec<Watch>> = const { RefCell::new(Vec::new()) };
}

/// Ends the watch's time as the current one.
pub(crate) struct CurrentWatch;

impl Drop for CurrentWatch {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|stack| stack.pop());
    }
}

impl Watch {
    pub(crate) fn new(limits: &Limits, stop: &Stop) -> Watch {
        Watch(Rc::new(WatchState {
            limits: limits.clone(),
            stop: stop.clone(),
            allocated_at_start: allocated_by_this_thread(),
            reason: Cell::new(None),
        }))
    }

    pub(crate) fn make_current(&self) -> CurrentWatch {
        CURRENT.with_borrow_mut(|stack| stack.push(self.clone()));
        CurrentWatch
    }

    /// Whether the innermost evaluation of this thread has to end.
    pub(crate) fn current_must_stop() -> bool {
        CURRENT.with_borrow(|stack| stack.last().is_some_and(|watch| watch.check().is_some()))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The reason to stop, if there is one. Cheap enough for every builtin call.
    pub(crate) fn check(&self) -> Option<StopReason> {
        let state = &*self.0;
        if state.reason.get().is_none() {
            let allocated = allocated_by_this_thread() - state.allocated_at_start;
            if state.stop.is_cancelled() {
                state.reason.set(Some(StopReason::Cancelled));
            } else if allocated > state.limits.heap_bytes as i64 {
                state.reason.set(Some(StopReason::Limit(Limit::Memory(state.limits.heap_bytes))));
            } else if state.stop.is_late() {
                state.reason.set(Some(StopReason::Limit(Limit::WallClock(state.limits.wall_clock))));
            }
        }
        state.reason.get()
    }

    /// Also asks the evaluator for the limits only it can see.
    pub(crate) fn check_with(&self, eval: &Evaluator) -> Option<StopReason> {
        let state = &*self.0;
        if self.check().is_none() {
            let ticks = eval.get_total_tick_count();
            if eval.heap().allocated_bytes() > state.limits.heap_bytes {
                state.reason.set(Some(StopReason::Limit(Limit::Memory(state.limits.heap_bytes))));
            } else if let Some(limit) = state.limits.ticks.filter(|limit| ticks >= *limit) {
                state.reason.set(Some(StopReason::Limit(Limit::Ticks(limit))));
            }
        }
        state.reason.get()
    }

    pub(crate) fn set(&self, reason: StopReason) {
        if self.0.reason.get().is_none() {
            self.0.reason.set(Some(reason));
        }
    }

    /// Memory this evaluation may still take.
    fn memory_left(&self) -> usize {
        let used = (allocated_by_this_thread() - self.0.allocated_at_start).max(0) as usize;
        self.0.limits.heap_bytes.saturating_sub(used)
    }

    /// Ends the evaluation when so many bytes are more than it may still take.
    pub(crate) fn require_memory(&self, bytes: usize) -> Result<(), Uncatchable> {
        if bytes > self.memory_left() {
            self.set(StopReason::Limit(Limit::Memory(self.0.limits.heap_bytes)));
            return Err(Uncatchable::Stopped);
        }
        Ok(())
    }

    /// As [`Watch::require_memory`], of the innermost evaluation of this thread.
    pub(crate) fn require_current_memory(bytes: usize) -> Result<(), Uncatchable> {
        CURRENT.with_borrow(|stack| stack.last().map_or(Ok(()), |watch| watch.require_memory(bytes)))
    }

    /// Hands the limits to the evaluator, which tells the host now and then that it still computes.
    pub(crate) fn install<'a>(
        &self,
        eval: &mut Evaluator<'_, 'a, '_>,
        host: &'a dyn Host,
    ) -> anyhow::Result<()> {
        eval.set_max_callstack_size(self.0.limits.frames)?;
        eval.set_max_heap_size(self.0.limits.heap_bytes)?;
        if let Some(ticks) = self.0.limits.ticks {
            eval.set_max_tick_count(ticks.max(1))?;
        }
        let watch = self.clone();
        eval.set_check_cancelled(Box::new(move || {
            host.computing();
            watch.check().is_some()
        }));
        Ok(())
    }
}
