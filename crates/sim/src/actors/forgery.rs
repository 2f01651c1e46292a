//! What hostile callers write: any call, with anything in it that they ever heard of.

use firstclaim_core::command::{
    Admission, Claim, Command, Complete, CompleteWith, DeleteNamespace, DeleteTenant, Dispatch,
    ExtendExisting, Holder, Purge, PutMode, PutNamespace, PutTenant, RecordEffect, RecordReport,
    Release, ReleaseKind, Renew, Report, Reserve, Resolve, Resolved, Revoke, Settle, SettleEffect,
};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::{EffectId, Labels, ProviderKey, Region};
use firstclaim_core::policy::{DuplicateIntent, OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::record::{Disposition, Record};
use firstclaim_core::{
    Content, EffectName, EffectUid, Etag, FingerprintSet, IdempotencyKey, Millis, PolicyPatch,
    Stamp, Timestamp,
};

use super::hostile::{Den, Toy};
use crate::Random;
use crate::names::{self, name};
use crate::world::World;

/// What an effect's name stands for.
#[derive(Clone, Debug)]
pub(super) struct Template {
    slot: u8,
    provider: u8,
    keyed: bool,
    window: Option<Retention>,
}

impl Template {
    pub(super) fn new(random: &mut Random) -> Self {
        let window = |millis| Some(Retention::For(Millis(millis)));
        Self {
            slot: random.weighted(&[(3, 0), (1, 1)]),
            provider: random.small(2),
            keyed: random.chance(80),
            window: random.weighted(&[
                (1, None),
                (2, window(10_000)),
                (3, window(40_000)),
                (4, window(600_000)),
                (1, Some(Retention::Forever)),
            ]),
        }
    }
}

/// A policy of which everything ends soon.
pub(super) fn policy(random: &mut Random, long: bool) -> PolicyPatch {
    let result = 1 + random.below(if long { 40 } else { 8 });
    let identity = result + random.below(if long { 200 } else { 12 });
    let identity_retention = if random.chance(4) {
        Retention::Forever
    } else {
        Retention::For(Millis::from_secs(identity))
    };
    let secs = |secs: u64| Some(Millis::from_secs(secs));
    let required =
        |yes: bool| Some(if yes { Requirement::Required } else { Requirement::Optional });
    let window = Millis::from_secs(1 + random.below(identity));
    let window = ReplayWindow { name: "redrive".to_owned(), window };
    PolicyPatch {
        lease_default: secs(1 + random.below(6)),
        lease_max: secs(6 + random.below(30)),
        takeover_delay: secs(random.weighted(&[(6, 0), (1, 1), (1, 3), (1, 8)])),
        on_lapse: Some(random.weighted(&[(2, OnLapse::Recover), (1, OnLapse::Takeover)])),
        result_retention: secs(result),
        identity_retention: Some(identity_retention),
        replay_windows: random.chance(5).then(|| vec![window]),
        intent_time: required(random.chance(6)),
        intent_time_skew: Some(Millis(500 * random.below(10))),
        fingerprint: required(random.chance(80)),
        duplicate_intent: Some(random.weighted(&[
            (5, DuplicateIntent::Off),
            (2, DuplicateIntent::Warn),
            (1, DuplicateIntent::Block),
        ])),
        duplicate_intent_window: secs(random.below(30)),
        reserve: required(random.chance(8)),
        max_attempts: Some(random.weighted(&[(6, 0), (1, 1), (2, 2), (2, 3)])),
        settle_horizon: secs(random.weighted(&[(3, 0), (2, 1), (2, 3), (1, 12)])),
        result_bytes_max: Some(random.weighted(&[(5, 64), (1, 1)])),
        records_max: Some(random.weighted(&[(9, 0), (1, 1), (1, 2)])),
        claims_per_second: None,
    }
}

fn lease(random: &mut Random) -> Option<Millis> {
    let secs = |secs| Some(Millis::from_secs(secs));
    random.weighted(&[
        (4, None),
        (2, secs(1)),
        (4, secs(3)),
        (4, secs(6)),
        (1, secs(20)),
        (1, secs(40)),
    ])
}

/// The request of a key under two schemes, under one of them, another request, or none.
fn fingerprints(random: &mut Random) -> FingerprintSet {
    let set: &[(&str, u8, u8)] = random.weighted(&[
        (30, &[("a", 1, 1), ("b", 2, 1)][..]),
        (6, &[("b", 2, 1)]),
        (2, &[("a", 1, 1)]),
        (2, &[("a", 3, 2), ("b", 2, 1)]),
        (1, &[("c", 4, 1)]),
        (1, &[]),
    ]);
    names::fingerprints(set)
}

fn disposition(random: &mut Random, failed: u64) -> Disposition {
    if random.chance(failed) { Disposition::Failed } else { Disposition::Succeeded }
}

/// An etag that no version ever had.
fn wrong_etag(random: &mut Random) -> Option<Etag> {
    random.chance(4).then_some(Etag { generation: 99, version: 1 })
}

fn effect_id(at: u8) -> EffectId {
    name!(EffectId, "e{at}")
}

impl World {
    pub(super) fn forge_call(&mut self, den: usize, key: usize) -> Option<Command> {
        let mood = self.dens[den].mood.clone();
        let family = self.random.weighted(&[
            (24, 0),
            (4, 1),
            (8, 2),
            (7, 3),
            (mood.effects, 4),
            (mood.settles, 5),
            (mood.reserves, 6),
        ]);
        Some(match family {
            0 => Command::Claim(self.forge_claim(den, key)),
            1 => {
                let lease = lease(&mut self.random);
                Command::Renew(Renew { holder: self.forge_holder(den, key)?, lease })
            }
            2 => Command::Complete(self.forge_complete(den, key)?),
            3 => {
                let pause = Millis(500 * self.random.pick(&[0, 0, 2, 10, 80]));
                let kind = self.random.weighted(&[
                    (5, ReleaseKind::Retry { retry_after: pause }),
                    (2, ReleaseKind::Unbind),
                    (4, ReleaseKind::Unknown { note: "?".to_owned() }),
                ]);
                Command::Release(Release { holder: self.forge_holder(den, key)?, kind })
            }
            4 => Command::RecordEffect(RecordEffect {
                holder: self.forge_holder(den, key)?,
                dispatch: self.forge_dispatch(den, key),
            }),
            5 => Command::SettleEffect(SettleEffect {
                settle: self.forge_settle(den, key)?,
                record: self.toy(den, key).record.clone(),
                principal: names::principal(),
            }),
            _ => Command::Reserve(self.forge_reserve(den, key)),
        })
    }

    fn toy(&self, den: usize, key: usize) -> &Toy {
        &self.dens[den].toys[key]
    }

    fn stored(&self, den: usize, key: usize) -> Option<&Record> {
        self.judge.record(&self.toy(den, key).record)
    }

    fn ago(&self, ago: i64) -> Timestamp {
        let now = self.judge.store.cluster.clock.now().0.max(self.now);
        Timestamp(now.saturating_add_signed(-ago))
    }

    fn tau(&mut self, den: usize) -> Option<Timestamp> {
        let Den { since, mood, .. } = &self.dens[den];
        let (since, taus) = (*since, mood.taus);
        if !self.random.chance(if taus { 85 } else { 6 }) {
            return None;
        }
        let at = Timestamp(since + self.random.pick(&[0, 0, 0, 5_000, 20_000]));
        let ago = self.random.pick(&[0, 500, 2_000, 10_000, 60_000, -500, -2_000, -8_000]);
        let ago = self.ago(ago);
        Some(self.random.weighted(&[(3, at), (2, ago)]))
    }

    fn forge_claim(&mut self, den: usize, key: usize) -> Claim {
        let mood = self.dens[den].mood.clone();
        let asks = if self.random.chance(3 * mood.effects) { 1 + self.random.below(2) } else { 0 };
        let effects: Vec<Dispatch> = (0..asks).map(|_| self.forge_dispatch(den, key)).collect();
        let completes = self.random.chance(5) && effects.is_empty();
        let repeats = self.random.chance(mood.repeats);
        let (few, many) = (self.random.small(5), self.random.number());
        let attempt = if repeats { format!("a{few}") } else { format!("b{many}") };
        let stranger = u8::from(self.random.chance(3));
        let complete_with = completes.then(|| CompleteWith {
            disposition: disposition(&mut self.random, 30),
            result: names::result(self.random.small(3)),
        });
        Claim {
            record: self.toy(den, key).record.clone(),
            attempt_id: names::attempt(&attempt),
            owner: names::owner((few + stranger) % 3),
            fingerprints: fingerprints(&mut self.random),
            lease: lease(&mut self.random),
            intent_time: self.tau(den),
            labels: Labels::default(),
            accept_recovery: self.random.chance(mood.recover),
            region: Region::unknown(),
            effects,
            complete_with,
            allow_duplicate_intent: self.random.chance(40),
        }
    }

    fn forge_reserve(&mut self, den: usize, key: usize) -> Reserve {
        let admission = Admission { principal: names::principal(), reason: "never ran".to_owned() };
        Reserve {
            record: self.toy(den, key).record.clone(),
            fingerprints: fingerprints(&mut self.random),
            intent_time: self.tau(den),
            labels: Labels::default(),
            allow_duplicate_intent: self.random.chance(30),
            admit: self.random.chance(30).then_some(admission),
        }
    }

    /// A holder: mostly the present one, sometimes one of before, sometimes with another attempt.
    fn forge_holder(&mut self, den: usize, key: usize) -> Option<Holder> {
        let back = self.random.weighted(&[(16, 0), (4, 1), (1, 2)]);
        let stranger = self.random.chance(4);
        let toy = self.toy(den, key);
        let (epoch, attempt_id) = toy.granted(back)?;
        let attempt_id = if stranger { names::attempt("a0") } else { attempt_id };
        Some(Holder { record: toy.record.clone(), epoch, attempt_id })
    }

    fn forge_complete(&mut self, den: usize, key: usize) -> Option<Complete> {
        let told = self.random.weighted(&[(6, 0), (2, 1), (1, 2)]);
        let settlements = (0..told).filter_map(|_| self.forge_settle(den, key)).collect();
        let result = self.random.weighted(&[(6, 0), (2, 1), (1, 2)]);
        Some(Complete {
            holder: self.forge_holder(den, key)?,
            disposition: disposition(&mut self.random, 35),
            result: names::result(result),
            settlements,
        })
    }

    /// A dispatch of one of three effects, now and then with another content or another number.
    fn forge_dispatch(&mut self, den: usize, key: usize) -> Dispatch {
        let which = self.random.weighted(&[(5, 0_u8), (2, 1), (1, 2)]);
        let template = self.dens[den].templates[usize::from(which)].clone();
        let twist = self.random.chance(4).then(|| self.random.small(5));
        let twisted = |field: u8| u8::from(twist == Some(field));
        let id = effect_id(which);
        let effects = self.stored(den, key).map(|record| &record.effects);
        let effect = effects.and_then(|effects| effects.iter().find(|effect| effect.id == id));
        let last = effect.and_then(|effect| effect.permits.last()).map_or(0, |last| last.number);
        let number = self.random.weighted(&[(8, last + 1), (3, last.max(1)), (1, 1), (1, 3)]);
        let key = name!(ProviderKey, "pk{}", which + 8 * twisted(2));
        Dispatch {
            id,
            number,
            slot: names::slot(template.slot + 2 * twisted(0)),
            provider: names::provider(template.provider + 2 * twisted(1)),
            provider_key: template.keyed.then_some(key),
            dedup_window: template.window.filter(|_| twisted(3) == 0),
            request: Content::new(vec![which, twisted(4)], "text/plain".to_owned()),
            within: self.random.weighted(&[
                (4, None),
                (3, Some(Millis(1_000))),
                (3, Some(Millis(2_500))),
            ]),
        }
    }

    /// What is open in a record, as of the leader's next reading.
    fn open(&self, den: usize, key: usize) -> Vec<EffectUid> {
        let mut clock = self.judge.store.cluster.clock.clone();
        clock.advance(Stamp { term: 0, index: 0, time: Timestamp(self.now) });
        let open = self.stored(den, key).map(|it| it.open(&clock).uids(it.life));
        open.unwrap_or_default()
    }

    fn forge_uid(&mut self, den: usize, key: usize) -> Option<EffectUid> {
        let place = self.random.small(3);
        let of = self.random.weighted(&[(10, 0), (7, 1), (7, 2), (1, 3)]);
        let life = *self.toy(den, key).lives.last()?;
        let name = match of {
            0 => {
                let open = self.open(den, key);
                return open.get(usize::from(place) % open.len().max(1)).cloned();
            }
            2 => EffectName::Work(self.toy(den, key).granted(usize::from(place))?.0),
            _ => EffectName::Effect(effect_id(place)),
        };
        let lives = &self.toy(den, key).lives;
        let former = lives.len().checked_sub(2).map_or(0, |former| lives[former]);
        Some(EffectUid { life: if of == 3 { former } else { life }, name })
    }

    fn forge_settle(&mut self, den: usize, key: usize) -> Option<Settle> {
        let uid = self.forge_uid(den, key)?;
        let (mut provider, mut provider_key) = match &uid.name {
            EffectName::Work(_) => (None, None),
            EffectName::Effect(id) => {
                let effects = self.stored(den, key).map(|record| &record.effects);
                let effect = effects.and_then(|all| all.iter().find(|effect| effect.id == *id));
                let known = effect.map(|it| (Some(it.provider.clone()), it.provider_key.clone()));
                known.unwrap_or((Some(names::provider(0)), None))
            }
        };
        if self.random.chance(5) {
            if self.random.chance(50) {
                provider = Some(names::provider(9));
            } else {
                provider_key = Some(name!(ProviderKey, "pk9"));
            }
        }
        let verdict = self.forge_verdict(9, 1);
        let evidence = self.random.weighted(&[(3, 0), (2, 1), (1, 2), (1, 3)]);
        Some(Settle { uid, provider, provider_key, verdict, evidence: names::content(evidence) })
    }

    /// A verdict; `committed` and `overridden` say how often it is that.
    fn forge_verdict(&mut self, committed: u64, overridden: u64) -> Verdict {
        let ago = self.random.pick(&[0, 0, 0, 500, 1_000, 4_000, 15_000, -1]);
        let status = self.random.pick(&[None, None, Some(402), Some(409), Some(429), Some(503)]);
        let as_of = self.ago(ago);
        self.random.weighted(&[
            (committed, Verdict::Committed),
            (6, Verdict::Refused { status }),
            (8, Verdict::NotFound { as_of }),
            (overridden, Verdict::Overridden),
        ])
    }

    pub(super) fn forge_operation(&mut self, den: usize, key: usize) -> Option<Command> {
        let back = self.random.weighted(&[(16, 0), (4, 1), (1, 2)]);
        let record = self.toy(den, key).record.clone();
        let (reason, principal) = ("asked to".to_owned(), names::principal());
        let family = self.random.weighted(&[(14, 0), (3, 1), (3, 2), (1, 3)]);
        Some(match family {
            0 => Command::Resolve(self.forge_resolve(den, key)?),
            1 => {
                let epoch = self.toy(den, key).granted(back)?.0;
                Command::Revoke(Revoke { record, epoch, reason, principal })
            }
            2 => {
                let expected_epoch = self.toy(den, key).granted(usize::from(back > 1))?.0;
                Command::Purge(Purge { record, expected_epoch, reason, principal })
            }
            _ => Command::ExtendExisting(ExtendExisting {
                tenant: record.tenant,
                namespace: names::namespace(self.random.small(2)),
                after: self.random.chance(20).then(|| name!(IdempotencyKey, "k1")),
                limit: self.random.pick(&[1, 2, 100]),
                principal,
            }),
        })
    }

    fn forge_resolve(&mut self, den: usize, key: usize) -> Option<Resolve> {
        let mut open = self.open(den, key);
        if self.random.chance(8) {
            open.pop();
        }
        if self.random.chance(4) {
            open.extend(self.forge_uid(den, key));
        }
        let says = [self.forge_verdict(5, 10), self.forge_verdict(5, 10)];
        let verdicts = open.into_iter().zip(says.into_iter().cycle()).collect();
        let back = usize::from(self.random.chance(8));
        let completed = self.random.chance(55).then(|| CompleteWith {
            disposition: disposition(&mut self.random, 45),
            result: names::result(self.random.small(3)),
        });
        let pause = Millis(500 * self.random.below(4));
        let attempt = format!("r{}", self.random.below(6));
        Some(Resolve {
            record: self.toy(den, key).record.clone(),
            expected_epoch: self.toy(den, key).granted(back)?.0,
            attempt_id: names::attempt(&attempt),
            verdicts,
            evidence: names::content(self.random.small(3)),
            reason: "looked it up".to_owned(),
            principal: names::principal(),
            state: completed
                .map_or(Resolved::Retryable { retry_after: pause }, Resolved::Completed),
        })
    }

    /// A policy for the tenant (0) or one of its namespaces.
    pub(super) fn forge_put(&mut self, den: usize, of: u8, policy: PolicyPatch) -> Command {
        let mode = match self.random.below(23) {
            0 => PutMode::Update { expected: Some(Etag { generation: 99, version: 1 }) },
            1 => PutMode::Create { members_applied: self.index },
            2 => PutMode::Create { members_applied: 0 },
            _ => PutMode::Update { expected: None },
        };
        let validate_only = self.random.chance(10);
        self.put(den, of, (policy, mode, validate_only))
    }

    pub(super) fn forge_creation(&self, den: usize, of: u8, policy: PolicyPatch) -> Command {
        self.put(den, of, (policy, PutMode::Create { members_applied: self.index }, false))
    }

    fn put(
        &self,
        den: usize,
        of: u8,
        (policy, mode, validate_only): (PolicyPatch, PutMode, bool),
    ) -> Command {
        let tenant = self.dens[den].tenant.clone();
        if of == 0 {
            Command::PutTenant(PutTenant { tenant, policy, mode, validate_only })
        } else {
            let namespace = names::namespace(of - 1);
            Command::PutNamespace(PutNamespace { tenant, namespace, policy, mode, validate_only })
        }
    }

    /// Deletes something, or makes it anew.
    pub(super) fn forge_deletion(&mut self, den: usize) -> Command {
        let of = self.random.weighted(&[(1, 0), (5, 1), (3, 2)]);
        let tenant = self.dens[den].tenant.clone();
        if self.random.chance(60) {
            let policy = policy(&mut self.random, self.dens[den].mood.long);
            let members_applied = if self.random.chance(60) { self.index } else { 0 };
            let mode = PutMode::Create { members_applied };
            return self.put(den, of, (policy, mode, false));
        }
        let (force, expected) = (self.random.chance(60), wrong_etag(&mut self.random));
        if of == 0 {
            Command::DeleteTenant(DeleteTenant { tenant, expected, force })
        } else {
            let namespace = names::namespace(of - 1);
            Command::DeleteNamespace(DeleteNamespace { tenant, namespace, expected, force })
        }
    }

    pub(super) fn forge_report(&mut self, den: usize, key: usize) -> Command {
        Command::Report(Report {
            records: vec![RecordReport {
                record: self.toy(den, key).record.clone(),
                sightings: Vec::new(),
                counts: [("REPLAY".to_owned(), 1)].into(),
            }],
        })
    }
}
