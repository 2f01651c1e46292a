//! A disk that counts what is asked of it, and at some call refuses, or loses its power.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::tree::{Id, Tree};

/// What happens at a call instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is done, and an error is returned.
    Refused,
    /// Half of a write is done, and nothing of anything else.
    Half,
    /// All of it is done, and yet an error is returned.
    Done,
    /// From here on every call fails.
    PowerCut,
}

impl Fault {
    pub(super) const ERRORS: [Self; 3] = [Self::Refused, Self::Half, Self::Done];
}

/// What is asked of the disk.
#[derive(Clone, Debug)]
pub(super) enum Call<'a> {
    Look(&'a [String]),
    Open(&'a [String]),
    List(&'a [String]),
    Read(Id),
    Create(&'a [String]),
    MakeDir(&'a [String]),
    Append(Id, &'a [u8]),
    Sync(Id),
    Rename(&'a [String], &'a [String]),
    Link(&'a [String], &'a [String]),
    Remove(&'a [String]),
}

impl Call<'_> {
    fn changes(&self) -> bool {
        !matches!(self, Self::Look(_) | Self::Open(_) | Self::List(_) | Self::Read(_))
    }

    fn name(&self) -> String {
        match self {
            Self::Look(path) => format!("look for {}", path.join("/")),
            Self::Open(path) => format!("open {}", path.join("/")),
            Self::List(path) => format!("list {}", path.join("/")),
            Self::Read(id) => format!("read #{id}"),
            Self::Create(path) => format!("create {}", path.join("/")),
            Self::MakeDir(path) => format!("make the folder {}", path.join("/")),
            Self::Append(id, bytes) => format!("write {} bytes to #{id}", bytes.len()),
            Self::Sync(id) => format!("sync #{id}"),
            Self::Rename(from, to) => format!("rename {} to {}", from.join("/"), to.join("/")),
            Self::Link(from, to) => format!("link {} to {}", to.join("/"), from.join("/")),
            Self::Remove(path) => format!("remove {}", path.join("/")),
        }
    }

    fn perform(&self, tree: &mut Tree) -> io::Result<Id> {
        match self {
            Self::Look(path) | Self::Open(path) | Self::List(path) => tree.find(path),
            Self::Read(id) => Ok(*id),
            Self::Create(path) => tree.create(path),
            Self::MakeDir(path) => tree.make_dir(path),
            Self::Append(id, bytes) => tree.append(*id, bytes).map(|()| *id),
            Self::Sync(id) => {
                tree.sync(*id);
                Ok(*id)
            }
            Self::Rename(from, to) => tree.rename(from, to).map(|()| 0),
            Self::Link(from, to) => tree.link(from, to).map(|()| 0),
            Self::Remove(path) => tree.remove(path).map(|()| 0),
        }
    }
}

/// The disk just before a call that changes it.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The number of the call, from 1 on.
    pub(super) before: u64,
    pub(super) call: String,
    pub(super) tree: Tree,
}

#[derive(Debug, Default)]
struct State {
    tree: Tree,
    calls: u64,
    trouble: Option<(u64, Fault)>,
    /// The call that met the trouble.
    met: Option<String>,
    dead: bool,
    moments: Option<Vec<Moment>>,
    gate: Gate,
}

/// Holds the log's writer back, so that what is sent meanwhile becomes one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Open,
    Closed,
    /// Closed, and the writer stands before it.
    Reached,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<State>,
    moved: Condvar,
}

impl Disk {
    pub(super) fn new(tree: Tree) -> Arc<Self> {
        let state = State { tree, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), moved: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what the disk is before each call that changes it.
    pub(super) fn record(&self) {
        self.state().moments = Some(Vec::new());
    }

    pub(super) fn moments(&self) -> Vec<Moment> {
        self.state().moments.take().unwrap_or_default()
    }

    /// Does something else at a call.
    pub(super) fn plan(&self, call: u64, fault: Fault) {
        self.state().trouble = Some((call, fault));
    }

    /// The call that met the planned fault.
    pub(super) fn met(&self) -> Option<String> {
        self.state().met.clone()
    }

    pub(super) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Looks at the files without a call.
    pub(super) fn peek<T>(&self, f: impl FnOnce(&Tree) -> T) -> T {
        f(&self.state().tree)
    }

    /// Ends the process that uses the disk: nothing it does from now on counts.
    pub(super) fn end_process(&self) -> Tree {
        let mut state = self.state();
        state.dead = true;
        state.tree.clone()
    }

    pub(super) fn call(&self, call: &Call<'_>) -> io::Result<Id> {
        self.call_and(call, |_, id| Ok(id))
    }

    /// Performs a call, and looks at what it found.
    pub(super) fn call_and<T>(
        &self,
        call: &Call<'_>,
        f: impl FnOnce(&Tree, Id) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.dead {
            return Err(io::Error::other("the power is off"));
        }
        state.calls += 1;
        let before = state.calls;
        if let (Some(moments), true) = (&mut state.moments, call.changes()) {
            moments.push(Moment { before, call: call.name(), tree: state.tree.clone() });
        }
        let fault = state.trouble.filter(|(at, _)| *at == before).map(|(_, fault)| fault);
        let result = match fault {
            None => call.perform(&mut state.tree).and_then(|id| f(&state.tree, id)),
            Some(fault) => {
                state.met = Some(call.name());
                match fault {
                    Fault::Refused => {}
                    Fault::Half => {
                        if let Call::Append(id, bytes) = call {
                            state.tree.append(*id, &bytes[..bytes.len() / 2])?;
                        }
                    }
                    Fault::Done => drop(call.perform(&mut state.tree)),
                    Fault::PowerCut => state.dead = true,
                }
                Err(io::Error::other("the disk refuses"))
            }
        };
        drop(guard);
        self.moved.notify_all();
        result
    }

    fn wait(&self, mut ready: impl FnMut(&State) -> bool) {
        let state = self.state();
        drop(self.moved.wait_while(state, |state| !ready(state) && !state.dead));
    }

    /// Waits until a call after so many was made.
    pub(super) fn wait_for_call_after(&self, calls: u64) {
        self.wait(|state| state.calls > calls);
    }

    /// Where the log's writer is held back.
    pub(super) fn pass_gate(&self) {
        let mut state = self.state();
        if state.gate == Gate::Closed {
            state.gate = Gate::Reached;
            self.moved.notify_all();
        }
        drop(self.moved.wait_while(state, |state| state.gate != Gate::Open && !state.dead));
    }

    pub(super) fn close_gate(&self) {
        self.state().gate = Gate::Closed;
    }

    /// Waits until the log's writer stands at the gate.
    pub(super) fn wait_at_gate(&self) {
        self.wait(|state| state.gate == Gate::Reached);
    }

    pub(super) fn open_gate(&self) {
        self.state().gate = Gate::Open;
        self.moved.notify_all();
    }
}
