//! Decisions that people answer for, as log lines of the target `audit`.
//!
//! Written by the node that had the log decide them, once each. Never a key: its digest, as all log
//! lines name it.

use firstclaim_core::{Command, RecordRef};

use crate::telemetry::key_digest;

/// A decision, before the log has made it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    action: &'static str,
    tenant: String,
    namespace: String,
    key_digest: String,
    principal: String,
    reason: String,
}

impl Entry {
    /// What of a command is to be told, if anything.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Resolve(it) => {
                Some(Self::record("resolve", &it.record, it.principal.as_str(), &it.reason))
            }
            Command::Revoke(it) => {
                Some(Self::record("revoke", &it.record, it.principal.as_str(), &it.reason))
            }
            Command::Purge(it) => {
                Some(Self::record("purge", &it.record, it.principal.as_str(), &it.reason))
            }
            Command::Reserve(it) => {
                let admit = it.admit.as_ref()?;
                let principal = admit.principal.as_str();
                Some(Self::record("admit", &it.record, principal, &admit.reason))
            }
            Command::ExtendExisting(it) => Some(Self {
                action: "extend_existing",
                tenant: it.tenant.as_str().to_owned(),
                namespace: it.namespace.as_str().to_owned(),
                key_digest: String::new(),
                principal: it.principal.as_str().to_owned(),
                reason: String::new(),
            }),
            Command::DeleteTenant(it) if it.force => Some(Self {
                action: "delete_tenant_force",
                tenant: it.tenant.as_str().to_owned(),
                namespace: String::new(),
                key_digest: String::new(),
                principal: String::new(),
                reason: String::new(),
            }),
            Command::DeleteNamespace(it) if it.force => Some(Self {
                action: "delete_namespace_force",
                tenant: it.tenant.as_str().to_owned(),
                namespace: it.namespace.as_str().to_owned(),
                key_digest: String::new(),
                principal: String::new(),
                reason: String::new(),
            }),
            Command::Claim(_)
            | Command::Renew(_)
            | Command::Complete(_)
            | Command::Release(_)
            | Command::PutTenant(_)
            | Command::PutNamespace(_)
            | Command::DeleteTenant(_)
            | Command::DeleteNamespace(_)
            | Command::Sweep(_)
            | Command::Tick
            | Command::RecordEffect(_)
            | Command::SettleEffect(_)
            | Command::Report(_) => None,
        }
    }

    /// A key that was unbound is bound to another request.
    pub(crate) fn rebound(record: &RecordRef, owner: &str) -> Self {
        Self::record("rebound", record, owner, "")
    }

    fn record(action: &'static str, record: &RecordRef, principal: &str, reason: &str) -> Self {
        Self {
            action,
            tenant: record.tenant.as_str().to_owned(),
            namespace: record.namespace.as_str().to_owned(),
            key_digest: key_digest(record),
            principal: principal.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Tells it, now that it is decided; `refused` is the reason if it was not done.
    pub(crate) fn tell(&self, refused: Option<&'static str>) {
        tracing::info!(
            target: "audit",
            action = self.action,
            tenant = self.tenant,
            namespace = self.namespace,
            key_digest = self.key_digest,
            principal = self.principal,
            reason = self.reason,
            outcome = refused.unwrap_or("done"),
            "audit"
        );
    }
}

#[cfg(test)]
mod tests {
    use firstclaim_core::command::{
        Admission, DeleteNamespace, DeleteTenant, ExtendExisting, Purge, Reserve, Revoke,
    };
    use firstclaim_core::name::Principal;
    use firstclaim_core::{Epoch, FingerprintSet, Labels, NamespaceName, TenantName};

    use super::*;

    fn record() -> RecordRef {
        RecordRef {
            tenant: TenantName::parse("acme").expect("a name"),
            namespace: NamespaceName::parse("payouts").expect("a name"),
            key: "secret-key".to_owned().try_into().expect("a key"),
        }
    }

    fn ann() -> Principal {
        Principal::parse("ann").expect("a principal")
    }

    fn reserve(admit: Option<Admission>) -> Command {
        Command::Reserve(Reserve {
            record: record(),
            fingerprints: FingerprintSet::default(),
            intent_time: None,
            labels: Labels::default(),
            allow_duplicate_intent: false,
            admit,
        })
    }

    /// Reported elsewhere: case 95.
    #[test]
    fn decisions_of_people_are_told_with_who_and_why_and_never_with_a_key() {
        let reason = || "asked to".to_owned();
        let (tenant, namespace) = (record().tenant, record().namespace);
        let commands = [
            (
                "revoke",
                Command::Revoke(Revoke {
                    record: record(),
                    epoch: Epoch(7),
                    reason: reason(),
                    principal: ann(),
                }),
            ),
            (
                "purge",
                Command::Purge(Purge {
                    record: record(),
                    expected_epoch: Epoch(7),
                    reason: reason(),
                    principal: ann(),
                }),
            ),
            ("admit", reserve(Some(Admission { principal: ann(), reason: reason() }))),
            (
                "extend_existing",
                Command::ExtendExisting(ExtendExisting {
                    tenant: tenant.clone(),
                    namespace: namespace.clone(),
                    after: None,
                    limit: 1,
                    principal: ann(),
                }),
            ),
        ];
        for (action, command) in commands {
            let entry = Entry::of(&command).expect("told");
            assert_eq!((entry.action, entry.principal.as_str()), (action, "ann"));
            assert!(!format!("{entry:?}").contains("secret-key"), "{entry:?}");
            if action != "extend_existing" {
                assert_eq!(entry.key_digest, key_digest(&record()));
                assert_eq!(entry.reason, "asked to");
            }
        }
        let rebound = Entry::rebound(&record(), "worker-1");
        assert_eq!((rebound.action, rebound.principal.as_str()), ("rebound", "worker-1"));
        assert!(!format!("{rebound:?}").contains("secret-key"), "{rebound:?}");
    }

    #[test]
    fn only_a_forced_deletion_and_an_admission_are_told() {
        let tenant = record().tenant;
        let delete = |force| {
            let (tenant, expected) = (tenant.clone(), None);
            Entry::of(&Command::DeleteTenant(DeleteTenant { tenant, expected, force }))
        };
        assert!(delete(false).is_none());
        assert_eq!(delete(true).expect("told").action, "delete_tenant_force");
        let forced = Command::DeleteNamespace(DeleteNamespace {
            tenant: tenant.clone(),
            namespace: record().namespace,
            expected: None,
            force: true,
        });
        assert_eq!(Entry::of(&forced).expect("told").action, "delete_namespace_force");
        assert!(Entry::of(&reserve(None)).is_none());
        assert!(Entry::of(&Command::Tick).is_none());
    }
}
