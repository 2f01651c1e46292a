//! Every bound of the contract, in one place.
//!
//! A bound that decides an answer is a constant here or a field of the replicated policy; it is
//! never a setting of one node, because two replicas must never decide differently.

use crate::time::Millis;

/// Bytes of a tenant's name.
pub const TENANT_BYTES_MAX: usize = 63;
/// Bytes of a namespace's name.
pub const NAMESPACE_BYTES_MAX: usize = 128;
/// Bytes of an idempotency key.
pub const KEY_BYTES_MAX: usize = 512;
/// Bytes of an attempt id.
pub const ATTEMPT_ID_BYTES_MAX: usize = 64;
/// Bytes of an owner label.
pub const OWNER_BYTES_MAX: usize = 128;
/// Bytes of an effect's id and of a slot's name.
pub const EFFECT_ID_BYTES_MAX: usize = 64;
/// Bytes of a provider's name.
pub const PROVIDER_BYTES_MAX: usize = 128;
/// Bytes of a provider key.
pub const PROVIDER_KEY_BYTES_MAX: usize = 512;
/// Bytes of the name of a person or service that settles, resolves or purges.
pub const PRINCIPAL_BYTES_MAX: usize = 128;
/// Bytes of a region's name.
pub const REGION_BYTES_MAX: usize = 63;
/// Bytes of a fingerprint scheme's name, of a part's name and of a replay window's name.
pub const SCHEME_BYTES_MAX: usize = 64;
/// Fingerprint schemes of one claim.
pub const FINGERPRINTS_MAX: usize = 4;
/// Fewest bytes of a fingerprint digest.
pub const DIGEST_BYTES_MIN: usize = 16;
/// Most bytes of a fingerprint digest.
pub const DIGEST_BYTES_MAX: usize = 64;
/// Named part digests of one fingerprint.
pub const FINGERPRINT_PARTS_MAX: usize = 16;
/// Label pairs of one claim.
pub const LABELS_MAX: usize = 8;
/// Bytes of all label names and values of one claim together.
pub const LABELS_BYTES_MAX: usize = 1024;
/// Bytes of a content type.
pub const CONTENT_TYPE_BYTES_MAX: usize = 128;
/// Bytes of a reference to a result that is kept elsewhere.
pub const RESULT_REFERENCE_BYTES_MAX: usize = 2048;
/// Bytes of a human's or a worker's note.
pub const NOTE_BYTES_MAX: usize = 1024;

/// Result bytes kept inline unless the policy says otherwise.
pub const RESULT_BYTES_DEFAULT: u32 = 64 * 1024;
/// The most result bytes that a policy may keep inline.
pub const RESULT_BYTES_POLICY_MAX: u32 = 256 * 1024;
/// The most result bytes that a Complete may carry; beyond the policy's bound they are dropped.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// Effects of one record.
pub const EFFECTS_MAX: usize = 32;
/// Bytes of an effect's request.
pub const EFFECT_REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the evidence of one settlement.
pub const EVIDENCE_BYTES_MAX: usize = 16 * 1024;
/// Effects, or settlements, that one call may carry.
pub const EFFECTS_PER_CALL_MAX: usize = EFFECTS_MAX;
/// Permits of one effect.
pub const DISPATCHES_MAX: u32 = 32;
/// The shortest time that a permit leaves for the dispatch.
pub const DISPATCH_MIN: Millis = Millis::from_secs(1);
/// Claims that were not granted, kept per record.
pub const SIGHTINGS_KEPT: usize = 16;
/// Different outcomes of such claims counted per record.
pub const SIGHTING_OUTCOMES_KEPT: usize = 32;
/// Records that one report of such claims may speak of.
pub const REPORT_RECORDS_MAX: usize = 64;
/// Contradicting settlements kept per effect.
pub const CONTRADICTIONS_KEPT: usize = 4;
/// Settled work kept per record; what is open is always kept.
pub const SETTLED_WORKS_KEPT: usize = 16;
/// Similar keys that an answer names.
pub const SIMILAR_KEYS_MAX: usize = 8;
/// Rows of the intent index that one claim looks at.
pub const SIMILAR_SCAN_MAX: usize = 1024;
/// Attempts remembered per record.
pub const ATTEMPTS_KEPT: usize = 8;
/// Statements of fenced-out owners kept per record.
pub const EVIDENCE_KEPT: usize = 8;

/// The shortest lease.
pub const LEASE_MIN: Millis = Millis::from_secs(1);
/// The longest lease that a policy may allow.
pub const LEASE_POLICY_MAX: Millis = Millis::from_hours(24);
/// The longest `retry_after` of a release, and the longest takeover delay.
pub const BACKOFF_MAX: Millis = Millis::from_hours(24 * 30);
/// The longest settle horizon.
pub const SETTLE_HORIZON_MAX: Millis = Millis::from_hours(24 * 7);
/// The longest retention short of `FOREVER`: 100 years.
pub const RETENTION_MAX: Millis = Millis::from_hours(24 * 36_525);
/// The shortest retention.
pub const RETENTION_MIN: Millis = Millis::from_secs(1);
/// The largest clock skew that a policy may grant to intent times.
pub const INTENT_SKEW_MAX: Millis = Millis::from_hours(24);
/// Named replay windows of one policy.
pub const REPLAY_WINDOWS_MAX: usize = 16;
/// Namespaces of one tenant: a change of the tenant's policy is checked against each of them.
pub const NAMESPACES_PER_TENANT_MAX: usize = 256;
/// Effective retention versions remembered per namespace. A change that would exceed it is refused.
pub const POLICY_VERSIONS_MAX: usize = 64;

/// Grace given in one chain of windows.
pub const GRACE_MAX: Millis = Millis::from_secs(10);
/// A pause of store time longer than this opens a grace window.
pub const STALL_MIN: Millis = Millis::from_secs(6);
/// Closed grace windows that the clock remembers.
pub const PAST_WINDOWS_KEPT: usize = 64;
/// A leader stamps at least this often while a lease may be live.
pub const STAMP_INTERVAL_MAX: Millis = Millis::from_secs(5);
/// How far the clocks of a majority may be apart.
pub const CLOCK_OFFSET_MAX: Millis = Millis(500);
/// How long after its last contact with a leader a replica may answer Replay on its own.
pub const LOCAL_REPLAY_MAX: Millis = Millis::from_hours(24);

/// Records looked at by one sweep.
pub const SWEEP_RECORDS_MAX: u32 = 512;
/// Pages that one extension of retentions looks at, where rows are forgotten.
pub const EXTEND_PAGES_MAX: usize = 16;
/// Rows of one page of a scan inside the state machine.
pub const SCAN_PAGE: usize = 256;

/// Items of one batch call.
pub const BATCH_ITEMS_MAX: usize = 500;
/// The longest that a claim may wait for an answer other than Pending.
pub const WAIT_MAX: Millis = Millis::from_secs(30);
/// Commands of one log entry.
pub const ENTRY_COMMANDS_MAX: usize = 256;
/// Bytes at which a log entry is closed; one larger command travels alone.
pub const ENTRY_BYTES_MAX: usize = 512 * 1024;
/// Bytes of one command.
pub const COMMAND_BYTES_MAX: usize = RESULT_BYTES_MAX + 64 * 1024;
/// Bytes of one message of a client.
pub const CLIENT_MESSAGE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Bytes of memory that the structures of one request may take, its texts aside: two bytes on the wire can be an
/// item of many fields. A test holds the fullest batch to three quarters of it.
pub const REQUEST_MEMORY_MAX: usize = 16 * 1024 * 1024;
/// As before, for an answer: a test holds the fullest page of records to it.
pub const ANSWER_MEMORY_MAX: usize = 48 * 1024 * 1024;
/// Bytes of one message between replicas.
pub const PEER_MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

const _: () = assert!(RESULT_BYTES_DEFAULT <= RESULT_BYTES_POLICY_MAX);
const _: () = assert!((RESULT_BYTES_POLICY_MAX as usize) <= RESULT_BYTES_MAX);
const _: () = assert!(COMMAND_BYTES_MAX < CLIENT_MESSAGE_BYTES_MAX);
const _: () = assert!(COMMAND_BYTES_MAX + ENTRY_BYTES_MAX < PEER_MESSAGE_BYTES_MAX);
const _: () = assert!(STAMP_INTERVAL_MAX.0 < STALL_MIN.0 && STALL_MIN.0 < GRACE_MAX.0);
