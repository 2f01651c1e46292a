//! Hosts of a test: network namespaces that it made itself, with one device each and a wire between them.
//!
//! The test itself runs again in a namespace of its own first, as its root, so that nothing of the
//! machine's network is touched and no right on it is needed.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::Handle;
use tokio_tun::{Tun, TunBuilder};

use crate::Outcome;
use crate::links::Links;

/// The host of the test itself.
pub const CLIENT: u64 = 100;

const MARK: &str = "FIRSTCLAIM_OWN_NETWORK";
const OWN: [&str; 6] = ["--user", "--map-root-user", "--net", "--kill-child", "--", "/bin/sh"];
/// What a host needs of the machine: its own device, and a way into a namespace.
const NEEDED: &str = "command -v nsenter >/dev/null && : <>/dev/net/tun";
const MTU: i32 = 1500;

/// Where a test is that wants hosts.
#[derive(Debug)]
pub enum Ground {
    /// In a network namespace of its own.
    Own,
    /// Outside; it ran in one, and passed.
    Passed,
    /// This machine gives it none, and why.
    Impossible(String),
}

/// Why this machine gives a test no network of its own, if so.
///
/// # Errors
///
/// When `unshare` cannot be started at all.
pub fn hindrance() -> Outcome<Option<String>> {
    let tried = Command::new("unshare").args(OWN).args(["-c", NEEDED]).output();
    let tried = match tried {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some("there is no unshare".to_owned()));
        }
        tried => tried?,
    };
    let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
    Ok((!tried.status.success()).then(|| format!("{}: {said}", tried.status)))
}

/// Runs the test of that name again in a network namespace of its own, unless it is there already.
///
/// # Errors
///
/// When it fails there, or takes too long.
pub async fn enter(test: &str, within: Duration) -> Outcome<Ground> {
    if env::var_os(MARK).is_some() {
        return Ok(Ground::Own);
    }
    if let Some(why) = hindrance()? {
        return Ok(Ground::Impossible(why));
    }
    let mut command = tokio::process::Command::new("unshare");
    command.args(OWN).args(["-c", "exec \"$@\"", "sh"]).arg(env::current_exe()?);
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1");
    // What the harness says about itself would be taken for the outer one's word.
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let status = tokio::time::timeout(within, command.status())
        .await
        .map_err(|_elapsed| format!("{test} has not ended within {within:?}"))??;
    if status.success() { Ok(Ground::Passed) } else { Err(format!("{test}: {status}").into()) }
}

/// The address of a host.
#[must_use]
pub fn address(id: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(id).unwrap_or(u8::MAX))
}

/// The host to which a packet goes.
pub(crate) fn destination(packet: &[u8]) -> Option<u64> {
    packet.first().filter(|first| **first >> 4 == 4)?;
    // The last field of an IPv4 header before its options.
    packet.get(16..20).filter(|to| to[..3] == [10, 77, 0]).map(|to| u64::from(to[3]))
}

/// Hosts, by id. Dropping them takes them away.
#[derive(Debug)]
pub struct Hosts(BTreeMap<u64, Host>);

/// A namespace, which lasts as long as a process is in it.
#[derive(Debug)]
struct Host {
    /// It ends with its input, which ends with this process, however that ends.
    keeper: Child,
}

impl Hosts {
    /// Makes namespaces.
    ///
    /// # Errors
    ///
    /// When this is not [`Ground::Own`].
    pub fn new(ids: impl Iterator<Item = u64>) -> Outcome<Self> {
        ids.map(|id| Ok((id, Host::new()?))).collect::<Outcome<_>>().map(Self)
    }

    /// Gives each host and the test itself a device, and wires them up.
    ///
    /// # Errors
    ///
    /// When there can be no such device.
    pub fn wire(&self) -> Outcome<Links> {
        let mut devices = BTreeMap::from([(CLIENT, device(address(CLIENT))?)]);
        for id in self.0.keys().copied() {
            let handle = Handle::current();
            let made = self.within(id, move || {
                let _runtime = handle.enter();
                device(address(id))
            });
            devices.insert(id, made??);
        }
        Ok(Links::wired(devices))
    }

    /// Does something short on a host. What it opens there stays there.
    ///
    /// # Errors
    ///
    /// When there is no such host.
    #[expect(clippy::disallowed_methods, reason = "its thread is joined at once")]
    pub fn within<T: Send + 'static>(
        &self,
        id: u64,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let host = self.0.get(&id).ok_or_else(|| format!("there is no host {id}"))?;
        let namespace = File::open(host.namespace())?;
        // A thread is in a namespace, and this one never comes back from it.
        let done = thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok::<T, io::Error>(f())
        });
        Ok(done.join().map_err(|_panic| "it panicked on the host")??)
    }

    /// What to say before a command that is to run on a host.
    #[must_use]
    pub fn prefix(&self, id: u64) -> Vec<String> {
        let enter = |host: &Host| vec!["nsenter".to_owned(), format!("--net={}", host.namespace())];
        self.0.get(&id).map(enter).unwrap_or_default()
    }
}

impl Host {
    fn new() -> Outcome<Self> {
        let mut command = Command::new("unshare");
        // It says so once it is in.
        command.args(["--net", "--", "/bin/sh", "-c", "echo && exec cat >/dev/null"]);
        let mut host =
            Self { keeper: command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()? };
        let said = host.keeper.stdout.take().map(|mut said| said.read_exact(&mut [0]));
        match said {
            Some(Ok(())) => Ok(host),
            said => Err(format!("no network namespace: {said:?}").into()),
        }
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.keeper.id())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}

fn device(address: Ipv4Addr) -> Outcome<Tun> {
    let builder = TunBuilder::new().name("wire").mtu(MTU);
    let mut made =
        builder.address(address).netmask(Ipv4Addr::new(255, 255, 255, 0)).up().build()?;
    made.pop().ok_or_else(|| "no device".into())
}
