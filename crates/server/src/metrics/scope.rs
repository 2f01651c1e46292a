//! Which tenant and namespace something is counted under: a bounded number of names.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use firstclaim_core::{NamespaceName, TenantName};
use prometheus_client::encoding::EncodeLabelSet;

use super::catalogue::SCOPES_MAX;

/// What everything beyond the bound is counted under.
const OTHER: &str = "other";

/// The labels of one tenant's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct Scope {
    pub(crate) tenant: String,
    pub(crate) namespace: String,
}

/// The scopes that have a name of their own.
#[derive(Debug, Default)]
pub(super) struct Scopes(Mutex<BTreeSet<Scope>>);

impl Scopes {
    /// The labels to count under. Only for namespaces that exist: callers must not be able to use the
    /// names up.
    pub(super) fn of(&self, tenant: &TenantName, namespace: &NamespaceName) -> Scope {
        let scope =
            Scope { tenant: tenant.as_str().to_owned(), namespace: namespace.as_str().to_owned() };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&scope) {
            return scope;
        }
        if known.len() >= SCOPES_MAX {
            return Scope { tenant: OTHER.to_owned(), namespace: OTHER.to_owned() };
        }
        known.insert(scope.clone());
        scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let scopes = Scopes::default();
        let tenant = TenantName::parse("acme").expect("a name");
        let name = |at: usize| NamespaceName::parse(format!("n{at}")).expect("a name");
        for at in 0..SCOPES_MAX {
            assert_eq!(scopes.of(&tenant, &name(at)).namespace, format!("n{at}"));
        }
        assert_eq!(scopes.of(&tenant, &name(SCOPES_MAX)).namespace, OTHER);
        assert_eq!(scopes.of(&tenant, &name(7)).namespace, "n7");
    }
}
