//! Wakes those who wait until a record changes.
//!
//! Only the tasks that wait for a record are woken when it changes, so it costs next to nothing that
//! many wait while many other records are written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstclaim_core::RecordId;
use tokio::sync::watch;

use crate::store::schema;

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By the key of a record, or by the id of a namespace, which is shorter.
    channels: BTreeMap<Vec<u8>, watch::Sender<()>>,
    closed: bool,
}

/// Tells of the changes of a record, or of any record of a namespace, on this node.
#[derive(Debug)]
pub struct Changes {
    wakes: Arc<Wakes>,
    key: Vec<u8>,
    changed: watch::Receiver<()>,
}

impl Wakes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(self: &Arc<Self>, id: &RecordId) -> Changes {
        self.subscribe(schema::record_key(id))
    }

    pub(crate) fn namespace(self: &Arc<Self>, namespace: u64) -> Changes {
        self.subscribe(schema::life_key(namespace))
    }

    fn subscribe(self: &Arc<Self>, key: Vec<u8>) -> Changes {
        let mut waiting = self.waiting();
        let changed = if waiting.closed {
            // Its sender is gone, so the wait ends at once.
            watch::channel(()).1
        } else {
            let channel = waiting.channels.entry(key.clone());
            channel.or_insert_with(|| watch::channel(()).0).subscribe()
        };
        drop(waiting);
        Changes { wakes: Arc::clone(self), key, changed }
    }

    /// Records with these keys were written or removed.
    pub(crate) fn wake<'a>(&self, record_keys: impl IntoIterator<Item = &'a [u8]>) {
        let waiting = self.waiting();
        if waiting.channels.is_empty() {
            return;
        }
        for key in record_keys {
            let namespace = key.first_chunk::<8>().map(<[u8; 8]>::as_slice);
            for key in namespace.into_iter().chain([key]) {
                if let Some(channel) = waiting.channels.get(key) {
                    channel.send_replace(());
                }
            }
        }
    }

    /// Any record may have changed.
    pub(crate) fn wake_all(&self) {
        for channel in self.waiting().channels.values() {
            channel.send_replace(());
        }
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.channels.clear();
    }
}

impl Changes {
    /// Waits for a change after the last one that was seen here, or after this was made. To miss
    /// nothing, read after it was made, and wait then. None once the replica is closed.
    ///
    /// That a change is told does not mean that anything is different now.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn changed(&mut self) -> Option<()> {
        self.changed.changed().await.ok()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut waiting = self.wakes.waiting();
        // This one is still counted.
        if waiting.channels.get(&self.key).is_some_and(|channel| channel.receiver_count() <= 1) {
            waiting.channels.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use firstclaim_core::IdempotencyKey;
    use futures::FutureExt as _;

    use super::*;

    fn id(namespace: u64, key: &str) -> RecordId {
        RecordId { namespace, key: IdempotencyKey::parse(key).unwrap() }
    }

    fn wake(wakes: &Wakes, id: &RecordId) {
        let key = schema::record_key(id);
        wakes.wake([key.as_slice()]);
    }

    #[test]
    fn only_those_who_wait_for_it_are_woken() {
        let wakes = Arc::new(Wakes::default());
        let (one, other, elsewhere) = (id(7, "one"), id(7, "other"), id(8, "one"));
        let mut record = wakes.record(&one);
        let mut twin = wakes.record(&one);
        let mut namespace = wakes.namespace(7);
        wake(&wakes, &elsewhere);
        assert_eq!(record.changed().now_or_never(), None);
        assert_eq!(namespace.changed().now_or_never(), None);
        wake(&wakes, &other);
        assert_eq!(record.changed().now_or_never(), None);
        assert_eq!(namespace.changed().now_or_never(), Some(Some(())));
        wake(&wakes, &one);
        wake(&wakes, &one);
        for changes in [&mut record, &mut twin, &mut namespace] {
            assert_eq!(changes.changed().now_or_never(), Some(Some(())), "a change was missed");
            assert_eq!(changes.changed().now_or_never(), None, "a change was told twice");
        }
        wakes.wake_all();
        assert_eq!(record.changed().now_or_never(), Some(Some(())));
    }

    #[test]
    fn nothing_is_left_of_those_who_are_gone() {
        let wakes = Arc::new(Wakes::default());
        let one = id(7, "one");
        let (first, second) = (wakes.record(&one), wakes.record(&one));
        drop(first);
        assert_eq!(wakes.waiting().channels.len(), 1);
        drop(second);
        assert!(wakes.waiting().channels.is_empty());
    }

    #[test]
    fn a_closed_replica_ends_the_wait() {
        let wakes = Arc::new(Wakes::default());
        let mut before = wakes.record(&id(7, "one"));
        wakes.close();
        let mut after = wakes.namespace(7);
        assert_eq!(before.changed().now_or_never(), Some(None));
        assert_eq!(after.changed().now_or_never(), Some(None));
    }
}
