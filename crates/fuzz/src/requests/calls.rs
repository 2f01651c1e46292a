//! Calls that become commands. What was read is written and read back the same, and goes through
//! the log.

use std::fmt::Debug;

use firstclaim_core::command::{
    DeleteNamespace, DeleteTenant, PutMode, PutNamespace, PutTenant, Reserve,
};
use firstclaim_core::name::Region;
use firstclaim_core::{Command, Millis, PolicyPatch, limits};
use firstclaim_proto::convert::claim::{self, Asked};
use firstclaim_proto::convert::tenant::{NamespaceChange, TenantChange};
use firstclaim_proto::convert::{
    Faults, batch, dispatch, holder, operator, policy, reads, reserve, resolve, settle, tenant,
};
use firstclaim_proto::v1;
use firstclaim_proto::weigh::Shaped;
use firstclaim_replica::fuzzing::log;
use prost::Message;

use crate::wire::{decoded, sent};

/// A call's name, and what reads its message.
pub(super) type Call = (&'static str, fn(&[u8]) -> bool);

/// The calls, in the order of the byte that chooses one. Kept inputs know the order: add at the end
/// of the list in `reading.rs`.
pub(super) const CALLS: &[Call] = &[
    ("claim", |bytes| {
        call(bytes, read_claim, claim::request, |asked| vec![Command::Claim(asked.claim.clone())])
    }),
    ("renew", |bytes| one(bytes, holder::read_renew, holder::renew_request, Command::Renew)),
    ("complete", |bytes| {
        one(bytes, holder::read_complete, holder::complete_request, Command::Complete)
    }),
    ("release", |bytes| {
        one(bytes, holder::read_release, holder::release_request, Command::Release)
    }),
    ("record effect", |bytes| {
        let (read, write) = (dispatch::read_record_effect, dispatch::record_effect_request);
        one(bytes, read, write, Command::RecordEffect)
    }),
    ("settle effect", |bytes| one(bytes, settle::read, settle::request, Command::SettleEffect)),
    ("reserve", |bytes| one(bytes, reserve::read, reserve::request, Command::Reserve)),
    ("admit", |bytes| one(bytes, reserve::read_admit, admit_request, Command::Reserve)),
    ("resolve", |bytes| one(bytes, resolve::read, resolve::request, Command::Resolve)),
    ("revoke", |bytes| {
        one(bytes, operator::read_revoke, operator::revoke_request, Command::Revoke)
    }),
    ("purge", |bytes| one(bytes, operator::read_purge, operator::purge_request, Command::Purge)),
    ("extend existing", |bytes| {
        let (read, write) = (operator::read_extend, operator::extend_request);
        one(bytes, read, write, Command::ExtendExisting)
    }),
    ("report", |bytes| one(bytes, reads::read_report, reads::report_request, Command::Report)),
    ("put tenant", |bytes| {
        call(bytes, read_tenant, write_tenant, |change| vec![put_tenant(change)])
    }),
    ("put namespace", |bytes| {
        call(bytes, read_namespace, write_namespace, |change| vec![put_namespace(change)])
    }),
    ("delete tenant", |bytes| {
        let write = |delete: DeleteTenant| v1::DeleteTenantRequest {
            tenant: delete.tenant.into(),
            etag: delete.expected.map(|etag| etag.to_string()).unwrap_or_default(),
            force: delete.force,
        };
        one(bytes, tenant::read_delete_tenant, write, Command::DeleteTenant)
    }),
    ("delete namespace", |bytes| {
        let write = |delete: DeleteNamespace| v1::DeleteNamespaceRequest {
            tenant: delete.tenant.into(),
            namespace: delete.namespace.into(),
            etag: delete.expected.map(|etag| etag.to_string()).unwrap_or_default(),
            force: delete.force,
        };
        one(bytes, tenant::read_delete_namespace, write, Command::DeleteNamespace)
    }),
    ("claim batch", claims),
    ("complete batch", completions),
];

/// Takes a command into the log. A server refuses a longer call.
fn logged(command: &Command, call_bytes: usize) {
    if call_bytes <= limits::COMMAND_BYTES_MAX {
        let _payload = log(command, call_bytes);
    }
}

fn one<M, T>(
    bytes: &[u8],
    read: impl Fn(M) -> Result<T, Faults>,
    write: impl Fn(T) -> M,
    command: fn(T) -> Command,
) -> bool
where
    M: Shaped + PartialEq + Debug,
    T: Clone + PartialEq + Debug,
{
    call(bytes, read, write, |read| vec![command(read.clone())])
}

fn call<M, T>(
    bytes: &[u8],
    read: impl Fn(M) -> Result<T, Faults>,
    write: impl Fn(T) -> M,
    commands: impl Fn(&T) -> Vec<Command>,
) -> bool
where
    M: Shaped + PartialEq + Debug,
    T: Clone + PartialEq + Debug,
{
    let Some(message) = decoded::<M>(bytes) else { return false };
    let size = message.encoded_len();
    let Some(asked) = accepted(read(message)) else { return false };
    assert_eq!(read(sent(&write(asked.clone()))).as_ref(), Ok(&asked));
    for command in commands(&asked) {
        logged(&command, size);
    }
    true
}

/// What was read, if nothing was wrong; else something is said to be.
pub(crate) fn accepted<T>(read: Result<T, Faults>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(faults) => {
            assert!(!faults.all().is_empty(), "it is refused without a reason");
            assert!(!faults.to_string().is_empty());
            None
        }
    }
}

fn region() -> Region {
    Region::unknown()
}

fn read_claim(request: v1::ClaimRequest) -> Result<Asked, Faults> {
    claim::read(request, region())
}

fn admit_request(reserve: Reserve) -> v1::AdmitRequest {
    let admission = reserve.admit.clone().expect("an admission was read");
    reserve::admit_request(reserve, admission)
}

fn read_tenant(request: v1::UpdateTenantRequest) -> Result<TenantChange, Faults> {
    let mask = request.update_mask;
    let mut change = tenant::read_tenant_change(request.tenant)?;
    change.policy = policy::update(&PolicyPatch::default(), &change.policy, mask.as_ref())?;
    Ok(change)
}

fn write_tenant(change: TenantChange) -> v1::UpdateTenantRequest {
    let tenant = v1::Tenant {
        name: change.tenant.into(),
        policy: Some(policy::patch(&change.policy)),
        etag: change.expected.map(|etag| etag.to_string()).unwrap_or_default(),
        ..Default::default()
    };
    v1::UpdateTenantRequest { tenant: Some(tenant), ..Default::default() }
}

fn put_tenant(change: &TenantChange) -> Command {
    Command::PutTenant(PutTenant {
        tenant: change.tenant.clone(),
        policy: change.policy.clone(),
        mode: PutMode::Update { expected: change.expected },
        validate_only: false,
    })
}

fn read_namespace(request: v1::UpdateNamespaceRequest) -> Result<NamespaceChange, Faults> {
    let mask = request.update_mask;
    let mut change = tenant::read_namespace_change(request.namespace)?;
    change.policy = policy::update(&PolicyPatch::default(), &change.policy, mask.as_ref())?;
    Ok(change)
}

fn write_namespace(change: NamespaceChange) -> v1::UpdateNamespaceRequest {
    let namespace = v1::Namespace {
        tenant: change.tenant.into(),
        name: change.namespace.into(),
        policy: Some(policy::patch(&change.policy)),
        etag: change.expected.map(|etag| etag.to_string()).unwrap_or_default(),
        ..Default::default()
    };
    v1::UpdateNamespaceRequest { namespace: Some(namespace), ..Default::default() }
}

fn put_namespace(change: &NamespaceChange) -> Command {
    Command::PutNamespace(PutNamespace {
        tenant: change.tenant.clone(),
        namespace: change.namespace.clone(),
        policy: change.policy.clone(),
        mode: PutMode::Update { expected: change.expected },
        validate_only: false,
    })
}

fn claims(bytes: &[u8]) -> bool {
    let Some(message) = decoded::<v1::ClaimBatchRequest>(bytes) else { return false };
    let sizes: Vec<usize> = message.items.iter().map(Message::encoded_len).collect();
    let Some(items) = accepted(batch::read_claims(message, &region())) else { return false };
    for (item, size) in items.into_iter().zip(sizes) {
        let Some(claim) = accepted(item) else { continue };
        let asked = Asked { claim: claim.clone(), wait: Millis(0) };
        assert_eq!(read_claim(sent(&claim::request(asked.clone()))), Ok(asked));
        logged(&Command::Claim(claim), size);
    }
    true
}

fn completions(bytes: &[u8]) -> bool {
    let Some(message) = decoded::<v1::CompleteBatchRequest>(bytes) else { return false };
    let sizes: Vec<usize> = message.items.iter().map(Message::encoded_len).collect();
    let Some(items) = accepted(batch::read_completions(message)) else { return false };
    for (item, size) in items.into_iter().zip(sizes) {
        let Some(complete) = accepted(item) else { continue };
        let wire = holder::complete_request(complete.clone());
        assert_eq!(holder::read_complete(sent(&wire)).as_ref(), Ok(&complete));
        logged(&Command::Complete(complete), size);
    }
    true
}

/// The call that asks for a command, and the bytes of its message; none for what no call asks for.
#[must_use]
pub fn message_of(command: Command) -> Option<(&'static str, Vec<u8>)> {
    Some(match command {
        Command::Claim(claim) => {
            ("claim", claim::request(Asked { claim, wait: Millis(0) }).encode_to_vec())
        }
        Command::Renew(it) => ("renew", holder::renew_request(it).encode_to_vec()),
        Command::Complete(it) => ("complete", holder::complete_request(it).encode_to_vec()),
        Command::Release(it) => ("release", holder::release_request(it).encode_to_vec()),
        Command::RecordEffect(it) => {
            ("record effect", dispatch::record_effect_request(it).encode_to_vec())
        }
        Command::SettleEffect(it) => ("settle effect", settle::request(it).encode_to_vec()),
        Command::Reserve(it) if it.admit.is_some() => ("admit", admit_request(it).encode_to_vec()),
        Command::Reserve(it) => ("reserve", reserve::request(it).encode_to_vec()),
        Command::Resolve(it) => ("resolve", resolve::request(it).encode_to_vec()),
        Command::Revoke(it) => ("revoke", operator::revoke_request(it).encode_to_vec()),
        Command::Purge(it) => ("purge", operator::purge_request(it).encode_to_vec()),
        Command::ExtendExisting(it) => {
            ("extend existing", operator::extend_request(it).encode_to_vec())
        }
        Command::Report(it) => ("report", reads::report_request(it).encode_to_vec()),
        Command::PutTenant(PutTenant { tenant, policy, .. }) => {
            let change = TenantChange { tenant, policy, expected: None };
            ("put tenant", write_tenant(change).encode_to_vec())
        }
        Command::PutNamespace(PutNamespace { tenant, namespace, policy, .. }) => {
            let change = NamespaceChange { tenant, namespace, policy, expected: None };
            ("put namespace", write_namespace(change).encode_to_vec())
        }
        Command::DeleteTenant(it) => {
            let request =
                v1::DeleteTenantRequest { tenant: it.tenant.into(), ..Default::default() };
            ("delete tenant", request.encode_to_vec())
        }
        Command::DeleteNamespace(it) => {
            let request = v1::DeleteNamespaceRequest {
                tenant: it.tenant.into(),
                namespace: it.namespace.into(),
                ..Default::default()
            };
            ("delete namespace", request.encode_to_vec())
        }
        Command::Sweep(_) | Command::Tick => return None,
    })
}
