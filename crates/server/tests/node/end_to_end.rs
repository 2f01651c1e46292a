//! Three nodes answer over real gRPC: claims, replays, forwarding, policy, probes, going down.

use std::collections::BTreeSet;

use crate::three::{Three, claim, complete, http_get, info};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use firstclaim_proto::v1::cluster_service_client::ClusterServiceClient;
use tonic::{Code, Request};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt as _;

/// Reported elsewhere: case 46, case 67.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_claim_wins_and_everybody_else_gets_its_result() {
    let three = Three::start().await;
    three.seed(three.follower().await).await;

    // A race on each key from all nodes: one FIRST, the others wait.
    let mut races = tokio::task::JoinSet::new();
    for at in 0..60_u64 {
        let mut client = three.claims(at % 3 + 1);
        let (key, attempt) = (format!("intent-{}", at / 6), format!("attempt-{at}"));
        races.spawn(async move {
            let answer = client.claim(claim(&key, &attempt)).await.expect("an answer");
            (key, attempt, answer.into_inner().outcome.expect("an outcome"))
        });
    }
    let mut first = Vec::new();
    while let Some(raced) = races.join_next().await {
        match raced.expect("joined") {
            (key, attempt, Outcome::Acquired(acquired)) => {
                assert_eq!(acquired.kind(), v1::AcquiredKind::First);
                first.push((key, attempt, acquired.epoch));
            }
            (_, _, Outcome::Pending(pending)) => {
                let wait = pending.retry_after.expect("a wait");
                assert!(wait.seconds > 0 || wait.nanos > 0, "{wait:?}");
            }
            (key, _, other) => panic!("{key}: {other:?}"),
        }
    }
    let keys: BTreeSet<&String> = first.iter().map(|(key, _, _)| key).collect();
    assert_eq!((first.len(), keys.len()), (10, 10), "{first:?}");

    // The same attempt again, at another node, holds the same epoch.
    let (key, attempt, epoch) = first[0].clone();
    for node in 1..=3 {
        let again = three.claims(node).claim(claim(&key, &attempt)).await.expect("an answer");
        let Some(Outcome::Acquired(held)) = again.into_inner().outcome else {
            panic!("node {node} does not know its holder")
        };
        assert_eq!((held.kind(), held.epoch), (v1::AcquiredKind::AlreadyHeld, epoch));
    }

    // Completed by way of a follower; replayed by every node.
    let follower = three.follower().await;
    let done = complete(&key, &attempt, epoch, b"paid");
    three.claims(follower).complete(done.clone()).await.expect("completed");
    three.claims(three.leader().await).complete(done).await.expect("the same answer again");
    for node in 1..=3 {
        let again = three.claims(node).claim(claim(&key, "later")).await.expect("an answer");
        let Some(Outcome::Replay(replay)) = again.into_inner().outcome else {
            panic!("node {node} does not replay")
        };
        let completion = replay.completion.expect("a completion");
        let body = completion.result.expect("a result").body;
        assert_eq!(body, Some(v1::result::Body::Inline(b"paid".to_vec())));
    }

    // A fingerprint is compared on every path, the local one included.
    for node in 1..=3 {
        let mut other = claim(&key, "later");
        other.fingerprints[0].digest = vec![8; 32];
        let error = three.claims(node).claim(other).await.expect_err("another request");
        assert_eq!(error.code(), Code::FailedPrecondition, "{error:?}");
        let info = info(&error);
        assert_eq!(info.reason, "FINGERPRINT_MISMATCH");
        assert_eq!(info.metadata["applied"], "decided");
        assert!(error.get_details_retry_info().is_none());
    }

    // Followers answered from their own state once they had applied the completion.
    three.claims(follower).claim(claim(&key, "latest")).await.expect("an answer");
    let (_, metrics) = http_get(&three.nodes[&follower], "/metrics").await;
    let local = "firstclaim_replays_total{tenant=\"acme\",namespace=\"payouts\",path=\"local\"}";
    assert!(metrics.contains(local), "{metrics}");
    assert!(metrics.contains("firstclaim_forwards_total{outcome=\"answered\"}"), "{metrics}");
    three.stop().await;
}

/// Reported elsewhere: case 94.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_policy_and_operations_are_served_by_every_node() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    reads(&three, follower).await;
    policy(&three, follower).await;
    operations(&three, leader, follower).await;
    probes(&three, follower).await;
    three.stop().await;
}

async fn reads(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let get = |key: &str, consistency: v1::Consistency| v1::GetRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.to_owned(),
        consistency: consistency.into(),
    };
    let absent = claims.get(get("nothing", v1::Consistency::Linearizable)).await;
    let absent = absent.expect_err("absent");
    assert_eq!(absent.code(), Code::NotFound);
    assert_eq!(info(&absent).reason, "RECORD_NOT_FOUND");

    claims.claim(claim("seen", "one")).await.expect("an answer");
    let seen = claims.get(get("seen", v1::Consistency::Linearizable)).await.expect("found");
    let seen = seen.into_inner();
    let record = seen.record.expect("a record");
    assert_eq!(record.state(), v1::RecordState::Claimed);
    assert!(seen.applied_index > 0 && seen.store_time.is_some());
    let local = claims.get(get("seen", v1::Consistency::Local)).await.expect("found");
    assert_eq!(local.into_inner().record.expect("a record").epoch, record.epoch);

    let mut nowhere = get("seen", v1::Consistency::Local);
    nowhere.tenant = "nobody".to_owned();
    let error = claims.get(nowhere).await.expect_err("no tenant");
    assert_eq!(info(&error).reason, "TENANT_NOT_FOUND");
}

async fn policy(three: &Three, node: u64) {
    let mut tenants = three.tenants(node);
    let change = |policy: v1::Policy, etag: &str, paths: &[&str]| v1::UpdateTenantRequest {
        tenant: Some(v1::Tenant {
            name: "acme".to_owned(),
            policy: Some(policy),
            etag: etag.to_owned(),
            ..v1::Tenant::default()
        }),
        update_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }),
        validate_only: false,
    };
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let lease = v1::Policy { lease_default: seconds(7), ..v1::Policy::default() };
    let mut trial = change(lease.clone(), "", &[]);
    trial.validate_only = true;
    let would = tenants.update_tenant(trial).await.expect("valid").into_inner();
    assert_eq!(would.changes.len(), 1, "{would:?}");

    let get = v1::GetTenantRequest { tenant: "acme".to_owned() };
    let before = tenants.get_tenant(get.clone()).await.expect("found").into_inner();
    let before = before.tenant.expect("a tenant");
    let effective = before.effective_policy.expect("a policy");
    assert_eq!(effective.lease_default, seconds(30), "validate_only changed something");

    tenants.update_tenant(change(lease, "", &[])).await.expect("changed");
    let after = tenants.get_tenant(get.clone()).await.expect("found").into_inner();
    let after = after.tenant.expect("a tenant");
    assert_eq!(after.effective_policy.expect("a policy").lease_default, seconds(7));

    let stale = change(v1::Policy::default(), &before.etag, &["policy.lease_default"]);
    let error = tenants.update_tenant(stale).await.expect_err("another version");
    assert_eq!((error.code(), info(&error).reason.as_str()), (Code::Aborted, "ETAG_MISMATCH"));

    let reset = change(v1::Policy::default(), &after.etag, &["policy.lease_default"]);
    let reset = tenants.update_tenant(reset).await.expect("changed").into_inner();
    let reset = reset.tenant.expect("a tenant").effective_policy.expect("a policy");
    assert_eq!(reset.lease_default, seconds(30));

    refused_policy(three, node).await;
    listed(three, node).await;
}

fn update_of(policy: v1::Policy) -> v1::UpdateTenantRequest {
    let tenant = v1::Tenant { policy: Some(policy), ..acme() };
    v1::UpdateTenantRequest { tenant: Some(tenant), ..v1::UpdateTenantRequest::default() }
}

async fn refused_policy(three: &Three, node: u64) {
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let short = v1::Policy {
        identity_retention: Some(v1::IdentityRetention {
            kind: Some(v1::identity_retention::Kind::Duration(prost_types::Duration {
                seconds: 3600,
                nanos: 0,
            })),
        }),
        result_retention: seconds(60),
        replay_windows: Some(v1::ReplayWindows {
            windows: vec![v1::ReplayWindow {
                name: "dlq".to_owned(),
                window: seconds(14 * 24 * 3600),
            }],
        }),
        ..v1::Policy::default()
    };
    let error = three.tenants(node).update_tenant(update_of(short)).await.expect_err("too short");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("identity_retention"), "{}", error.message());
}

async fn listed(three: &Three, node: u64) {
    let mut tenants = three.tenants(node);
    let page = v1::ListNamespacesRequest {
        tenant: "acme".to_owned(),
        page_size: 1,
        page_token: String::new(),
    };
    let listed = tenants.list_namespaces(page).await.expect("listed").into_inner();
    assert_eq!(listed.namespaces.len(), 1);
    assert_eq!(listed.next_page_token, "");
    let page = v1::ListTenantsRequest { page_size: 1, page_token: String::new() };
    let listed = tenants.list_tenants(page).await.expect("listed").into_inner();
    assert_eq!(listed.tenants[0].name, "acme");

    let delete = v1::DeleteTenantRequest { tenant: "acme".to_owned(), ..Default::default() };
    let error = tenants.delete_tenant(delete).await.expect_err("a claim is live");
    assert_eq!(info(&error).reason, "STILL_IN_USE");
    let again = v1::CreateTenantRequest { tenant: Some(acme()), validate_only: false };
    let error = tenants.create_tenant(again).await.expect_err("taken");
    assert_eq!(error.code(), Code::AlreadyExists);
}

fn acme() -> v1::Tenant {
    v1::Tenant { name: "acme".to_owned(), ..v1::Tenant::default() }
}

async fn operations(three: &Three, leader: u64, follower: u64) {
    let mut cluster = ClusterServiceClient::new(three.channels[&leader].clone());
    let members = cluster.list_members(v1::ListMembersRequest {}).await.expect("members");
    let members = members.into_inner();
    assert_eq!(members.leader_id, Some(leader));
    assert_eq!(members.members.len(), 3);
    assert!(members.members.iter().all(|member| member.voter), "{members:?}");

    let made = cluster.trigger_snapshot(v1::TriggerSnapshotRequest {}).await.expect("made");
    let made = made.into_inner().snapshot_index;
    assert!(made > 0);
    let purge = v1::PurgeLogRequest { up_to_index: u64::MAX };
    let purged = cluster.purge_log(purge).await.expect("purged").into_inner().purged_index;
    assert!(purged <= made && purged > 0, "{purged} of {made}");

    // Two nodes at one index have one state.
    let mut other = ClusterServiceClient::new(three.channels[&follower].clone());
    for _ in 0..50 {
        let one = cluster.get_state_hash(v1::GetStateHashRequest {}).await.expect("hashed");
        let two = other.get_state_hash(v1::GetStateHashRequest {}).await.expect("hashed");
        let (one, two) = (one.into_inner(), two.into_inner());
        if one.applied_index == two.applied_index {
            assert_eq!(one.sha256, two.sha256);
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the nodes were never seen at one index");
}

async fn probes(three: &Three, node: u64) {
    let server = &three.nodes[&node];
    assert_eq!(http_get(server, "/healthz").await, ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(http_get(server, "/readyz").await, ("HTTP/1.1 200 OK".into(), "ready\n".into()));
    let (_, metrics) = http_get(server, "/metrics").await;
    assert!(metrics.contains("firstclaim_raft_has_leader 1"), "{metrics}");

    // A call that was forwarded once goes no further, and says where the leader is.
    let mut request = Request::new(claim("hop", "one"));
    request.metadata_mut().insert("firstclaim-hop", "1".parse().expect("ascii"));
    let error = three.claims(node).claim(request).await.expect_err("not the leader");
    let info = info(&error);
    assert_eq!((error.code(), info.reason.as_str()), (Code::Unavailable, "NO_LEADER"));
    assert_eq!(info.metadata["applied"], "no");
    assert!(info.metadata["leader_endpoint"].starts_with("http://127.0.0.1:"), "{info:?}");
    assert!(info.metadata.contains_key("leader_region"));
    assert!(error.get_details_retry_info().is_some());

    let mut reflection = ServerReflectionClient::new(three.channels[&node].clone());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = reflection.server_reflection_info(tokio_stream::once(ask)).await;
    let answer = answers.expect("answered").into_inner().message().await.expect("a message");
    let Some(MessageResponse::ListServicesResponse(services)) =
        answer.and_then(|answer| answer.message_response)
    else {
        panic!("no services")
    };
    let names: Vec<&str> = services.service.iter().map(|one| one.name.as_str()).collect();
    for service in ["ClaimService", "RecordService", "TenantService", "ClusterService"] {
        assert!(names.contains(&format!("firstclaim.v1.{service}").as_str()), "{names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("peer")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_goes_down_hands_over_and_its_writes_stay() {
    let mut three = Three::start().await;
    let leader = three.leader().await;
    three.seed(leader).await;
    let granted = three.claims(leader).claim(claim("kept", "one")).await.expect("an answer");
    let Some(Outcome::Acquired(granted)) = granted.into_inner().outcome else {
        panic!("not acquired")
    };

    let gone = three.nodes.remove(&leader).expect("the leader");
    gone.shutdown().await;
    gone.stopped().await.expect("it was asked to stop");
    drop(gone);
    three.channels.remove(&leader);

    let next = three.leader().await;
    assert_ne!(next, leader);
    let follower = three.follower().await;
    let done = complete("kept", "one", granted.epoch, b"done");
    three.claims(follower).complete(done).await.expect("the grant outlives its leader");
    let again = three.claims(next).claim(claim("kept", "two")).await.expect("an answer");
    assert!(matches!(again.into_inner().outcome, Some(Outcome::Replay(_))));
    three.stop().await;
}
