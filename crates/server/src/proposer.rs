//! Puts many commands into one log entry, without ever waiting for more to come.
//!
//! While entries are in flight, commands queue; whatever has queued by the time that an entry
//! returns travels in the next one. The queue is bounded in commands and in bytes and refuses what
//! does not fit: a caller that is told so at once can go elsewhere, one that waits cannot.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use firstclaim_core::limits::{ENTRY_BYTES_MAX, ENTRY_COMMANDS_MAX};
use firstclaim_core::{Command, Outcome};
use firstclaim_replica::ProposeError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;

/// Commands that may wait for an entry.
const QUEUE_COMMANDS_MAX: usize = 8192;
/// Bytes that they may hold together.
const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Entries that may be under way at once.
const ENTRIES_IN_FLIGHT: usize = 8;

/// Why a command has no outcome.
#[derive(Clone, Debug)]
pub(crate) enum Unanswered {
    /// The queue is full.
    Overloaded,
    /// Its deadline passed while it queued: it was not proposed and will not be.
    NotProposed,
    /// Its deadline passed after it had been proposed.
    NotConfirmed,
    /// The replica gave no outcome.
    Failed(Arc<ProposeError>),
    /// The proposer has ended.
    Stopped,
}

/// The way into the log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Proposer {
    queue: mpsc::Sender<Queued>,
    bytes: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

/// Commands that wait for an entry, and that one entry takes together.
#[derive(Debug)]
struct Queued {
    commands: Vec<Command>,
    answer: oneshot::Sender<Result<Vec<Outcome>, Unanswered>>,
    /// Set by whoever comes first: the entry that takes the command, or the caller that gives up.
    taken: Arc<AtomicBool>,
    deadline: Instant,
    room: Room,
}

/// Room taken in the queue; given back when dropped.
#[derive(Debug)]
struct Room {
    bytes: usize,
    commands: i64,
    total: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::AcqRel);
        self.metrics.queue_bytes.dec_by(i64::try_from(self.bytes).unwrap_or(i64::MAX));
        self.metrics.queue_commands.dec_by(self.commands);
    }
}

impl Proposer {
    /// Starts a proposer that hands entries to `propose`, until `stop`.
    pub(crate) fn start<P, F>(
        propose: P,
        metrics: Arc<Metrics>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self
    where
        P: Fn(Vec<Command>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<Outcome>, ProposeError>> + Send + 'static,
    {
        let (queue, waiting) = mpsc::channel(QUEUE_COMMANDS_MAX);
        let batches = run(waiting, propose, Arc::clone(&metrics), tasks.clone());
        tasks.spawn(async move {
            stop.run_until_cancelled(batches).await;
        });
        Self { queue, bytes: Arc::default(), metrics }
    }

    /// Queues a command and waits for its outcome, at most until `deadline`.
    ///
    /// # Cancel safety
    ///
    /// When dropped, a command that was not proposed yet never is.
    pub(crate) async fn submit(
        &self,
        command: Command,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Outcome, Unanswered> {
        let mut outcomes = self.submit_all(vec![command], bytes, deadline).await?;
        outcomes.pop().ok_or(Unanswered::NotConfirmed)
    }

    /// Queues commands that one entry decides in their order, and waits for their outcomes, at most
    /// until `deadline`. At most [`ENTRY_COMMANDS_MAX`] commands, of at most [`ENTRY_BYTES_MAX`]
    /// bytes unless it is a single one.
    ///
    /// # Cancel safety
    ///
    /// When dropped, commands that were not proposed yet never are.
    pub(crate) async fn submit_all(
        &self,
        commands: Vec<Command>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, Unanswered> {
        let (answer, answered) = oneshot::channel();
        let taken = Arc::new(AtomicBool::new(false));
        let room = self.room(commands.len(), bytes)?;
        let queued = Queued { commands, answer, taken: Arc::clone(&taken), deadline, room };
        self.queue.try_send(queued).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unanswered::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Unanswered::Stopped,
        })?;
        if let Ok(Ok(result)) = tokio::time::timeout_at(deadline, answered).await {
            return result;
        }
        // Out of time, or dropped by a proposer that ends. Either way: was it proposed?
        Err(match take(&taken) {
            true if Instant::now() < deadline => Unanswered::Stopped,
            true => Unanswered::NotProposed,
            false => Unanswered::NotConfirmed,
        })
    }

    fn room(&self, commands: usize, bytes: usize) -> Result<Room, Unanswered> {
        let commands = i64::try_from(commands).unwrap_or(i64::MAX);
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.metrics.queue_bytes.inc_by(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.metrics.queue_commands.inc_by(commands);
        let (total, metrics) = (Arc::clone(&self.bytes), Arc::clone(&self.metrics));
        let room = Room { bytes, commands, total, metrics };
        // One command is always let in, so that the bound can never lock out a large one.
        if before > 0 && before + bytes > QUEUE_BYTES_MAX {
            return Err(Unanswered::Overloaded);
        }
        Ok(room)
    }
}

/// Claims the right to decide a queued command's fate. True once only.
fn take(taken: &AtomicBool) -> bool {
    !taken.swap(true, Ordering::AcqRel)
}

/// The commands of one entry, and who waits for them.
#[derive(Debug, Default)]
struct Batch {
    commands: Vec<Command>,
    answers: Vec<Waiting>,
    bytes: usize,
}

/// Who waits for the outcomes of how many commands.
type Waiting = (usize, oneshot::Sender<Result<Vec<Outcome>, Unanswered>>);

impl Batch {
    /// Takes the commands in, or gives them back if they do not fit behind the others.
    fn push(&mut self, mut queued: Queued) -> Option<Queued> {
        let fits = self.commands.len() + queued.commands.len() <= ENTRY_COMMANDS_MAX
            && self.bytes + queued.room.bytes <= ENTRY_BYTES_MAX;
        if !self.commands.is_empty() && !fits {
            return Some(queued);
        }
        // A caller that has gone or run out of time needs no entry.
        let gone = queued.answer.is_closed() || queued.deadline <= Instant::now();
        if gone || !take(&queued.taken) {
            return None;
        }
        self.bytes += queued.room.bytes;
        self.answers.push((queued.commands.len(), queued.answer));
        self.commands.append(&mut queued.commands);
        None
    }

    fn settle(self, result: Result<Vec<Outcome>, ProposeError>) {
        let expected: usize = self.answers.iter().map(|(commands, _)| commands).sum();
        let mut outcomes = match result {
            Ok(outcomes) if outcomes.len() == expected => Ok(outcomes),
            Ok(outcomes) => {
                tracing::error!(
                    commands = expected,
                    outcomes = outcomes.len(),
                    "an entry came back with another number of outcomes than it had commands"
                );
                Err(Unanswered::NotConfirmed)
            }
            Err(error) => Err(Unanswered::Failed(Arc::new(error))),
        };
        for (commands, answer) in self.answers {
            let own = match &mut outcomes {
                Ok(outcomes) => Ok(outcomes.drain(..commands).collect()),
                Err(error) => Err(error.clone()),
            };
            if answer.send(own).is_err() {
                tracing::debug!("a caller went away before its outcome came");
            }
        }
    }
}

async fn run<P, F>(
    mut waiting: mpsc::Receiver<Queued>,
    propose: P,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
) where
    P: Fn(Vec<Command>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Vec<Outcome>, ProposeError>> + Send + 'static,
{
    let in_flight = Arc::new(Semaphore::new(ENTRIES_IN_FLIGHT));
    let mut held: Option<Queued> = None;
    loop {
        let first = match held.take() {
            Some(queued) => queued,
            None => match waiting.recv().await {
                Some(queued) => queued,
                None => break,
            },
        };
        let Ok(permit) = Arc::clone(&in_flight).acquire_owned().await else { break };
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(queued) = next {
            held = batch.push(queued);
            next = if held.is_none() { waiting.try_recv().ok() } else { None };
        }
        if batch.commands.is_empty() {
            continue;
        }
        let commands = std::mem::take(&mut batch.commands);
        metrics.entries.inc();
        #[expect(clippy::cast_precision_loss, reason = "at most ENTRY_COMMANDS_MAX")]
        metrics.batch_commands.observe(commands.len() as f64);
        let answer = propose(commands);
        tasks.spawn(async move {
            batch.settle(answer.await);
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use firstclaim_core::{Answer, Timestamp};

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn ticked(commands: &[Command]) -> Vec<Outcome> {
        let one = Outcome { store_time: Timestamp(1), result: Ok(Answer::Ticked) };
        vec![one; commands.len()]
    }

    /// A proposer over a log that answers only while `open` has permits, and the sizes of entries.
    fn start(open: &Arc<Semaphore>) -> (Proposer, Arc<Mutex<Vec<usize>>>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let (seen, open) = (Arc::clone(&sizes), Arc::clone(open));
        let propose = move |commands: Vec<Command>| {
            seen.lock().expect("not poisoned").push(commands.len());
            let open = Arc::clone(&open);
            async move {
                open.acquire().await.expect("never closed").forget();
                Ok(ticked(&commands))
            }
        };
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        (Proposer::start(propose, Metrics::new(), &tasks, stop), sizes)
    }

    fn submit(proposer: &Proposer, bytes: usize, within: Duration) -> Submitted {
        let proposer = proposer.clone();
        tokio::spawn(
            async move { proposer.submit(Command::Tick, bytes, Instant::now() + within).await },
        )
    }

    type Submitted = tokio::task::JoinHandle<Result<Outcome, Unanswered>>;

    #[tokio::test]
    async fn what_queues_while_entries_are_in_flight_travels_together() {
        let open = Arc::new(Semaphore::new(0));
        let (proposer, sizes) = start(&open);
        let mut calls = Vec::new();
        for _ in 0..ENTRIES_IN_FLIGHT {
            calls.push(submit(&proposer, 10, SOON));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for _ in 0..300 {
            calls.push(submit(&proposer, 10, SOON));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        open.add_permits(1000);
        for call in calls {
            call.await.expect("joined").expect("an outcome");
        }
        let sizes = sizes.lock().expect("not poisoned").clone();
        assert_eq!(sizes[..ENTRIES_IN_FLIGHT], [1; ENTRIES_IN_FLIGHT]);
        assert_eq!(sizes.iter().sum::<usize>(), ENTRIES_IN_FLIGHT + 300);
        assert_eq!(sizes[ENTRIES_IN_FLIGHT], ENTRY_COMMANDS_MAX, "{sizes:?}");
    }

    #[tokio::test]
    async fn a_deadline_tells_a_queued_command_from_a_proposed_one() {
        let open = Arc::new(Semaphore::new(0));
        let (proposer, sizes) = start(&open);
        let short = Duration::from_millis(100);
        let proposed: Vec<_> =
            (0..ENTRIES_IN_FLIGHT).map(|_| submit(&proposer, ENTRY_BYTES_MAX, short)).collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        // The first takes the batcher's hand, waiting for room; the second is behind it.
        let waiting = [submit(&proposer, 10, short), submit(&proposer, 10, short)];
        for call in proposed {
            let error = call.await.expect("joined").expect_err("no outcome");
            assert!(matches!(error, Unanswered::NotConfirmed), "{error:?}");
        }
        for call in waiting {
            let error = call.await.expect("joined").expect_err("no outcome");
            assert!(matches!(error, Unanswered::NotProposed), "{error:?}");
        }
        open.add_permits(100);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(sizes.lock().expect("not poisoned").len(), ENTRIES_IN_FLIGHT);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let open = Arc::new(Semaphore::new(0));
        let (proposer, _) = start(&open);
        let large = QUEUE_BYTES_MAX / 4;
        let calls: Vec<_> = (0..40).map(|_| submit(&proposer, large, SOON)).collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let refused = calls.iter().filter(|call| call.is_finished()).count();
        assert!(refused > 20, "{refused} of 40 were refused");
        open.add_permits(100);
        for call in calls {
            match call.await.expect("joined") {
                Ok(_) | Err(Unanswered::Overloaded) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
