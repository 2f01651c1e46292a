//! Random runs: few keys, few attempts, short times, so that everything meets everything.

use firstclaim_core::policy::{DuplicateIntent, OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::{Millis, PolicyPatch};
use firstclaim_sim::Random;

use super::steps::{
    Asking, Call, Claiming, How, Numbering, Of, Operation, Putting, Releasing, Resolving, Say,
    Sequence, Step, Tau, Telling, Template, Who,
};

/// What a run likes to do. Each run switches families of steps on and off.
#[derive(Clone, Debug)]
struct Mood {
    /// The key that most steps are about.
    key: u8,
    /// Percent of steps about it.
    focus: u64,
    /// Whether claims say when the intent was born.
    taus: bool,
    /// Percent of claims that accept recovery.
    recover: u64,
    /// Weights of families of steps.
    effects: u64,
    settles: u64,
    operators: u64,
    policies: u64,
    deletes: u64,
    reserves: u64,
    elections: u64,
    /// How far time goes on at most, in halves of a second.
    hurry: u64,
}

/// A random run from a seed.
pub(crate) fn sequence(seed: u64) -> Sequence {
    let mut random = Random::new(seed);
    let long = random.chance(50);
    let templates = [template(&mut random), template(&mut random), template(&mut random)];
    let policies = [
        if random.chance(30) { policy(&mut random, long) } else { PolicyPatch::default() },
        policy(&mut random, long),
        policy(&mut random, long),
    ];
    let mood = mood(&mut random);
    let length = 30 + random.below(51);
    let steps = (0..length).map(|_| step(&mut random, &mood, long)).collect();
    Sequence { templates, policies, steps }
}

fn mood(random: &mut Random) -> Mood {
    Mood {
        key: random.small(4),
        focus: random.pick(&[60, 80, 95]),
        taus: random.chance(40),
        recover: random.pick(&[20, 60, 90]),
        effects: random.pick(&[0, 5, 16]),
        settles: random.pick(&[0, 5, 16]),
        operators: random.pick(&[0, 3, 12]),
        policies: random.pick(&[0, 2, 5]),
        deletes: random.pick(&[0, 0, 0, 2]),
        reserves: random.pick(&[0, 1, 4]),
        elections: random.pick(&[0, 1, 4]),
        hurry: random.pick(&[3, 6, 16]),
    }
}

fn template(random: &mut Random) -> Template {
    Template {
        slot: random.weighted(&[(3, 0), (1, 1)]),
        provider: random.small(2),
        keyed: random.chance(80),
        window: random.weighted(&[
            (1, None),
            (2, Some(10_000)),
            (2, Some(40_000)),
            (4, Some(600_000)),
            (1, Some(u64::MAX)),
        ]),
    }
}

/// A policy of which everything ends within a run.
pub(crate) fn policy(random: &mut Random, long: bool) -> PolicyPatch {
    let result = 1 + random.below(if long { 40 } else { 8 });
    let identity = result + random.below(if long { 200 } else { 12 });
    let forever = random.chance(4);
    let identity_retention =
        if forever { Retention::Forever } else { Retention::For(Millis::from_secs(identity)) };
    let secs = |secs: u64| Some(Millis::from_secs(secs));
    let required =
        |yes: bool| Some(if yes { Requirement::Required } else { Requirement::Optional });
    let window = ReplayWindow {
        name: "redrive".to_owned(),
        window: Millis::from_secs(1 + random.below(identity)),
    };
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
            (2, DuplicateIntent::Off),
            (4, DuplicateIntent::Warn),
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

fn step(random: &mut Random, mood: &Mood, long: bool) -> Step {
    let key = if random.chance(mood.focus) { mood.key } else { random.small(4) };
    let family = random.weighted(&[
        (26, 0),
        (mood.elections, 1),
        (4, 2),
        (43 + mood.effects + mood.settles + mood.reserves, 3),
        (mood.operators, 4),
        (mood.policies, 5),
        (mood.deletes, 6),
        (2, 7),
    ]);
    match family {
        0 => pass(random, mood),
        1 if random.chance(15) => Step::ClockBack(500 * random.below(20)),
        1 => Step::Elect,
        2 => Step::Again(random.weighted(&[(3, 0), (2, 1), (1, 3)])),
        3 => Step::Call(call(random, mood, key)),
        4 => Step::Operate(operation(random, key)),
        5 => Step::Operate(Operation::Put(Putting {
            of: random.weighted(&[(1, 0), (6, 1), (2, 2)]),
            policy: Box::new(policy(random, long)),
            mode: how(random),
            validate_only: random.chance(10),
        })),
        6 => Step::Operate(deleting(random, long)),
        _ => Step::Operate(random.pick(&[
            Operation::Sweep(1),
            Operation::Sweep(10),
            Operation::Tick,
            Operation::Report { key },
        ])),
    }
}

fn call(random: &mut Random, mood: &Mood, key: u8) -> Call {
    let who = who(random, key);
    let family = random.weighted(&[
        (24, 0),
        (4, 1),
        (8, 2),
        (7, 3),
        (mood.effects, 4),
        (mood.settles, 5),
        (mood.reserves, 6),
    ]);
    match family {
        0 => Call::Claim(claiming(random, mood, key)),
        1 => Call::Renew { who, lease: lease(random) },
        2 => Call::Complete {
            who,
            failed: random.chance(35),
            result: random.weighted(&[(6, 0), (2, 1), (1, 2)]),
            told: (0..random.weighted(&[(6, 0), (2, 1), (1, 2)]))
                .map(|_| telling(random))
                .collect(),
        },
        3 => Call::Release { who, kind: releasing(random) },
        4 => Call::Record { who, ask: asking(random) },
        5 => Call::Settle { key, told: telling(random) },
        _ => Call::Reserve {
            key,
            fingerprint: fingerprint(random),
            tau: tau(random, mood),
            admit: random.chance(30),
            allow: random.chance(30),
        },
    }
}

fn who(random: &mut Random, key: u8) -> Who {
    Who { key, back: back(random), stranger: random.chance(4) }
}

fn back(random: &mut Random) -> u8 {
    random.weighted(&[(16, 0), (4, 1), (1, 2)])
}

fn pass(random: &mut Random, mood: &Mood) -> Step {
    let halves = 1 + random.below(mood.hurry);
    let stall = 6_500 + 500 * random.below(12);
    let night = 20_000 + 1000 * random.below(60);
    let moment = 1 + random.below(3);
    Step::Pass(random.weighted(&[(60, 500 * halves), (6, moment), (6, stall), (3, night)]))
}

fn claiming(random: &mut Random, mood: &Mood, key: u8) -> Claiming {
    let asks = if random.chance(3 * mood.effects) {
        (0..=random.below(2)).map(|_| asking(random)).collect()
    } else {
        Vec::new()
    };
    let complete = random.chance(5) && asks.is_empty();
    let complete = complete.then(|| (random.chance(30), random.small(3)));
    Claiming {
        key,
        attempt: if random.chance(55) { random.small(5) } else { 5 + random.small(250) },
        stranger: random.chance(3),
        fingerprint: fingerprint(random),
        lease: lease(random),
        tau: tau(random, mood),
        recover: random.chance(mood.recover),
        asks,
        complete,
        allow: random.chance(40),
    }
}

/// 0 to 2: the request under two schemes, one of them, the other; 3: another request; 4: none.
fn fingerprint(random: &mut Random) -> u8 {
    random.weighted(&[(30, 0), (6, 1), (2, 2), (2, 3), (1, 4), (1, 5)])
}

fn lease(random: &mut Random) -> Option<u64> {
    random.weighted(&[
        (4, None),
        (2, Some(1000)),
        (4, Some(3000)),
        (4, Some(6000)),
        (1, Some(20_000)),
        (1, Some(40_000)),
    ])
}

fn tau(random: &mut Random, mood: &Mood) -> Option<Tau> {
    if !random.chance(if mood.taus { 85 } else { 6 }) {
        return None;
    }
    let at = Tau::At(random.pick(&[0, 0, 0, 5000, 20_000]));
    let ago = [0, 500, 2000, 10_000, 60_000, -500, -2000, -8000];
    let ago = Tau::Ago(random.pick(&ago));
    Some(random.weighted(&[(3, at), (2, ago)]))
}

fn releasing(random: &mut Random) -> Releasing {
    let pause = 500 * random.pick(&[0, 0, 2, 10, 80]);
    random.weighted(&[
        (5, Releasing::Retry(pause)),
        (2, Releasing::Unbind),
        (4, Releasing::Unknown),
    ])
}

fn asking(random: &mut Random) -> Asking {
    Asking {
        id: random.weighted(&[(5, 0), (2, 1), (1, 2)]),
        number: random.weighted(&[
            (8, Numbering::Next),
            (3, Numbering::Last),
            (1, Numbering::Number(1)),
            (1, Numbering::Number(3)),
        ]),
        within: random.weighted(&[(4, None), (3, Some(1000)), (3, Some(2500))]),
        twist: random.chance(4).then(|| random.small(5)),
    }
}

fn telling(random: &mut Random) -> Telling {
    let place = random.small(3);
    Telling {
        of: random.weighted(&[
            (10, Of::Open(place)),
            (7, Of::Effect(place)),
            (7, Of::Work(place)),
            (1, Of::Former(place)),
        ]),
        say: say(random),
        evidence: random.weighted(&[(3, 0), (2, 1), (1, 2), (1, 3)]),
        twist: random.chance(3).then(|| random.chance(50)),
    }
}

fn say(random: &mut Random) -> Say {
    let ago = random.pick(&[0, 0, 0, 500, 1000, 4000, 15_000, -1]);
    let status = random.pick(&[None, None, Some(402), Some(409), Some(429), Some(503)]);
    random.weighted(&[
        (9, Say::Committed),
        (6, Say::Refused(status)),
        (8, Say::NotFound(ago)),
        (1, Say::Overridden),
    ])
}

fn operation(random: &mut Random, key: u8) -> Operation {
    let back = back(random);
    let says = (0..2).map(|_| resolving_say(random)).collect();
    let resolve = Operation::Resolve(Resolving {
        key,
        back: if back > 0 && random.chance(50) { 1 } else { 0 },
        attempt: random.small(6),
        says,
        short: random.chance(8),
        extra: random.chance(4),
        evidence: random.small(3),
        state: if random.chance(55) {
            Ok((random.chance(45), random.small(3)))
        } else {
            Err(500 * random.below(4))
        },
    });
    let extend = Operation::Extend {
        namespace: random.small(2),
        after: random.chance(20).then(|| random.small(3)),
        limit: random.pick(&[1, 2, 100]),
    };
    random.weighted(&[
        (14, resolve),
        (3, Operation::Revoke { key, back }),
        (3, Operation::Purge { key, back: u8::from(back > 1) }),
        (1, extend),
    ])
}

fn resolving_say(random: &mut Random) -> Say {
    let ago = random.pick(&[0, 0, 500, 4000, -1]);
    let status = random.pick(&[None, Some(402), Some(503)]);
    random.weighted(&[
        (4, Say::Committed),
        (2, Say::Refused(status)),
        (5, Say::NotFound(ago)),
        (8, Say::Overridden),
    ])
}

fn how(random: &mut Random) -> How {
    random.weighted(&[
        (20, How::Update { etag: false }),
        (1, How::Update { etag: true }),
        (1, How::Create { all: true }),
        (1, How::Create { all: false }),
    ])
}

fn deleting(random: &mut Random, long: bool) -> Operation {
    let of = random.weighted(&[(1, 0), (5, 1), (3, 2)]);
    let delete = Operation::Delete { of, force: random.chance(60), etag: random.chance(4) };
    let create = Operation::Put(Putting {
        of,
        policy: Box::new(policy(random, long)),
        mode: How::Create { all: random.chance(60) },
        validate_only: random.chance(5),
    });
    random.weighted(&[(2, delete), (3, create)])
}
