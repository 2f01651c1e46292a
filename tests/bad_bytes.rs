//! Bytes that are no call at all, or a broken one, at every port of a node: random ones, frames of HTTP/2 that
//! make no sense, calls that are cut off, far too long or never end. The node answers what it can, takes no
//! memory for them, and serves everybody else meanwhile.

use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::{ClaimRequest, Completion};
use firstclaim_tests::cluster::{Cluster, channel};
use firstclaim_tests::race::{self, NAMESPACE, TENANT, fingerprint};
use firstclaim_tests::{Outcome, raw, say, seed};
use prost::Message as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngCore as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections of each kind, to each port.
const CONNECTIONS: u64 = 40;
/// Connections that send a byte now and then until the end.
const SLOW: u64 = 60;
/// Calls with a body that is no message.
const CALLS: u64 = 400;
/// Bytes of a body of empty parts: the most that a node takes.
const EMPTY_PARTS: usize = 5 << 20;
/// The longest body, well over what a node takes.
const TOO_LONG: usize = 16 << 20;
/// What a node may take more than before, in kB: allocators keep some of what they had.
const GROWTH_MAX: u64 = 96 << 10;
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const CALL_WITHIN: Duration = Duration::from_secs(30);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

const METHODS: [&str; 12] = [
    "firstclaim.v1.ClaimService/Claim",
    "firstclaim.v1.ClaimService/ClaimBatch",
    "firstclaim.v1.ClaimService/Complete",
    "firstclaim.v1.ClaimService/RecordEffect",
    "firstclaim.v1.ClaimService/SettleEffect",
    "firstclaim.v1.RecordService/Resolve",
    "firstclaim.v1.RecordService/ListRecords",
    "firstclaim.v1.RecordService/Explain",
    "firstclaim.v1.TenantService/UpdateTenant",
    "firstclaim.v1.ClusterService/PurgeLog",
    "firstclaim.v1.ClaimService/NoSuchCall",
    "firstclaim.peer.v1.PeerService/Append",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bytes_end_a_node_fill_its_memory_or_hold_up_others() {
    let seed = seed::take("bad_bytes").expect("take a seed");
    let mut cluster = Cluster::start("bad-bytes").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = story(&mut cluster, seed).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn story(cluster: &mut Cluster, seed: u64) -> Outcome<()> {
    race::set_up(cluster).await?;
    let at = cluster.leader().await?;
    serves(cluster, "before").await?;
    let before = resident(cluster, at)?;
    let ports = cluster.node(at).ports;
    let mut noise = JoinSet::new();
    let mut number = 0;
    for port in [ports.grpc, ports.http, ports.peer] {
        for kind in [Kind::Random, Kind::Frames, Kind::Headers] {
            for _ in 0..CONNECTIONS {
                number += 1;
                let chance = seed::chance(seed, number);
                noise.spawn(throw(port, kind, chance));
            }
        }
        for _ in 0..SLOW / 3 {
            noise.spawn(dawdle(port));
        }
    }
    for port in [ports.grpc, ports.peer] {
        for _ in 0..CALLS / 2 {
            number += 1;
            noise.spawn(call(port, seed::chance(seed, number)));
        }
    }
    let mut served = 0;
    while !noise.is_empty() {
        while let Some(thrown) = noise.try_join_next() {
            thrown??;
        }
        served += 1;
        serves(cluster, &format!("meanwhile-{served}")).await?;
        sleep(Duration::from_millis(100)).await;
    }
    for at in 0..cluster.nodes().len() {
        let process = cluster.node_mut(at).process().ok_or("a node does not run")?;
        if let Some(status) = process.ended() {
            return Err(format!("node {} has ended with {status}", at + 1).into());
        }
    }
    let after = resident(cluster, at)?;
    say(&format!(
        "bad_bytes: {number} connections and calls, {served} good calls meanwhile, {before} kB before, {after} kB after"
    ));
    empty_parts(cluster, at).await?;
    if cluster.node(at).output().contains("panicked") {
        return Err("the node has panicked".into());
    }
    if after > before + GROWTH_MAX {
        return Err(format!("the node takes {after} kB, and took {before} kB before").into());
    }
    Ok(())
}

/// Sends bodies of nothing but empty parts, each of which would be a structure in memory, and looks at the
/// most that the node has held meanwhile.
async fn empty_parts(cluster: &mut Cluster, at: usize) -> Outcome<()> {
    let id = cluster.node_mut(at).process().ok_or("the node does not run")?.id();
    let ports = cluster.node(at).ports;
    let before = resident(cluster, at)?;
    // Lets the kernel note the most anew.
    std::fs::write(format!("/proc/{id}/clear_refs"), "5")?;
    for (port, method, field) in [
        (ports.grpc, "firstclaim.v1.ClaimService/ClaimBatch", 2),
        (ports.grpc, "firstclaim.v1.ClaimService/CompleteBatch", 2),
        (ports.grpc, "firstclaim.v1.ClaimService/Claim", 12),
        (ports.peer, "firstclaim.peer.v1.PeerService/Heartbeat", 3),
    ] {
        let body = [field << 3 | 2, 0].repeat(EMPTY_PARTS / 2 - 8);
        let call = raw::call(channel(port)?, method, body);
        let answer = timeout(CALL_WITHIN, call).await.map_err(|_elapsed| "no answer")?;
        let Err(refused) = answer else { return Err(format!("{method} took it").into()) };
        if !refused.message().contains("bytes of memory") {
            return Err(format!("{method} refused it for something else: {refused}").into());
        }
    }
    let most = memory(id, "VmHWM:")?;
    say(&format!("bad_bytes: empty parts, {before} kB before, {most} kB at the most"));
    if most > before + GROWTH_MAX {
        return Err(format!("empty parts took the node from {before} kB to {most} kB").into());
    }
    Ok(())
}

/// Claims and completes a key of its own through the node.
async fn serves(cluster: &Cluster, key: &str) -> Outcome<()> {
    let client = cluster.client()?;
    let work = async {
        let request = ClaimRequest::new(TENANT, NAMESPACE, key).fingerprint(fingerprint(key));
        let answer = client.claim_once(&request).await?;
        let Some(v1::claim_response::Outcome::Acquired(acquired)) = answer.outcome else {
            return Err(format!("{key} was not acquired: {:?}", answer.outcome).into());
        };
        let result = Completion::succeeded("text/plain", "paid");
        client.complete(&request.holder(acquired.epoch), result).await?;
        Outcome::Ok(())
    };
    timeout(CALL_WITHIN, work).await.map_err(|_elapsed| format!("{key} got no answer"))?
}

/// Memory that a node's process holds, in kB.
fn resident(cluster: &mut Cluster, at: usize) -> Outcome<u64> {
    memory(cluster.node_mut(at).process().ok_or("the node does not run")?.id(), "VmRSS:")
}

/// What the kernel says of a process's memory, in kB.
fn memory(id: u32, which: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with(which));
    let number = line.and_then(|line| line.split_whitespace().nth(1)).ok_or(which)?;
    Ok(number.parse()?)
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Random,
    Frames,
    Headers,
}

/// Sends what makes no sense, and reads what comes back until the node has had enough.
async fn throw(port: u16, kind: Kind, mut chance: StdRng) -> Outcome<()> {
    let mut bytes = Vec::new();
    match kind {
        Kind::Random => {
            bytes.resize(chance.random_range(1..8_192), 0);
            chance.fill_bytes(&mut bytes);
        }
        Kind::Frames => {
            bytes.extend_from_slice(PREFACE);
            bytes.extend_from_slice(EMPTY_SETTINGS);
            for _ in 0..chance.random_range(1..20) {
                frame(&mut bytes, &mut chance);
            }
            let length = bytes.len();
            if chance.random_bool(0.5) {
                bytes.truncate(chance.random_range(PREFACE.len()..length));
            }
        }
        Kind::Headers => {
            bytes.extend_from_slice(b"GET /metrics HTTP/1.1\r\nhost: node\r\nx: ");
            bytes.resize(bytes.len() + chance.random_range(1..200_000), b'a');
        }
    }
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return Err(format!("nobody listens at {port} any more").into());
    };
    // The node may close the connection at any point; that it stays there is asked elsewhere.
    let sent = timeout(ANSWER_WITHIN, stream.write_all(&bytes)).await;
    if matches!(sent, Ok(Ok(()))) {
        let mut answer = vec![0; 4_096];
        while let Ok(Ok(1..)) = timeout(Duration::from_millis(500), stream.read(&mut answer)).await
        {
        }
    }
    Ok(())
}

/// A frame of HTTP/2: its length is true in most cases, and nothing else is.
fn frame(bytes: &mut Vec<u8>, chance: &mut StdRng) {
    let mut body = vec![0; chance.random_range(0..64)];
    chance.fill_bytes(&mut body);
    let says = if chance.random_bool(0.2) {
        chance.random_range(0..1 << 24)
    } else {
        u32::try_from(body.len()).unwrap_or_default()
    };
    bytes.extend_from_slice(&says.to_be_bytes()[1..]);
    bytes.push(chance.random_range(0..12));
    bytes.push(chance.random());
    bytes.extend_from_slice(&chance.random_range(0..6_u32).to_be_bytes());
    bytes.extend_from_slice(&body);
}

/// Sends the beginning of a connection, byte by byte, and never comes to an end of it.
async fn dawdle(port: u16) -> Outcome<()> {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return Err(format!("nobody listens at {port} any more").into());
    };
    for byte in PREFACE.iter().take(12) {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

/// Calls a method with a body that is no message, or one that was changed, or far too long.
async fn call(port: u16, mut chance: StdRng) -> Outcome<()> {
    let method = *METHODS.choose(&mut chance).ok_or("no methods")?;
    let mut body = v1::ClaimRequest {
        tenant: TENANT.to_owned(),
        namespace: NAMESPACE.to_owned(),
        key: "thrown".to_owned(),
        attempt_id: "thrown".to_owned(),
        owner: "thrower".to_owned(),
        fingerprints: vec![fingerprint("thrown")],
        ..v1::ClaimRequest::default()
    }
    .encode_to_vec();
    match chance.random_range(0..10) {
        0 => body = vec![0; TOO_LONG],
        1..4 => chance.fill_bytes(&mut body),
        4..6 => body.truncate(chance.random_range(0..body.len())),
        6 => {
            // A field that says to be 2^63 bytes long.
            body = vec![1 << 3 | 2];
            body.extend_from_slice(&[0xff; 9]);
        }
        _ => {
            for _ in 0..chance.random_range(1..6) {
                let at = chance.random_range(0..body.len());
                body[at] = chance.random();
            }
        }
    }
    let answer = timeout(CALL_WITHIN, raw::call(channel(port)?, method, body)).await;
    match answer {
        // Whatever it is, it is an answer.
        Ok(Ok(_) | Err(_)) => Ok(()),
        Err(_elapsed) => Err(format!("{method} at {port} was never answered").into()),
    }
}
