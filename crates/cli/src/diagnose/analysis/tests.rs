//! One incident per cause, and what is no incident.

use super::super::past::What;
use super::*;

struct Line {
    past: Past,
}

fn key(name: &str) -> Line {
    let fingerprint = Some(("s".to_owned(), name.as_bytes().to_vec()));
    Line { past: Past { key: name.to_owned(), fingerprint, ..Past::default() } }
}

impl Line {
    fn event(
        mut self,
        time: u64,
        instance: &str,
        (message, delivery): (&str, u64),
        what: What,
    ) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.past.events.push(Event {
            time,
            attempt: format!("a{time}"),
            instance: instance.to_owned(),
            region: "eu".to_owned(),
            message: some(message),
            delivery: (delivery > 0).then(|| delivery.to_string()),
            what,
        });
        self
    }

    fn granted(
        self,
        time: u64,
        instance: &str,
        of: (&str, u64),
        ended: Option<(Ended, u64)>,
    ) -> Self {
        self.event(time, instance, of, What::Granted { kind: "FIRST".to_owned(), ended })
    }

    fn away(mut self, time: u64, instance: &str, of: (&str, u64), outcome: &str) -> Self {
        *self.past.counts.entry(outcome.to_owned()).or_default() += 1;
        self.event(time, instance, of, What::TurnedAway(outcome.to_owned()))
    }

    fn request(mut self, digest: &str) -> Self {
        self.past.fingerprint = Some(("s".to_owned(), digest.as_bytes().to_vec()));
        self
    }
}

const DONE_AT_100: Option<(Ended, u64)> = Some((Ended::Completed, 100));

fn causes(lines: Vec<Line>) -> Vec<Cause> {
    let pasts: Vec<Past> = lines.into_iter().map(|line| line.past).collect();
    diagnose(&pasts).findings.iter().map(|finding| finding.cause).collect()
}

fn only(line: Line, cause: Cause) -> Finding {
    let found = diagnose(&[line.past]);
    assert_eq!(found.findings.len(), 1, "{found:?}");
    let finding = found.findings.into_iter().next().unwrap();
    assert_eq!(finding.cause, cause);
    finding
}

#[test]
fn a_clean_run_has_no_cause() {
    let clean = |name: &str| key(name).granted(1, "w1", (name, 1), DONE_AT_100);
    assert_eq!(causes(vec![clean("a"), clean("b"), clean("c")]), []);
    assert_eq!(causes(vec![]), []);
    let unlabelled = key("d").granted(1, "w1", ("", 0), DONE_AT_100);
    assert_eq!(causes(vec![unlabelled]), []);
}

#[test]
fn one_instance_twice_in_one_delivery_is_a_retry_inside_the_handler() {
    let line =
        key("a").granted(1, "w1", ("m1", 1), DONE_AT_100).away(120, "w1", ("m1", 1), "REPLAY");
    let found = only(line, Cause::RetryInHandler);
    assert_eq!((found.count, found.first, found.last), (1, 120, 120));
    assert_eq!(found.evidence.len(), 2);
    assert!(found.evidence[1].text.contains("w1 REPLAY"), "{:?}", found.evidence);
    let bare = key("a").granted(1, "w1", ("", 0), None).away(20, "w1", ("", 0), "PENDING");
    only(bare, Cause::RetryInHandler);
}

#[test]
fn one_message_at_two_instances_is_a_redelivery() {
    let line = key("a")
        .granted(1, "w1", ("m1", 1), DONE_AT_100)
        .away(60, "w2", ("m1", 2), "PENDING")
        .away(70, "w2", ("m1", 2), "PENDING")
        .away(160, "w3", ("m1", 3), "REPLAY");
    let found = only(line, Cause::Redelivery);
    assert_eq!(found.count, 2, "who was turned away and asks again is no new incident");
    assert!(found.details[0].starts_with("1 came while"), "{:?}", found.details);
    assert!(found.details[0].contains("again after 59ms; the work took up to 99ms"));
    assert!(found.details[1].starts_with("1 came after the completion"), "{:?}", found.details);
}

#[test]
fn a_redelivery_to_the_same_instance_is_told_by_its_number() {
    let line =
        key("a").granted(1, "w1", ("m1", 1), DONE_AT_100).away(160, "w1", ("m1", 2), "REPLAY");
    only(line, Cause::Redelivery);
}

#[test]
fn a_delivery_after_a_death_is_a_redelivery() {
    let line = key("a")
        .granted(1, "w1", ("m1", 1), Some((Ended::Lost, 200)))
        .away(50, "w2", ("m1", 2), "PENDING")
        .granted(200, "w2", ("m1", 2), Some((Ended::Completed, 220)));
    let found = only(line, Cause::Redelivery);
    assert_eq!(found.details.len(), 1);
    assert!(found.details[0].contains("died"), "{:?}", found.details);
}

#[test]
fn two_messages_under_one_key_are_published_twice() {
    let line = key("a")
        .granted(1, "w1", ("m1", 1), DONE_AT_100)
        .away(160, "w1", ("m2", 1), "REPLAY")
        .away(170, "w2", ("m3", 1), "REPLAY");
    let found = only(line, Cause::PublishedTwice);
    assert_eq!((found.count, found.keys.len()), (2, 1));
}

#[test]
fn each_repeat_is_put_down_to_its_nearest_kin() {
    let line = key("a")
        .granted(1, "w1", ("m1", 1), Some((Ended::Lost, 90)))
        .granted(90, "w2", ("m2", 1), Some((Ended::Completed, 95)))
        .away(160, "w3", ("m1", 2), "REPLAY");
    let pasts = [line.past];
    let found = diagnose(&pasts).findings;
    let counts: Vec<(Cause, u64)> = found.iter().map(|it| (it.cause, it.count)).collect();
    assert_eq!(counts, [(Cause::Redelivery, 1), (Cause::PublishedTwice, 1)]);
}

#[test]
fn one_request_under_many_keys_is_a_key_minted_per_attempt() {
    let lines = vec![
        key("k1").request("r").granted(1, "w1", ("m1", 1), DONE_AT_100),
        key("k2").request("r").granted(200, "w2", ("m1", 2), Some((Ended::Completed, 230))),
        key("k3").request("r").granted(300, "w2", ("m2", 1), Some((Ended::Completed, 330))),
        key("k4").request("other").granted(5, "w1", ("m9", 1), DONE_AT_100),
    ];
    let pasts: Vec<Past> = lines.into_iter().map(|line| line.past).collect();
    let found = diagnose(&pasts).findings;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].cause, found[0].count), (Cause::KeyPerAttempt, 2));
    assert_eq!(found[0].keys.len(), 3);
    assert_eq!((found[0].first, found[0].last), (200, 300));
    assert!(found[0].details[0].contains("minted in the worker"), "{:?}", found[0].details);
    assert!(found[0].details[1].contains("by the producer"), "{:?}", found[0].details);
}

#[test]
fn deliveries_that_never_asked_show_only_where_hits_are_zero() {
    let late = || key("a").granted(1, "w1", ("m1", 3), DONE_AT_100);
    let found = only(late(), Cause::CheckSkipped);
    assert!(found.evidence[0].text.ends_with("2 of 3 deliveries of message m1 never asked"));
    let hit =
        key("b").granted(1, "w1", ("m2", 1), DONE_AT_100).away(160, "w2", ("m2", 2), "REPLAY");
    assert_eq!(causes(vec![late(), hit]), [Cause::Redelivery]);
    let all = key("c").granted(1, "w1", ("m3", 1), DONE_AT_100);
    assert_eq!(causes(vec![all]), []);
}

#[test]
fn another_request_under_the_key_is_named_as_that() {
    let line = key("a").granted(1, "w1", ("m1", 1), DONE_AT_100).away(
        160,
        "w2",
        ("m2", 1),
        "FINGERPRINT_MISMATCH",
    );
    only(line, Cause::KeyReused);
}

#[test]
fn repeats_without_message_labels_are_not_guessed_at() {
    let line = key("a").granted(1, "w1", ("", 0), DONE_AT_100).away(160, "w2", ("", 0), "REPLAY");
    only(line, Cause::Unlabelled);
    let half = key("a").granted(1, "w1", ("", 0), DONE_AT_100).away(160, "w2", ("m1", 0), "REPLAY");
    only(half, Cause::Unlabelled);
}

#[test]
fn a_try_that_was_asked_for_is_no_incident() {
    let line = key("a").granted(1, "w1", ("m1", 1), Some((Ended::GivenBack, 50))).granted(
        60,
        "w1",
        ("m1", 1),
        DONE_AT_100,
    );
    assert_eq!(causes(vec![line]), []);
    let waits = key("a")
        .granted(1, "w1", ("m1", 1), Some((Ended::GivenBack, 50)))
        .away(55, "w2", ("m1", 2), "PENDING")
        .granted(60, "w2", ("m1", 2), DONE_AT_100);
    assert_eq!(causes(vec![waits]), []);
}
