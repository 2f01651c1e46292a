//! What runs the tasks of a simulated replica: one thread, on which a process is a set of tasks.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt as _;
use openraft::AsyncRuntime;
use openraft::impls::TokioRuntime;
use openraft_rt::deterministic_rng::DeterministicRng;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use crate::simulated::World;

thread_local! {
    /// The process whose task is running.
    static CURRENT: RefCell<Option<Process>> = const { RefCell::new(None) };
}

/// A simulated process: its tasks end together, and rest together.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    node: u64,
    world: Arc<dyn World>,
    life: watch::Sender<Life>,
    tasks: Mutex<Tasks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Rests,
    Ended,
}

#[derive(Default)]
struct Tasks {
    running: Vec<AbortHandle>,
    resting: Vec<Waker>,
    /// How many there may be before those that ended are looked for.
    look_at: usize,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("node", &self.0.node).finish_non_exhaustive()
    }
}

impl Process {
    /// A process of a node.
    #[must_use]
    pub fn new(node: u64, world: Arc<dyn World>) -> Self {
        let life = watch::channel(Life::Runs).0;
        Self(Arc::new(Inner { node, world, life, tasks: Mutex::default() }))
    }

    /// The process that this task belongs to.
    ///
    /// # Panics
    ///
    /// If it belongs to none: a simulator spawned it past [`Process::run`].
    pub(crate) fn current() -> Self {
        #[expect(clippy::expect_used, reason = "the simulator itself would be wrong")]
        CURRENT.with(|current| current.borrow().clone()).expect("a task of a simulated process")
    }

    /// Runs a future as a task of this process.
    pub fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let task = tokio::spawn(Task { process: self.clone(), future: Some(Box::pin(future)) });
        let mut tasks = self.tasks();
        if tasks.running.len() >= tasks.look_at {
            tasks.running.retain(|task| !task.is_finished());
            tasks.look_at = 64 + 2 * tasks.running.len();
        }
        tasks.running.push(task.abort_handle());
        drop(tasks);
        if self.has_ended() {
            task.abort();
        }
        task
    }

    /// Ends it where it stands: none of its tasks runs any more.
    pub fn kill(&self) {
        self.0.life.send_replace(Life::Ended);
        let tasks = std::mem::take(&mut *self.tasks());
        for task in tasks.running {
            task.abort();
        }
        for waker in tasks.resting {
            waker.wake();
        }
    }

    /// Whether it was ended, or has ended itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.0.life.borrow() == Life::Ended
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        let mut life = self.0.life.subscribe();
        // The sender lives as long as `self`.
        drop(life.wait_for(|life| *life == Life::Ended).await);
    }

    /// Whether both are the same process.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Lets none of its tasks run until [`Self::resume`].
    pub fn pause(&self) {
        self.0.life.send_if_modified(|life| {
            let runs = *life == Life::Runs;
            if runs {
                *life = Life::Rests;
            }
            runs
        });
    }

    /// Lets its tasks run again.
    pub fn resume(&self) {
        self.0.life.send_if_modified(|life| {
            let rests = *life == Life::Rests;
            if rests {
                *life = Life::Runs;
            }
            rests
        });
        let resting = std::mem::take(&mut self.tasks().resting);
        for waker in resting {
            waker.wake();
        }
    }

    pub(crate) fn node(&self) -> u64 {
        self.0.node
    }

    pub(crate) fn world(&self) -> &Arc<dyn World> {
        &self.0.world
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` as a part of this process.
    fn within<T>(&self, f: impl FnOnce() -> T) -> T {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        let after = Restore(before);
        let value = f();
        drop(after);
        value
    }
}

/// Puts back who was current before, also when a task panics.
struct Restore(Option<Process>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.with(|current| *current.borrow_mut() = self.0.take());
    }
}

struct Task<F> {
    process: Process,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let life = *self.process.0.life.borrow();
        if life == Life::Rests {
            self.process.tasks().resting.push(context.waker().clone());
            return Poll::Pending;
        }
        let process = self.process.clone();
        match &mut self.future {
            Some(future) if life == Life::Runs => process.within(|| future.as_mut().poll(context)),
            Some(_) | None => Poll::Pending,
        }
    }
}

impl<F> Drop for Task<F> {
    fn drop(&mut self) {
        let (process, future) = (self.process.clone(), self.future.take());
        process.within(|| drop(future));
    }
}

/// Runs a task of the present process.
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    Process::current().run(future)
}

/// Does in one step what elsewhere has a thread of its own, after a while.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let process = Process::current();
    rest(process.world().write_takes(process.node()).0).await;
    Ok(work())
}

/// Ends the process at once.
pub(crate) fn end() -> ! {
    Process::current().kill();
    // Leaves the task that is running, without a word: the process is gone.
    std::panic::resume_unwind(Box::new("a simulated process has ended"))
}

/// What waits for a worker.
pub(crate) struct Queue<T>(mpsc::UnboundedReceiver<T>);

impl<T> Queue<T> {
    /// The next thing, if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

/// A task that takes things from a queue, one after the other, and needs time for each.
pub(crate) struct Worker<T>(mpsc::UnboundedSender<T>);

impl<T: Send + 'static> Worker<T> {
    /// Starts it. It does the work, then tells of it, as often as there is any.
    pub(crate) fn start<D: Send + 'static>(
        _name: &str,
        mut work: impl FnMut(T, &mut Queue<T>) -> D + Send + 'static,
        mut tell: impl FnMut(D) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, waiting) = mpsc::unbounded_channel();
        let mut waiting = Queue(waiting);
        let process = Process::current();
        let _task = spawn(async move {
            while let Some(first) = waiting.0.recv().await {
                let (before, after) = process.world().write_takes(process.node());
                rest(before).await;
                let done = work(first, &mut waiting);
                rest(after).await;
                tell(done);
            }
        });
        Ok(Self(queue))
    }

    /// Gives it more to do; false if it has ended.
    pub(crate) fn send(&self, more: T) -> bool {
        self.0.send(more).is_ok()
    }
}

async fn rest(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// What openraft runs on: tokio, with the tasks of one process kept together and its dice loaded.
#[derive(Debug)]
pub(crate) struct Runtime(TokioRuntime);

/// openraft's own wrapper, for its generator only.
type Dice = DeterministicRng<TokioRuntime>;

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: Send + 'static> = JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, F: Future<Output = R> + Send> = <TokioRuntime as AsyncRuntime>::Timeout<R, F>;
    type ThreadLocalRng = <Dice as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: Send + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + Send>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + Send>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        let seed = Process::current().world().chance();
        #[expect(clippy::expect_used, reason = "the future has nothing to wait for")]
        Dice::scope(seed, async { Dice::thread_rng() }).now_or_never().expect("a generator")
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}
