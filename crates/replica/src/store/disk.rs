//! A data folder: whose it is, that nobody else uses it, and the databases in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fs2::FileExt as _;

use crate::error::{OpenError, StoreError};
use crate::store::engine::{Batch, Durability, Engine, Read, Row};
use crate::store::file::{self, failed};
use crate::store::generation::Generation;
use crate::store::identity::Identity;
use crate::store::log_end::LogEnd;
use crate::store::memory::Memory;
use crate::store::migrate::migrate;
#[cfg(feature = "rocksdb")]
use crate::store::rocks::{Rocks, Use};
use crate::store::schema::{FORMAT, FORMER_FORMAT, Table, meta, system};
use crate::store::snapshot::SnapshotDir;

const IDENTITY_FILE: &str = "IDENTITY";
const LOCK_FILE: &str = "LOCK";
const LOG_DIR: &str = "raftlog";
#[cfg(feature = "rocksdb")]
const LOG_END_FILE: &str = "raftlog.end";
const STATE_DIR: &str = "state";
#[cfg(any(feature = "rocksdb", test))]
const CURRENT_FILE: &str = "CURRENT";
pub(crate) const SNAPSHOT_DIR: &str = "snapshot";
pub(crate) const INCOMING_DIR: &str = "incoming";

/// Where the rows are kept.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In RocksDB, below the data folder.
    #[cfg(feature = "rocksdb")]
    RocksDb,
    /// In memory, for tests and the simulator.
    Memory(MemoryDisk),
    /// In small files below the data folder, for tests that lose some of them.
    #[cfg(test)]
    Journal,
}

/// Opens the database in a folder, or creates it.
#[cfg(any(feature = "rocksdb", test))]
type Opener = fn(&Path) -> Result<Box<dyn Engine>, StoreError>;

#[cfg(feature = "rocksdb")]
fn rocks_log(dir: &Path) -> Result<Box<dyn Engine>, StoreError> {
    Ok(Box::new(Rocks::open(dir, Use::Log)?))
}

#[cfg(feature = "rocksdb")]
fn rocks_state(dir: &Path) -> Result<Box<dyn Engine>, StoreError> {
    Ok(Box::new(Rocks::open(dir, Use::State)?))
}

#[cfg(test)]
fn journal(dir: &Path) -> Result<Box<dyn Engine>, StoreError> {
    Ok(Box::new(crate::store::tests::crash_points::Journal::open(dir)?))
}

/// Rows that outlive the replica that wrote them, as a disk does, but not the process.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    pub(super) log: Arc<Memory>,
    pub(super) state: Arc<Mutex<MemoryState>>,
}

#[derive(Debug)]
pub(super) struct MemoryState {
    pub(super) current: Arc<Memory>,
    pub(super) number: u64,
    /// The index of the snapshot that the current state began with.
    pub(super) installed: u64,
    pub(super) staged: Option<Arc<Memory>>,
}

impl MemoryState {
    /// What a crash leaves, with these rows.
    pub(super) fn with_rows_left(&self, rows: Memory) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            current: Arc::new(rows),
            number: self.number,
            installed: self.installed,
            staged: None,
        }))
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        let current = Arc::new(Memory::new("memory/state"));
        let state = MemoryState { current, number: 0, installed: 0, staged: None };
        Self { log: Arc::new(Memory::new("memory/raftlog")), state: Arc::new(Mutex::new(state)) }
    }
}

impl MemoryDisk {
    /// What a power cut at this moment leaves behind: all up to the last sync, and no more.
    #[must_use]
    pub fn after_power_cut(&self) -> Self {
        let state = self.state();
        let left = state.with_rows_left(state.current.durable());
        Self { log: Arc::new(self.log.durable()), state: left }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open database of the log.
pub(crate) struct LogDisk {
    // The order of the fields matters: the folder is free after the database has closed.
    pub(crate) engine: Box<dyn Engine>,
    /// None without RocksDB.
    pub(crate) end: Option<LogEnd>,
    _lock: Option<Lock>,
}

/// A data folder in use.
pub(crate) struct Disk {
    root: PathBuf,
    storage: Storage,
    lock: Mutex<Option<Lock>>,
}

/// Holds the folder. Every open database in it has one, so the folder is free when all are closed.
pub(crate) type Lock = Arc<File>;

impl Disk {
    /// Takes the folder for a node, creating it if it is not there. One of the former format is
    /// migrated.
    pub(crate) fn open(
        root: &Path,
        storage: Storage,
        cluster_id: &str,
        node_id: u64,
    ) -> Result<Self, OpenError> {
        file::create_dir(root)?;
        let lock_path = root.join(LOCK_FILE);
        let lock = File::create(&lock_path).map_err(failed("create the lock file", &lock_path))?;
        if lock.try_lock_exclusive().is_err() {
            return Err(OpenError::Locked { path: root.to_path_buf() });
        }
        let lock = Mutex::new(Some(Arc::new(lock)));
        let found = check_identity(root, cluster_id, node_id)?;
        file::remove_dir(&root.join(INCOMING_DIR))?;
        // Also for a start before this one, which may have been killed before it came to that.
        file::create_durable_dir(&root.join(SNAPSHOT_DIR))?;
        let disk = Self { root: root.to_path_buf(), storage, lock };
        if found != Some(FORMAT) {
            if found.is_some() {
                disk.migrate()?;
            }
            let (node, cluster) = (node_id.to_string(), cluster_id.to_owned());
            let identity = Identity { format: FORMAT, node, cluster }.to_string();
            file::replace(&root.join(IDENTITY_FILE), identity.as_bytes())?;
        }
        Ok(disk)
    }

    fn migrate(&self) -> Result<(), StoreError> {
        match &self.storage {
            #[cfg(feature = "rocksdb")]
            Storage::RocksDb => self.migrate_folder(rocks_log, rocks_state),
            #[cfg(test)]
            Storage::Journal => self.migrate_folder(journal, journal),
            Storage::Memory(memory) => {
                let state = Arc::clone(&memory.state().current);
                migrate(&*memory.log, &*state)
            }
        }
    }

    fn lock(&self) -> Option<Lock> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets go of the folder, and says how to see whether the databases in it have, too.
    pub(crate) fn close(&self) -> Weak<File> {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        lock.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Opens the log's database.
    pub(crate) fn open_log(&self) -> Result<LogDisk, StoreError> {
        let engine: Box<dyn Engine> = match &self.storage {
            #[cfg(feature = "rocksdb")]
            Storage::RocksDb => self.open_database(LOG_DIR, rocks_log)?,
            #[cfg(test)]
            Storage::Journal => self.open_database(LOG_DIR, journal)?,
            Storage::Memory(memory) => Box::new(Arc::clone(&memory.log)),
        };
        check_format(&*engine, Table::Meta, meta::FORMAT)?;
        let end = match &self.storage {
            #[cfg(feature = "rocksdb")]
            Storage::RocksDb => Some(LogEnd::open(&self.path(LOG_END_FILE))?),
            // Its tests cut files on their own, and know what must be left.
            #[cfg(test)]
            Storage::Journal => None,
            Storage::Memory(_) => None,
        };
        Ok(LogDisk { engine, end, _lock: self.lock() })
    }

    /// Opens the state's database. Also says which index the snapshot had that it began with.
    pub(crate) fn open_state(&self) -> Result<(Generation, u64), StoreError> {
        match &self.storage {
            #[cfg(feature = "rocksdb")]
            Storage::RocksDb => self.open_current(rocks_state),
            #[cfg(test)]
            Storage::Journal => self.open_current(journal),
            Storage::Memory(memory) => {
                let state = memory.state();
                let engine = Arc::clone(&state.current);
                check_format(&*engine, Table::System, system::FORMAT)?;
                Ok((
                    Generation::new(Box::new(engine), None, state.number, self.lock()),
                    state.installed,
                ))
            }
        }
    }

    /// Makes a new generation out of a snapshot. The old one stays current.
    pub(crate) fn stage(
        &self,
        snapshot: &SnapshotDir,
        current: u64,
    ) -> Result<Generation, StoreError> {
        match &self.storage {
            #[cfg(feature = "rocksdb")]
            Storage::RocksDb => self.stage_folder(snapshot, current + 1, rocks_state),
            #[cfg(test)]
            Storage::Journal => self.stage_folder(snapshot, current + 1, journal),
            Storage::Memory(memory) => {
                let path = Path::new("memory/state");
                let engine = Arc::new(Memory::from_checkpoint(snapshot.path(), path)?);
                check_format(&*engine, Table::System, system::FORMAT)?;
                memory.state().staged = Some(Arc::clone(&engine));
                Ok(Generation::new(Box::new(engine), None, current + 1, self.lock()))
            }
        }
    }

    /// Makes a staged generation the one that the next start opens.
    pub(crate) fn activate(
        &self,
        generation: &Generation,
        installed: u64,
    ) -> Result<(), StoreError> {
        match &self.storage {
            #[cfg(feature = "rocksdb")]
            Storage::RocksDb => self.activate_folder(generation, installed),
            #[cfg(test)]
            Storage::Journal => self.activate_folder(generation, installed),
            Storage::Memory(memory) => {
                let mut state = memory.state();
                if let Some(staged) = state.staged.take() {
                    state.current = staged;
                    state.number = generation.number();
                    state.installed = installed;
                }
                Ok(())
            }
        }
    }
}

/// Generations in folders.
#[cfg(any(feature = "rocksdb", test))]
impl Disk {
    /// Opens the database in a folder. It makes its files durable, but not the folder's own name.
    fn open_database(&self, name: &str, open: Opener) -> Result<Box<dyn Engine>, StoreError> {
        let dir = self.path(name);
        file::create_durable_dir(&dir)?;
        open(&dir)
    }

    fn migrate_folder(&self, open_log: Opener, open_state: Opener) -> Result<(), StoreError> {
        let (number, _) = self.current()?.unwrap_or((0, 0));
        file::create_durable_dir(&self.path(STATE_DIR))?;
        let log = self.open_database(LOG_DIR, open_log)?;
        let state = open_state(&self.generation_dir(number))?;
        migrate(&*log, &*state)
    }

    fn open_current(&self, open: Opener) -> Result<(Generation, u64), StoreError> {
        file::create_durable_dir(&self.path(STATE_DIR))?;
        let (number, installed) = self.current()?.unwrap_or((0, 0));
        self.remove_other_generations(number)?;
        let generation = self.open_generation(number, open)?;
        self.point_to(number, installed)?;
        Ok((generation, installed))
    }

    fn stage_folder(
        &self,
        snapshot: &SnapshotDir,
        number: u64,
        open: Opener,
    ) -> Result<Generation, StoreError> {
        let dir = self.generation_dir(number);
        file::remove_dir(&dir)?;
        file::create_dir(&dir)?;
        snapshot.copy_into(&dir)?;
        file::sync_dir(&dir)?;
        self.open_generation(number, open)
    }

    fn activate_folder(&self, generation: &Generation, installed: u64) -> Result<(), StoreError> {
        file::sync_dir(&self.path(STATE_DIR))?;
        self.point_to(generation.number(), installed)
    }

    fn generation_dir(&self, number: u64) -> PathBuf {
        self.path(STATE_DIR).join(format!("gen-{number}"))
    }

    fn open_generation(&self, number: u64, open: Opener) -> Result<Generation, StoreError> {
        let dir = self.generation_dir(number);
        let engine = open(&dir)?;
        check_format(&*engine, Table::System, system::FORMAT)?;
        Ok(Generation::new(engine, Some(dir), number, self.lock()))
    }

    /// The generation in use, and the index of the snapshot that it began with.
    fn current(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let path = self.path(STATE_DIR).join(CURRENT_FILE);
        let Some(content) = file::read(&path)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&content);
        let mut words = text.split_whitespace();
        let number = words.next().and_then(|word| word.strip_prefix("gen-")?.parse().ok());
        let installed = words.next().and_then(|word| word.parse().ok());
        match (number, installed) {
            (Some(number), Some(installed)) => Ok(Some((number, installed))),
            (Some(_) | None, Some(_) | None) => Err(StoreError::Corrupt {
                path,
                what: "it does not name a generation and an index".to_owned(),
            }),
        }
    }

    fn point_to(&self, number: u64, installed: u64) -> Result<(), StoreError> {
        let path = self.path(STATE_DIR).join(CURRENT_FILE);
        file::replace(&path, format!("gen-{number} {installed}\n").as_bytes())
    }

    fn remove_other_generations(&self, current: u64) -> Result<(), StoreError> {
        let dir = self.path(STATE_DIR);
        let kept = format!("gen-{current}");
        for name in file::names(&dir)? {
            if name.starts_with("gen-") && name != kept {
                file::remove_dir(&dir.join(name))?;
            }
        }
        Ok(())
    }
}

/// Checks whose folder it is, and says of which format. None: it is empty.
fn check_identity(root: &Path, cluster_id: &str, node_id: u64) -> Result<Option<u32>, OpenError> {
    let path = root.join(IDENTITY_FILE);
    let Some(content) = file::read(&path)? else {
        for name in [LOG_DIR, STATE_DIR] {
            if file::exists(&root.join(name))? {
                let what = "it is missing, but the folder holds data".to_owned();
                return Err(StoreError::Corrupt { path, what }.into());
            }
        }
        return Ok(None);
    };
    let Some(Identity { format, node, cluster }) = Identity::read(&content) else {
        let what = "it does not name a format, a node and a cluster".to_owned();
        return Err(StoreError::Corrupt { path, what }.into());
    };
    if format != FORMAT && format != FORMER_FORMAT {
        let path = root.to_path_buf();
        return Err(StoreError::Format { path, found: format, expected: FORMAT }.into());
    }
    if node != node_id.to_string() || cluster != cluster_id {
        return Err(OpenError::Owner {
            path: root.to_path_buf(),
            found: format!("node {node} of cluster {cluster}"),
            expected: format!("node {node_id} of cluster {cluster_id}"),
        });
    }
    Ok(Some(format))
}

/// Checks the format of a database, or notes ours in a new one.
fn check_format(engine: &dyn Engine, table: Table, key: &[u8]) -> Result<(), StoreError> {
    match engine.get(table, key)? {
        None => {
            let mut batch = Batch::default();
            batch.put(table, key.to_vec(), FORMAT.to_be_bytes().to_vec());
            engine.write(batch, Durability::Synced)
        }
        Some(bytes) => {
            let path = engine.path().to_path_buf();
            let found = bytes.as_slice().try_into().map(u32::from_be_bytes);
            match found {
                Ok(FORMAT) => Ok(()),
                Ok(found) => Err(StoreError::Format { path, found, expected: FORMAT }),
                Err(_) => {
                    let what = format!("the format takes {} bytes", bytes.len());
                    Err(StoreError::Corrupt { path, what })
                }
            }
        }
    }
}

/// The engine of a memory disk is shared between the disk and the replica that is open on it.
impl Read for Arc<Memory> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        (**self).scan(table, from, to, limit)
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        (**self).last(table, from, to)
    }
}

impl Engine for Arc<Memory> {
    fn view(
        &self,
        f: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        (**self).view(f)
    }

    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        (**self).write(batch, durability)
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        (**self).checkpoint(dir)
    }

    fn path(&self) -> &Path {
        (**self).path()
    }
}
