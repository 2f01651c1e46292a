//! Checked names: nothing behind these types is "maybe valid".

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::limits;

/// Declares a checked string: its rule is applied by `parse` and by decoding alike.
macro_rules! checked_string {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text` and takes it in.
            ///
            /// # Errors
            ///
            /// [`Invalid`], naming the field, the rule and what to do.
            pub fn parse(text: impl Into<String>) -> Result<Self, Invalid> {
                let text = text.into();
                $check(&text)?;
                Ok(Self(text))
            }

            /// The text, exactly as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_string! {
    /// Owner of policy and quota: `[a-z0-9-]`, 1–63 bytes.
    TenantName, check_tenant
}
checked_string! {
    /// A group of operations inside a tenant: `[a-z0-9._-]`, 1–128 bytes.
    NamespaceName, check_namespace
}
checked_string! {
    /// Names one business intent.
    ///
    /// A key is chosen where the intent becomes stable and travels unchanged with every retry of
    /// it; it never names an attempt, a request or a delivery. Its bytes are compared exactly: no
    /// trimming, no case folding. 1–512 bytes of UTF-8, not blank, without NUL.
    IdempotencyKey, check_key
}
checked_string! {
    /// One try of one process incarnation of one worker: 1–64 visible ASCII characters.
    ///
    /// Minted by the caller once per try, kept over transport retries, never derived from the
    /// message.
    AttemptId, check_attempt_id
}
checked_string! {
    /// Says who holds a claim, for people to read: at most 128 bytes, one process incarnation.
    OwnerLabel, check_owner
}
checked_string! {
    /// Names how a fingerprint was computed, its selector's version included: `[a-z0-9._/+-]`,
    /// 1–64 bytes.
    Scheme, check_scheme
}

checked_string! {
    /// The caller's name for one effect of a record: 1–64 visible ASCII characters.
    EffectId, check_effect_id
}
checked_string! {
    /// Names a group of effects that exclude each other: 1–64 visible ASCII characters.
    SlotName, check_slot
}
checked_string! {
    /// Names the system that an effect is sent to: 1–128 visible ASCII characters.
    ProviderName, check_provider
}
checked_string! {
    /// The key by which a provider tells repeats of one effect: 1–512 visible ASCII characters.
    ProviderKey, check_provider_key
}
checked_string! {
    /// Who settled, resolved, revoked, admitted or purged, for people: at most 128 bytes.
    Principal, check_principal
}
checked_string! {
    /// The region that a call came in at, for people: at most 63 bytes.
    Region, check_region
}

impl SlotName {
    /// The slot of an effect that names none: so by default all effects of a record exclude each
    /// other.
    #[must_use]
    pub fn default_slot() -> Self {
        Self("default".to_owned())
    }
}

impl From<&OwnerLabel> for Principal {
    /// A holder that settles in its own name. The rule of both is the same.
    fn from(owner: &OwnerLabel) -> Self {
        Self(owner.0.clone())
    }
}

impl From<&Principal> for OwnerLabel {
    /// A person or service in a place where a holder would stand. The rule of both is the same.
    fn from(principal: &Principal) -> Self {
        Self(principal.0.clone())
    }
}

impl Region {
    /// The region of a call that came in nowhere in particular.
    #[must_use]
    pub fn unknown() -> Self {
        Self("unknown".to_owned())
    }
}

fn check_bytes(field: &str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty", format!("send 1 to {max} bytes")));
    }
    if text.len() > max {
        let problem = format!("is {} bytes long", text.len());
        return Err(Invalid::new(field, problem, format!("use at most {max} bytes")));
    }
    Ok(())
}

fn check_alphabet(field: &str, text: &str, extra: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || extra.contains(c);
    match text.chars().find(|c| !allowed(*c)) {
        None => Ok(()),
        Some(c) => Err(Invalid::new(
            field,
            format!("holds {c:?}"),
            format!("use only a-z, 0-9 and {extra:?}"),
        )),
    }
}

fn check_tenant(text: &str) -> Result<(), Invalid> {
    check_bytes("tenant", text, limits::TENANT_BYTES_MAX)?;
    check_alphabet("tenant", text, "-")
}

fn check_namespace(text: &str) -> Result<(), Invalid> {
    check_bytes("namespace", text, limits::NAMESPACE_BYTES_MAX)?;
    check_alphabet("namespace", text, "._-")
}

fn check_key(text: &str) -> Result<(), Invalid> {
    check_bytes("key", text, limits::KEY_BYTES_MAX)?;
    if text.trim().is_empty() {
        let fix = "send the name of the business intent; a blank key would be shared by all";
        return Err(Invalid::new("key", "is blank", fix));
    }
    if text.contains('\0') {
        return Err(Invalid::new("key", "holds a NUL byte", "leave NUL bytes out"));
    }
    Ok(())
}

fn check_visible(field: &str, text: &str, max: usize, fix: &str) -> Result<(), Invalid> {
    check_bytes(field, text, max)?;
    match text.chars().find(|c| !c.is_ascii_graphic()) {
        None => Ok(()),
        Some(c) => Err(Invalid::new(field, format!("holds {c:?}"), fix)),
    }
}

fn check_attempt_id(text: &str) -> Result<(), Invalid> {
    let fix = "use visible ASCII without spaces, such as a UUID minted for this try";
    check_visible("attempt_id", text, limits::ATTEMPT_ID_BYTES_MAX, fix)
}

const VISIBLE: &str = "use visible ASCII without spaces";

fn check_effect_id(text: &str) -> Result<(), Invalid> {
    check_visible("effect_id", text, limits::EFFECT_ID_BYTES_MAX, VISIBLE)
}

fn check_slot(text: &str) -> Result<(), Invalid> {
    check_visible("slot", text, limits::EFFECT_ID_BYTES_MAX, VISIBLE)
}

fn check_provider(text: &str) -> Result<(), Invalid> {
    check_visible("provider", text, limits::PROVIDER_BYTES_MAX, VISIBLE)
}

fn check_provider_key(text: &str) -> Result<(), Invalid> {
    check_visible("provider_key", text, limits::PROVIDER_KEY_BYTES_MAX, VISIBLE)
}

fn check_label(field: &str, text: &str, max: usize) -> Result<(), Invalid> {
    check_bytes(field, text, max)?;
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Invalid::new(field, format!("holds {c:?}"), "leave control characters out")),
    }
}

fn check_owner(text: &str) -> Result<(), Invalid> {
    check_label("owner", text, limits::OWNER_BYTES_MAX)
}

fn check_principal(text: &str) -> Result<(), Invalid> {
    check_label("principal", text, limits::PRINCIPAL_BYTES_MAX)
}

fn check_region(text: &str) -> Result<(), Invalid> {
    check_label("region", text, limits::REGION_BYTES_MAX)
}

fn check_scheme(text: &str) -> Result<(), Invalid> {
    check_bytes("scheme", text, limits::SCHEME_BYTES_MAX)?;
    check_alphabet("scheme", text, "._/+-")
}

/// Checked pairs that describe an attempt: message id, delivery number, correlation id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Checks the pairs and takes them in.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for too many pairs, too many bytes, or an empty name.
    pub fn parse(pairs: BTreeMap<String, String>) -> Result<Self, Invalid> {
        if pairs.len() > limits::LABELS_MAX {
            let problem = format!("has {} pairs", pairs.len());
            let fix = format!("use at most {}", limits::LABELS_MAX);
            return Err(Invalid::new("labels", problem, fix));
        }
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > limits::LABELS_BYTES_MAX {
            let problem = format!("is {bytes} bytes long");
            let fix = format!("use at most {} bytes together", limits::LABELS_BYTES_MAX);
            return Err(Invalid::new("labels", problem, fix));
        }
        if pairs.keys().any(String::is_empty) {
            return Err(Invalid::new("labels", "has an empty name", "name every label"));
        }
        Ok(Self(pairs))
    }

    /// The pairs, by name.
    #[must_use]
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = Invalid;

    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, Invalid> {
        Self::parse(pairs)
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

/// How a command names a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordRef {
    /// The tenant.
    pub tenant: TenantName,
    /// The namespace inside it.
    pub namespace: NamespaceName,
    /// The key inside that.
    pub key: IdempotencyKey,
}
