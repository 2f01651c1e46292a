//! Gives a disk to processes, through FUSE. It needs `/dev/fuse` and the right to mount.

use std::ffi::OsStr;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use super::{Content, Disk, Done, Mood, Tree};
use crate::Outcome;

/// What the kernel is told is true until it asks again, at once.
const TTL: Duration = Duration::ZERO;
const BLOCK: u32 = 4096;
/// Blocks that a disk has, by its own word.
const BLOCKS: u64 = 1 << 20;

/// A disk in a folder. Dropping it takes it away.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Shows a disk in a folder, which is made for it.
    ///
    /// # Errors
    ///
    /// When this machine does not let it.
    pub fn new(disk: &Disk, at: &Path) -> Outcome<Self> {
        fs::create_dir_all(at)?;
        let mut config = fuser::Config::default();
        let name = MountOption::FSName("forgetful".to_owned());
        config.mount_options = vec![name, MountOption::NoAtime];
        let session = fuser::spawn_mount(Shown(disk.clone()), at, &config)
            .map_err(|error| format!("mount a disk at {}: {error}", at.display()))?;
        Ok(Self { at: at.to_path_buf(), session: Some(session) })
    }

    /// Whether this machine lets anybody show a disk, or why not.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn is_possible() -> Outcome<()> {
        let folder = tempfile::tempdir()?;
        Self::new(&Disk::default(), folder.path())?.take_away()
    }

    /// Takes it away; no process may have a file of it open.
    ///
    /// # Errors
    ///
    /// When one has.
    pub fn take_away(mut self) -> Outcome<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.umount_and_join() {
            // The kernel had files of a killed process to close yet, and gave up on that.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(()),
            done => done.map_err(|error| format!("unmount {}: {error}", self.at.display()).into()),
        }
    }
}

/// What the kernel asks.
struct Shown(Disk);

impl Tree {
    fn attributes(&self, node: u64) -> Done<FileAttr> {
        let (kind, size, perm) = match self.content(node)? {
            Content::File(bytes) => (FileType::RegularFile, bytes.len() as u64, 0o644),
            Content::Folder(_) => (FileType::Directory, 0, 0o755),
        };
        Ok(FileAttr {
            ino: INodeNo(node),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: BLOCK,
        })
    }
}

fn number(error: &Error) -> Errno {
    let known = [
        (ErrorKind::NotFound, Errno::ENOENT),
        (ErrorKind::AlreadyExists, Errno::EEXIST),
        (ErrorKind::DirectoryNotEmpty, Errno::ENOTEMPTY),
        (ErrorKind::NotADirectory, Errno::ENOTDIR),
        (ErrorKind::IsADirectory, Errno::EISDIR),
        (ErrorKind::StorageFull, Errno::ENOSPC),
        (ErrorKind::InvalidInput, Errno::EINVAL),
    ];
    let found = known.into_iter().find(|(kind, _)| *kind == error.kind());
    found.map_or(Errno::EIO, |(_, number)| number)
}

fn size(number: u64) -> Done<usize> {
    usize::try_from(number).map_err(|_too_large| ErrorKind::InvalidInput.into())
}

/// Answers with what was done, or with the number of the error.
macro_rules! answer {
    ($reply:ident, $done:expr, $told:ident => $tell:expr) => {
        match $done {
            Ok($told) => $tell,
            Err(error) => $reply.error(number(&error)),
        }
    };
}

impl Filesystem for Shown {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.0.tree();
        let found = tree.find(parent.0, name).and_then(|node| tree.attributes(node));
        answer!(reply, found, it => reply.entry(&TTL, &it, Generation(0)));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.0.tree().attributes(node.0), it => reply.attr(&TTL, &it));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        length: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.0.tree();
        let done = length
            .map_or(Ok(()), |length| tree.set_length(node.0, size(length)?))
            .and_then(|()| tree.attributes(node.0));
        answer!(reply, done, it => reply.attr(&TTL, &it));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut tree = self.0.tree();
        let done = tree
            .create(parent.0, name, Content::Folder(std::collections::BTreeMap::new()))
            .and_then(|node| tree.attributes(node));
        answer!(reply, done, it => reply.entry(&TTL, &it, Generation(0)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut tree = self.0.tree();
        let done = tree
            .create(parent.0, name, Content::File(Vec::new()))
            .and_then(|node| tree.attributes(node));
        answer!(reply, done, it => {
            reply.created(&TTL, &it, Generation(0), FileHandle(0), FopenFlags::empty());
        });
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = self.0.tree();
        let done = tree.link(node.0, parent.0, name).and_then(|()| tree.attributes(node.0));
        answer!(reply, done, it => reply.entry(&TTL, &it, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.0.tree().remove(parent.0, name), _it => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.0.tree().remove(parent.0, name), _it => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = self.0.tree().rename((parent.0, name), (to.0, new_name));
        answer!(reply, done, _it => reply.ok());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        count: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut tree = self.0.tree();
        let read = size(offset).and_then(|offset| {
            let bytes = tree.file(node.0)?;
            let from = offset.min(bytes.len());
            Ok(&bytes[from..bytes.len().min(from + count as usize)])
        });
        answer!(reply, read, bytes => reply.data(bytes));
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = size(offset).and_then(|offset| self.0.tree().write(node.0, offset, bytes));
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        answer!(reply, done, _it => reply.written(count));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.0.tree().sync_file(node.0), _it => reply.ok());
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.0.tree().sync_folder(node.0), _it => reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let tree = self.0.tree();
        let names = match tree.folder(node.0) {
            Ok(names) => names,
            Err(error) => return reply.error(number(&error)),
        };
        let own = [(OsStr::new("."), node.0), (OsStr::new(".."), node.0)];
        let others = names.iter().map(|(name, node)| (name.as_os_str(), *node));
        for (at, (name, node)) in (1..).zip(own.into_iter().chain(others)) {
            let kind = match tree.content(node) {
                Ok(Content::File(_)) => FileType::RegularFile,
                Ok(Content::Folder(_)) | Err(_) => FileType::Directory,
            };
            if at > offset && reply.add(INodeNo(node), at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = if self.0.tree().mood == Mood::Full { 0 } else { BLOCKS };
        reply.statfs(BLOCKS, free, free, BLOCKS, BLOCKS, BLOCK, 255, BLOCK);
    }
}
