//! What runs the tasks of a replica: the seam to the machine's threads.
//!
//! A simulator has another one, on which one generator decides all that is left to chance.

use std::future::Future;
use std::io;
use std::sync::mpsc;

pub(crate) use tokio::spawn;

/// What openraft runs on.
pub(crate) type Runtime = openraft::impls::TokioRuntime;

/// Runs what may block on a thread of its own.
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = io::Result<T>> + Send {
    let work = tokio::task::spawn_blocking(work);
    async { work.await.map_err(io::Error::other) }
}

/// Ends the process at once, as a loss of power would.
#[cfg(not(test))]
pub(crate) fn end() -> ! {
    std::process::abort()
}

/// Ends only the thread, so that a test can look at what the process leaves behind.
#[cfg(test)]
pub(crate) fn end() -> ! {
    std::panic::resume_unwind(Box::new("the process ends"))
}

/// What waits for a worker.
pub(crate) struct Queue<T>(mpsc::Receiver<T>);

impl<T> Queue<T> {
    /// The next thing, if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

/// A thread that takes things from a queue. Dropping it waits until the queue is empty.
pub(crate) struct Worker<T> {
    /// None once the worker is told to end.
    queue: Option<mpsc::Sender<T>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts it. It does the work, then tells of it, as often as there is any.
    pub(crate) fn start<D: Send + 'static>(
        name: &str,
        mut work: impl FnMut(T, &mut Queue<T>) -> D + Send + 'static,
        mut tell: impl FnMut(D) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, waiting) = mpsc::channel();
        let mut waiting = Queue(waiting);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Ok(first) = waiting.0.recv() {
                tell(work(first, &mut waiting));
            }
        })?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Gives it more to do; false if it has ended.
    pub(crate) fn send(&self, more: T) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.send(more).is_ok())
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.queue = None;
        let own = std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != own) {
            // A panic of the worker has ended the process already.
            drop(thread.join());
        }
    }
}
