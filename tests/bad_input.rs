//! Requests that are wrong, as bytes on the wire and typed at the command line: each is refused with
//! one error that names the field and says what to do, and leaves nothing behind.

use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::process::{self, Finished, command};
use firstclaim_tests::race::{self, NAMESPACE, TENANT, fingerprint};
use firstclaim_tests::raw::{call, field};
use firstclaim_tests::{Outcome, readback, say};
use prost::Message as _;
use prost_types::Duration as Span;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const CLAIM: &str = "firstclaim.v1.ClaimService/Claim";
const CREATE: &str = "firstclaim.v1.TenantService/CreateTenant";
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// A request that is wrong, and what its refusal must say.
struct Case {
    what: &'static str,
    method: &'static str,
    message: Vec<u8>,
    code: Code,
    reason: &'static str,
    /// The field at fault; empty if no field is.
    field: &'static str,
    /// What the message must hold besides.
    words: &'static [&'static str],
}

impl Case {
    /// A fault of a field of a claim.
    fn of(field: &'static str, words: &'static [&'static str], message: Vec<u8>) -> Self {
        let (method, code, reason) = (CLAIM, Code::InvalidArgument, "INVALID_ARGUMENT");
        Self { what: "a claim", method, message, code, reason, field, words }
    }
}

fn claim() -> v1::ClaimRequest {
    v1::ClaimRequest {
        tenant: TENANT.to_owned(),
        namespace: NAMESPACE.to_owned(),
        key: "good".to_owned(),
        attempt_id: "attempt".to_owned(),
        owner: "bad-input".to_owned(),
        fingerprints: vec![fingerprint("good")],
        ..v1::ClaimRequest::default()
    }
}

fn with(change: impl FnOnce(&mut v1::ClaimRequest)) -> Vec<u8> {
    let mut request = claim();
    change(&mut request);
    request.encode_to_vec()
}

fn seconds(seconds: i64) -> Option<Span> {
    Some(Span { seconds, nanos: 0 })
}

fn keys() -> Vec<Case> {
    let mut missing = claim();
    missing.key = String::new();
    // The key as field 3, which no client of ours could send.
    let not_utf8 = [missing.encode_to_vec(), field(3, &[b'k', 0xff, 0xfe])].concat();
    vec![
        Case::of("key", &["is empty", "send 1 to 512 bytes"], missing.encode_to_vec()),
        Case::of("key", &["is blank"], with(|claim| claim.key = " \t ".to_owned())),
        Case::of("key", &["513 bytes", "at most 512"], with(|claim| claim.key = "k".repeat(513))),
        Case::of("key", &["is 1026 bytes long"], with(|claim| claim.key = "ü".repeat(513))),
        Case::of("key", &["NUL"], with(|claim| claim.key = "a\0b".to_owned())),
        Case::of("key", &["is not UTF-8", "UTF-8"], not_utf8),
    ]
}

fn leases_and_fingerprints() -> Vec<Case> {
    let short = |claim: &mut v1::ClaimRequest| claim.fingerprints[0].digest = vec![1; 5];
    vec![
        Case::of("lease", &["is 0ms", "use 1s to"], with(|claim| claim.lease = seconds(0))),
        Case::of("lease", &["is negative"], with(|claim| claim.lease = seconds(-30))),
        Case::of("lease", &["is 1h 1s", "1h"], with(|c| c.lease = seconds(3_601))),
        Case::of("fingerprints", &["send"], with(|claim| claim.fingerprints.clear())),
        Case::of("fingerprints[0].digest", &["5 bytes", "16 to 64"], with(short)),
    ]
}

fn tenants() -> Vec<Case> {
    let windows = v1::ReplayWindows {
        windows: vec![v1::ReplayWindow { name: "dlq".to_owned(), window: seconds(1_209_600) }],
    };
    let retention = v1::identity_retention::Kind::Duration(Span { seconds: 3_600, nanos: 0 });
    let policy = v1::Policy {
        replay_windows: Some(windows),
        result_retention: seconds(60),
        identity_retention: Some(v1::IdentityRetention { kind: Some(retention) }),
        ..v1::Policy::default()
    };
    let tenant =
        v1::Tenant { name: "forgetful".to_owned(), policy: Some(policy), ..v1::Tenant::default() };
    let create = v1::CreateTenantRequest { tenant: Some(tenant), validate_only: false };
    vec![
        Case {
            what: "a claim of an unknown tenant",
            code: Code::NotFound,
            reason: "TENANT_NOT_FOUND",
            words: &["firstclaim tenant create"],
            ..Case::of("", &[], with(|claim| claim.tenant = "nobody".to_owned()))
        },
        Case {
            what: "a retention shorter than a replay window",
            method: CREATE,
            ..Case::of(
                "policy.identity_retention",
                &["is 1h", "dlq", "use at least 14d 1m"],
                create.encode_to_vec(),
            )
        },
    ]
}

/// Reported elsewhere: case 2, case 55, case 56.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_refused_by_name_and_leave_nothing_behind() {
    let cluster = Cluster::start("bad-input").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = story(&cluster).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn story(cluster: &Cluster) -> Outcome<()> {
    race::set_up(cluster).await?;
    let mut faults = Vec::new();
    let cases: Vec<Case> =
        [keys(), leases_and_fingerprints(), tenants()].into_iter().flatten().collect();
    for case in &cases {
        for node in cluster.nodes() {
            let answer = call(node.channel(), case.method, case.message.clone()).await;
            if let Some(fault) = judge(case, answer) {
                faults.push(format!("{} ({}) at node {}: {fault}", case.what, case.field, node.id));
            }
        }
    }
    typed(cluster, &mut faults).await?;
    nothing_is_left(cluster, &mut faults).await?;
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    say(&format!("bad_input: {} bad requests were refused by each node", cases.len()));
    Ok(())
}

fn judge(case: &Case, answer: Result<Vec<u8>, Status>) -> Option<String> {
    let status = match answer {
        Ok(_) => return Some("was accepted".to_owned()),
        Err(status) => status,
    };
    let details = status.get_error_details();
    let Some(info) = details.error_info() else {
        return Some(format!("{status:?} carries no ErrorInfo"));
    };
    let found = (status.code(), info.reason.as_str());
    if found != (case.code, case.reason) {
        return Some(format!("{found:?}: {}", status.message()));
    }
    let applied = info.metadata.get("applied").map_or("", String::as_str);
    if !["no", "decided"].contains(&applied) || details.retry_info().is_some() {
        return Some(format!("applied is {applied:?}, or the call shall be repeated"));
    }
    let mut text = status.message().to_owned();
    if !case.field.is_empty() {
        let faults = details.bad_request().map_or(&[][..], |bad| &bad.field_violations);
        let fields: Vec<(&str, &str)> =
            faults.iter().map(|f| (f.field.as_str(), f.description.as_str())).collect();
        let [(name, words)] = fields.as_slice() else {
            return Some(format!("{} fields are named, not one: {fields:?}", fields.len()));
        };
        if *name != case.field {
            return Some(format!("the field {name} is named"));
        }
        text.push_str(words);
    }
    let missing = case.words.iter().find(|word| !text.contains(**word));
    missing.map(|word| format!("does not say {word:?}: {text}"))
}

/// The same at the command line: an exit code that scripts know, and a sentence for people.
async fn typed(cluster: &Cluster, faults: &mut Vec<String>) -> Outcome<()> {
    let digest = "00112233445566778899aabbccddeeff";
    let fingerprint = format!("race-v1={digest}");
    let long = "k".repeat(513);
    let claims: [(&[&str], i32, &[&str]); 7] = [
        (&["-K", ""], 2, &["key", "empty"]),
        (&["-K", "  "], 2, &["key", "blank"]),
        (&["-K", &long], 2, &["key", "513 bytes"]),
        (&["-K", "k", "--lease", "0s"], 2, &["lease"]),
        (&["-K", "k", "--lease=-1s"], 2, &["lease"]),
        (&["-K", "k", "--lease", "2h"], 2, &["lease", "is 2h"]),
        (&["-K", "k", "-t", "nobody"], 5, &["TENANT_NOT_FOUND", "firstclaim tenant create"]),
    ];
    for (arguments, code, words) in claims {
        let mut line = vec!["claim", "-n", NAMESPACE, "--fingerprint", &fingerprint];
        if !arguments.contains(&"-t") {
            line.extend(["-t", TENANT]);
        }
        line.extend(arguments);
        expect(cluster, &line, (code, words), faults).await?;
    }
    let line = ["claim", "-n", NAMESPACE, "-t", TENANT, "-K", "k"];
    expect(cluster, &line, (2, &["fingerprint"]), faults).await?;
    let line = ["claim", "-n", NAMESPACE, "-t", TENANT, "-K", "k", "--fingerprint", "a=0011223344"];
    expect(cluster, &line, (2, &["digest"]), faults).await?;
    let line =
        ["tenant", "set", TENANT, "--identity-retention", "25h", "--replay-window", "dlq=14d"];
    expect(cluster, &line, (2, &["identity_retention", "dlq"]), faults).await
}

async fn expect(
    cluster: &Cluster,
    arguments: &[&str],
    (code, words): (i32, &[&str]),
    faults: &mut Vec<String>,
) -> Outcome<()> {
    let mut command = command(cluster.binary());
    command.arg("-E").arg(cluster.node(0).endpoint()).args(arguments);
    let Finished { status, stdout, stderr } = process::run(command, COMMAND_WITHIN).await?;
    let said = words.iter().all(|word| stderr.contains(word));
    let one = stderr.lines().filter(|line| line.starts_with("error:")).count() == 1;
    if status.code() != Some(code) || !said || !one || !stdout.is_empty() {
        let shown = arguments.join(" ");
        faults.push(format!(
            "firstclaim {shown}: {status}, not exit code {code} with {words:?}:\n{stderr}{stdout}"
        ));
    }
    Ok(())
}

/// No key was claimed, no tenant created, no node fell, and a good call still works.
async fn nothing_is_left(cluster: &Cluster, faults: &mut Vec<String>) -> Outcome<()> {
    let client = cluster.client()?;
    for key in ["good", "k", "a\0b"] {
        match client.get((TENANT, NAMESPACE, key), v1::Consistency::Linearizable).await {
            Ok(answer) => faults.push(format!("{key:?} is there: {answer:?}")),
            Err(error)
                if ["RECORD_NOT_FOUND", "INVALID_ARGUMENT"].contains(&error.reason_text()) => {}
            Err(error) => faults.push(format!("read {key:?}: {error}")),
        }
    }
    let request = v1::GetTenantRequest { tenant: "forgetful".to_owned() };
    match client.get_tenant(request).await {
        Err(error) if error.reason_text() == "TENANT_NOT_FOUND" => {}
        other => faults.push(format!("the tenant that was refused: {other:?}")),
    }
    for node in cluster.nodes() {
        if let Err(error) = node.status().await {
            faults.push(format!("node {} does not answer: {error}", node.id));
        }
        if node.output().contains("panicked") {
            faults.push(format!("node {} panicked\n{}", node.id, node.tail()));
        }
    }
    let answer = cluster.node(0).claims().claim(claim()).await;
    let outcome = answer.map_err(|status| status.message().to_owned())?.into_inner().outcome;
    match outcome {
        Some(v1::claim_response::Outcome::Acquired(acquired))
            if acquired.kind() == v1::AcquiredKind::First => {}
        other => faults.push(format!("a good claim was answered {other:?}")),
    }
    readback::same_state(cluster).await?;
    Ok(())
}
