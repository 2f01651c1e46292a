//! What goes over the wire comes back the same, in both directions of a call.

mod effects;
mod values;

use firstclaim_core::command::{Claim, Complete, Release, ReleaseKind, Renew};
use firstclaim_core::name::Region;
use firstclaim_core::outcome::{Completed, Renewed};
use firstclaim_core::record::Mode;
use firstclaim_core::{Answer, Epoch, Millis, Policy, Timestamp, limits};
use firstclaim_proto::convert::claim::{Answered, Asked};
use firstclaim_proto::convert::holder::RenewAnswer;
use firstclaim_proto::convert::{claim, holder, policy};
use firstclaim_proto::v1;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;
use values::*;

proptest! {
    #[test]
    fn a_claim(
        ids in (record(), attempt(), owner(), fingerprints(), labels()),
        lease in option::of((1000_u64..=86_400_000).prop_map(Millis)),
        intent_time in option::of(time()),
        flags in (any::<bool>(), any::<bool>()),
        wait in (0_u64..=30_000).prop_map(Millis),
        ends in prop_oneof![
            vec(dispatch(), 0..3).prop_map(|effects| (effects, None)),
            complete_with().prop_map(|with| (Vec::new(), Some(with))),
        ],
    ) {
        let (record, attempt_id, owner, fingerprints, labels) = ids;
        let region = Region::parse("eu-west").expect("a region");
        let (accept_recovery, allow_duplicate_intent) = flags;
        let (effects, complete_with) = ends;
        let claim = Claim {
            record, attempt_id, owner, fingerprints, lease, intent_time, labels, accept_recovery,
            region: region.clone(), effects, complete_with, allow_duplicate_intent,
        };
        let asked = Asked { claim, wait };
        prop_assert_eq!(claim::read(sent(&claim::request(asked.clone())), region), Ok(asked));
    }

    #[test]
    fn an_answer_to_a_claim(answer in claim_answer(), store_time in time()) {
        let wire = claim::response(answer.clone(), store_time, |_| v1::Failure::default());
        let wire = sent(&wire.expect("a claim's answer"));
        let read = Answered { answer, dispatches: Vec::new(), store_time };
        prop_assert_eq!(claim::read_response(wire), Ok(read));
    }

    #[test]
    fn a_renewal(
        holder in holder(),
        lease in option::of((1000_u64..=86_400_000).prop_map(Millis)),
        answered in (epoch(), mode(), time(), time()),
        inherited in option::of(inherited()),
    ) {
        let asked = Renew { holder, lease };
        prop_assert_eq!(holder::read_renew(sent(&holder::renew_request(asked.clone()))), Ok(asked));
        let (epoch, mode, lease_expire_time, store_time) = answered;
        let renewed = Renewed { epoch, mode, lease_expire_time, inherited: inherited.clone() };
        let wire = holder::renew_response(&Answer::Renewed(renewed), store_time).expect("a renewal");
        let expected = RenewAnswer {
            epoch, mode, lease_expire_time, on_lapse: inherited.as_ref().map(|it| it.on_lapse),
            journal: inherited.map(|it| it.journal).unwrap_or_default(), store_time,
        };
        prop_assert_eq!(holder::read_renew_response(sent(&wire)), Ok(expected));
    }

    #[test]
    fn a_completion(
        holder in holder(),
        disposition in disposition(),
        result in result(),
        settlements in vec(settle(), 0..3),
    ) {
        let asked = Complete { holder, disposition, result, settlements };
        let wire = sent(&holder::complete_request(asked.clone()));
        prop_assert_eq!(holder::read_complete(wire), Ok(asked));
    }

    #[test]
    fn an_answer_to_a_completion(completion in completion(), repeated: bool, store_time in time()) {
        let completed = Completed { completion, repeated };
        let answer = Answer::Completed(Box::new(completed.clone()));
        let wire = holder::complete_response(answer, store_time).expect("a completion");
        prop_assert_eq!(holder::read_complete_response(sent(&wire)), Ok((completed, store_time)));
    }

    #[test]
    fn a_release(
        holder in holder(),
        kind in prop_oneof![
            (0..=limits::BACKOFF_MAX.0).prop_map(|ms| ReleaseKind::Retry { retry_after: Millis(ms) }),
            Just(ReleaseKind::Unbind),
            "[^\0]{0,100}".prop_map(|note| ReleaseKind::Unknown { note }),
        ],
        released in released(),
        store_time in time(),
    ) {
        let asked = Release { holder, kind };
        let wire = sent(&holder::release_request(asked.clone()));
        prop_assert_eq!(holder::read_release(wire), Ok(asked));
        let wire = holder::release_response(&Answer::Released(released), store_time).expect("a release");
        prop_assert_eq!(holder::read_release_response(sent(&wire)), Ok((released, store_time)));
    }

    #[test]
    fn a_policy(patch in patch()) {
        prop_assert_eq!(policy::read(sent(&policy::patch(&patch))), Ok(patch.clone()));
        // What is in effect is a patch that sets everything.
        let effective = Policy::default().with(&patch);
        let read = policy::read(sent(&policy::effective(&effective))).expect("a policy");
        prop_assert_eq!(Policy::default().with(&read), effective);
    }
}

#[test]
fn the_end_of_time_is_the_last_that_protobuf_holds() {
    let renewed = Renewed {
        epoch: Epoch(1),
        mode: Mode::Execute,
        lease_expire_time: Timestamp(u64::MAX),
        inherited: None,
    };
    let wire = holder::renew_response(&Answer::Renewed(renewed), Timestamp(0)).expect("a renewal");
    assert_eq!(wire.lease_expire_time.map(|time| time.seconds), Some(253_402_300_799));
}

#[test]
fn an_outcome_that_this_client_does_not_know_is_no_claim() {
    let response =
        v1::ClaimResponse { outcome: None, store_time: Some(prost_types::Timestamp::default()) };
    let faults = claim::read_response(response).expect_err("a refusal");
    assert_eq!(faults.all()[0].field, "outcome");
}

#[test]
fn an_answer_of_another_kind_is_a_fault_of_the_server() {
    let wrong = claim::response(Answer::Ticked, Timestamp(0), |_| v1::Failure::default());
    let wrong = wrong.expect_err("a fault");
    assert_eq!(wrong.to_string(), "a claim was answered as if it were a tick");
}

#[test]
fn reflection_serves_the_public_package_only() {
    let files = prost_types::FileDescriptorSet::decode(firstclaim_proto::FILE_DESCRIPTOR_SET)
        .expect("descriptors");
    let packages: Vec<_> = files.file.iter().map(|file| file.package()).collect();
    assert!(packages.contains(&"firstclaim.v1"));
    assert!(packages.iter().all(|one| ["firstclaim.v1", "google.protobuf"].contains(one)));
    let ours = files.file.iter().filter(|file| file.package() == "firstclaim.v1");
    assert!(ours.into_iter().all(|file| file.source_code_info.is_some()));
}
