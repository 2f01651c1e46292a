//! Faults that people reported in public trackers, where it takes several nodes to show them.
//!
//! The numbers are those of the table in `docs/testing.md`.

use crate::three::{Three, claim, complete};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use tokio::task::JoinSet;

const CLAIMS: u64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_67_of_a_thousand_claims_at_once_one_is_first() {
    let three = Three::start().await;
    three.seed(three.follower().await).await;
    let mut race = JoinSet::new();
    for at in 0..CLAIMS {
        let mut client = three.claims(at % 3 + 1);
        let attempt = format!("attempt-{at}");
        race.spawn(async move {
            let answer = client.claim(claim("one", &attempt)).await.expect("an answer");
            (attempt, answer.into_inner().outcome.expect("an outcome"))
        });
    }
    let (mut first, mut told) = (Vec::new(), Vec::new());
    while let Some(raced) = race.join_next().await {
        match raced.expect("joined") {
            (attempt, Outcome::Acquired(acquired)) => {
                assert_eq!(acquired.kind(), v1::AcquiredKind::First);
                first.push((attempt, acquired.epoch));
            }
            (_, Outcome::Pending(pending)) => told.push(pending.epoch),
            (attempt, other) => panic!("{attempt}: {other:?}"),
        }
    }
    assert_eq!((first.len(), told.len() as u64), (1, CLAIMS - 1), "{first:?}");
    let (winner, epoch) = first.remove(0);
    assert!(told.iter().all(|held| *held == epoch), "a loser was told of another holder");

    // And once it is done, all of them get the one result.
    let done = complete("one", &winner, epoch, b"paid");
    three.claims(three.follower().await).complete(done).await.expect("completed");
    for at in 0..30 {
        let again = claim("one", &format!("late-{at}"));
        let answer = three.claims(at % 3 + 1).claim(again).await.expect("an answer");
        let Some(Outcome::Replay(replay)) = answer.into_inner().outcome else {
            panic!("claim {at} is no replay")
        };
        assert_eq!(replay.completion.expect("a completion").epoch, epoch);
    }
    three.stop().await;
}
