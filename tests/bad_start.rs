//! A node that must not start, or must not go on: a wrong configuration, a taken port, a folder that
//! is not its own, data of another format, damaged files.
//!
//! Each ends the process with one error that names the place and says what to do. The other nodes
//! serve on meanwhile, and once the fault is undone the node is back with nothing lost.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::{ClaimRequest, Client, Completion};
use firstclaim_tests::cluster::{Cluster, Node};
use firstclaim_tests::race::{self, NAMESPACE, TENANT, fingerprint};
use firstclaim_tests::{Outcome, readback, say};
use tokio::time::{Instant, sleep};

/// The node that is put in trouble.
const AT: usize = 2;
const RECORDS: u64 = 120;
const ENDS_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_in_trouble_says_so_and_loses_nothing() {
    let mut cluster = Cluster::start("bad-start").await.unwrap_or_else(|fault| panic!("{fault}"));
    let mut trouble = Trouble { keys: BTreeSet::new(), told: 0, mended: 0 };
    if let Err(fault) = story(&mut cluster, &mut trouble).await {
        panic!("{}", cluster.explain(&fault));
    }
}

/// What was written so far, and how it went.
struct Trouble {
    keys: BTreeSet<String>,
    told: usize,
    mended: usize,
}

async fn story(cluster: &mut Cluster, trouble: &mut Trouble) -> Outcome<()> {
    race::set_up(cluster).await?;
    let client = cluster.client()?;
    for number in 0..RECORDS {
        trouble.write(&client, format!("before-{number:04}")).await?;
    }
    readback::same_state(cluster).await?;
    cluster.node_mut(AT).stop().await?;
    trouble.configuration(cluster).await?;
    trouble.ports(cluster).await?;
    trouble.folders(cluster).await?;
    trouble.format(cluster).await?;
    trouble.damage(cluster).await?;

    let (index, _) = readback::same_state(cluster).await?;
    let records = readback::records(cluster, &trouble.keys).await?;
    if records.len() != trouble.keys.len() || records.values().any(|record| !record.completed) {
        return Err(format!("{} of {} records are left", records.len(), trouble.keys.len()).into());
    }
    let Trouble { told, mended, .. } = trouble;
    say(&format!(
        "bad_start: {told} faults were told, {mended} mended from the log; {} records are the same \
         on all nodes at index {index}",
        records.len()
    ));
    Ok(())
}

impl Trouble {
    /// An unknown key, with its place and what was meant.
    async fn configuration(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        let config = cluster.node(AT).config.clone();
        let good = fs::read_to_string(&config)?;
        let bad = good.replace("[node]\n", "[node]\ndatadir = \"x\"\n");
        let line = bad.lines().position(|line| line.starts_with("datadir")).unwrap_or(0) + 1;
        fs::write(&config, bad)?;
        let place = format!("{}:{line}:1", config.display());
        let words = [place.as_str(), "node.datadir", "did you mean \"data_dir\"?"];
        self.refused(cluster, &[], &words).await?;
        fs::write(&config, good)?;
        self.back(cluster).await
    }

    async fn ports(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        let ports = cluster.node(AT).ports;
        for (name, port) in [("grpc", ports.grpc), ("http", ports.http), ("peer", ports.peer)] {
            cluster.node_mut(AT).stop().await?;
            let holder = TcpListener::bind(("127.0.0.1", port))?;
            let (address, setting) = (format!("127.0.0.1:{port}"), format!("listen.{name}"));
            self.refused(cluster, &[], &[&address, &setting, "stop the process"]).await?;
            drop(holder);
            self.back(cluster).await?;
        }
        Ok(())
    }

    async fn folders(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        // A folder in use.
        cluster.node_mut(AT).stop().await?;
        let other = cluster.node(0).data.display().to_string();
        let words = [other.as_str(), "in use by another process", "stop it first"];
        self.refused(cluster, &["--data-dir", &other], &words).await?;

        // The folder of another node.
        cluster.node_mut(0).stop().await?;
        let words = [other.as_str(), "belongs to node 1 of", "not to node 3", "set data_dir"];
        self.refused_alone(cluster, &["--data-dir", &other], &words).await?;
        cluster.start_node(0)?;
        cluster.wait_ready().await?;

        // The folder of another cluster.
        let own = cluster.node(AT).data.display().to_string();
        let words = [own.as_str(), "cluster under-test", "cluster elsewhere", "set data_dir"];
        self.refused(cluster, &["--cluster-id", "elsewhere"], &words).await?;
        self.back(cluster).await
    }

    async fn format(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        cluster.node_mut(AT).stop().await?;
        let data = cluster.node(AT).data.clone();
        let identity = data.join("IDENTITY");
        let good = fs::read_to_string(&identity)?;
        let old = good.replace("format 2\n", "format 0\n");
        if old == good {
            return Err(format!("{} has no format 2: {good}", identity.display()).into());
        }
        fs::write(&identity, old)?;
        let folder = data.display().to_string();
        let words = [folder.as_str(), "format 0", "reads only format 2", "migrate"];
        self.refused(cluster, &[], &words).await?;
        fs::write(&identity, good)?;
        self.back(cluster).await
    }

    /// Cut and flipped files of the log and of the state, in the midst of work and after an orderly
    /// stop: what was written last is in journals (`.log`), what was written before in tables (`.sst`).
    async fn damage(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        let data = cluster.node(AT).data.clone();
        let kept = data.with_extension("kept");
        let mut seen = BTreeSet::new();
        for orderly in [false, true] {
            let client = cluster.client()?;
            for number in 0..RECORDS {
                self.write(&client, format!("damage-{orderly}-{number:04}")).await?;
            }
            readback::same_state(cluster).await?;
            if orderly {
                cluster.node_mut(AT).stop().await?;
            } else {
                cluster.node_mut(AT).kill();
            }
            copy(&data, &kept)?;
            for (part, extension) in
                [("raftlog", "log"), ("raftlog", "sst"), ("state", "log"), ("state", "sst")]
            {
                let files = files(&data.join(part), extension)?;
                for damage in [Damage::Cut, Damage::Flip] {
                    if files.is_empty() {
                        continue;
                    }
                    seen.insert((part, extension));
                    for file in &files {
                        damage.done_to(file)?;
                    }
                    let what = format!("{damage:?} {part}/*.{extension}, orderly {orderly}");
                    let told = self.told_or_mended(cluster, part).await;
                    let told = told.map_err(|error| format!("{what}: {error}"))?;
                    say(&format!("bad_start: {what}: {}", if told { "told" } else { "mended" }));
                    if !told && part == "raftlog" {
                        return Err(format!("{what}: the node went on with a damaged log").into());
                    }
                    fs::remove_dir_all(&data)?;
                    copy(&kept, &data)?;
                }
            }
            fs::remove_dir_all(&kept)?;
            self.back(cluster).await?;
        }
        let needed = [("raftlog", "log"), ("raftlog", "sst"), ("state", "sst")];
        match needed.iter().find(|part| !seen.contains(*part)) {
            Some(part) => Err(format!("there were no files of {part:?} to damage").into()),
            None => Ok(()),
        }
    }

    /// Starts a node on damaged files. It must end with an error that names them, or come to the same
    /// state as the others. Returns whether it told.
    async fn told_or_mended(&mut self, cluster: &mut Cluster, part: &str) -> Outcome<bool> {
        cluster.start_node(AT)?;
        let start = Instant::now();
        let binary_folder = cluster.node(AT).data.join(part).display().to_string();
        while start.elapsed() < ENDS_WITHIN {
            if let Some(process) = cluster.node_mut(AT).process()
                && let Some(status) = process.ended()
            {
                let node = cluster.node_mut(AT);
                node.kill();
                judge(node, status.code(), &[&binary_folder, "damaged"])?;
                self.told += 1;
                return Ok(true);
            }
            if cluster.node(AT).status().await.is_ok_and(|status| status.ready) {
                // Every row is read for the hash; if one is damaged, the process must end.
                if readback::same_state(cluster).await.is_ok() {
                    self.mended += 1;
                    cluster.node_mut(AT).stop().await?;
                    return Ok(false);
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(format!("neither ends nor gets well within {ENDS_WITHIN:?}").into())
    }

    /// Starts the node, which must refuse with these words, while the others serve on.
    async fn refused(
        &mut self,
        cluster: &mut Cluster,
        arguments: &[&str],
        words: &[&str],
    ) -> Outcome<()> {
        self.refused_alone(cluster, arguments, words).await?;
        let client = cluster.client()?;
        self.write(&client, format!("meanwhile-{:04}", self.keys.len())).await
    }

    async fn refused_alone(
        &mut self,
        cluster: &mut Cluster,
        arguments: &[&str],
        words: &[&str],
    ) -> Outcome<()> {
        let binary = cluster.binary().to_path_buf();
        let node = cluster.node_mut(AT);
        node.start(&binary, arguments)?;
        let ended = match node.process() {
            Some(process) => process.wait(ENDS_WITHIN).await,
            None => None,
        };
        node.kill();
        let Some(status) = ended else {
            return Err(format!("has not ended; it should say {words:?}").into());
        };
        judge(node, status.code(), words)?;
        self.told += 1;
        Ok(())
    }

    /// Starts the node again and waits until it is well.
    async fn back(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        cluster.start_node(AT)?;
        cluster.wait_ready().await
    }

    async fn write(&mut self, client: &Client, key: String) -> Outcome<()> {
        let request = ClaimRequest::new(TENANT, NAMESPACE, &key).fingerprint(fingerprint(&key));
        let answer = client.claim_once(&request).await?;
        let Some(v1::claim_response::Outcome::Acquired(acquired)) = answer.outcome else {
            return Err(format!("{key} was not acquired: {:?}", answer.outcome).into());
        };
        let completion = Completion::succeeded("text/plain", key.as_bytes());
        client.complete(&request.holder(acquired.epoch), completion).await?;
        self.keys.insert(key);
        Ok(())
    }
}

/// The process must have ended by itself, with one error that holds these words, and no panic.
fn judge(node: &Node, code: Option<i32>, words: &[&str]) -> Outcome<()> {
    let output = node.output();
    let errors: Vec<&str> = output.lines().filter(|line| line.starts_with("error: ")).collect();
    let problem = match errors.as_slice() {
        _ if output.contains("panicked") => "it panicked".to_owned(),
        _ if !matches!(code, Some(1..=2)) => format!("exit code {code:?}"),
        [error] => match words.iter().find(|word| !error.contains(**word)) {
            None => return Ok(()),
            Some(word) => format!("the error does not say {word:?}"),
        },
        errors => format!("{} errors, not one", errors.len()),
    };
    Err(format!("{problem}\n{}", node.tail()).into())
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// It loses its second half.
    Cut,
    /// One bit in its midst is another.
    Flip,
}

impl Damage {
    fn done_to(self, file: &Path) -> Outcome<()> {
        let mut bytes = fs::read(file)?;
        let middle = bytes.len() / 2;
        match self {
            Self::Cut => bytes.truncate(middle),
            Self::Flip => bytes[middle] ^= 1,
        }
        // Checkpoints share files by hard links: only this name must change.
        fs::remove_file(file)?;
        Ok(fs::write(file, bytes)?)
    }
}

/// The files below a folder that have this extension and are not empty.
fn files(folder: &Path, extension: &str) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension)
            && fs::metadata(&path)?.len() > 0
        {
            found.push(path);
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
