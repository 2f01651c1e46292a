//! Effects from the command line: recorded with a claim or apart, settled by whoever knows, ended by
//! an operator.

use crate::shell::{Shell, text};
use serde_json::Value;

fn effect<'a>(record: &'a Value, uid: &str) -> &'a Value {
    let effects = record["effects"].as_array().unwrap();
    effects.iter().find(|effect| effect["uid"] == uid).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_are_recorded_settled_and_resolved() {
    let shell = Shell::start().await;
    an_effect_of_a_claim_is_settled_by_its_completion(&shell).await;
    what_is_open_is_listed_and_settled_without_a_claim(&shell).await;
    too_early_a_look_up_proves_nothing(&shell).await;
    an_operator_ends_what_nobody_else_can(&shell).await;
    a_revoked_holder_cannot_go_on(&shell).await;
    shell.end().await;
}

async fn an_effect_of_a_claim_is_settled_by_its_completion(shell: &Shell) {
    let spec = "payment,provider=bank,key=pay-1,window=24h,request=847 120.00 EUR";
    let claim = ["claim", "-K", "e1", "--request", "x", "--effect", spec];
    let json = shell.json(0, &claim).await;
    let uid = text(&json["dispatches"][0]["permit"]["uid"]);
    assert!(uid.ends_with("/payment"), "{json}");
    let (epoch, attempt) = (text(&json["epoch"]), text(&json["attempt"]));
    let holder = ["complete", "-K", "e1", "--epoch", &epoch, "--attempt", &attempt, "--succeeded"];
    // Nothing is completed over an open effect.
    assert_eq!(shell.reason(12, &holder).await, "UNSETTLED_EFFECTS");
    let settle = format!("{uid},committed,provider=bank,key=pay-1,evidence=tx_1");
    let settled = [&holder[..], &["--settle", &settle, "--result", "tx_1"]].concat();
    shell.ok(&settled).await;
    let record = shell.json(0, &["record", "show", "-K", "e1"]).await;
    let settlement = &effect(&record, &uid)["settlement"];
    assert_eq!(settlement["verdict"], "committed");
    assert_eq!(settlement["evidence"]["text"], "tx_1");
    let replay = shell.json(10, &["claim", "-K", "e1", "--request", "x"]).await;
    assert_eq!(replay["result"]["text"], "tx_1");
}

async fn what_is_open_is_listed_and_settled_without_a_claim(shell: &Shell) {
    let (epoch, attempt) = shell.claim("e2").await;
    let holder = ["-K", "e2", "--epoch", &epoch, "--attempt", &attempt];
    let asked =
        ["payment", "--provider", "bank", "--provider-key", "pay-2", "--dedup-window", "1d"];
    let record = [&["effect"][..], &holder, &asked].concat();
    let permit = shell.json(0, &record).await;
    let uid = text(&permit["permit"]["uid"]);
    assert!(permit["leftSeconds"].as_f64().unwrap() > 1.0, "{permit}");
    // The same number is the same permit; another effect of the slot has to wait.
    assert_eq!(shell.json(0, &record).await["permit"]["repeated"], true);
    let other = [&["effect"][..], &holder, &["payment-2", "--provider", "bank"]].concat();
    assert_eq!(shell.reason(12, &other).await, "EFFECT_OPEN");
    let release = [&["release"][..], &holder, &["--unknown", "--note", "no answer"]].concat();
    shell.ok(&release).await;

    let list = shell.json(0, &["unresolved", "list"]).await;
    assert_eq!(list["records"][0]["key"], "e2");
    let shown = shell.json(12, &["unresolved", "show", "-K", "e2"]).await;
    assert_eq!(shown["open"][0]["uid"], uid.as_str());
    assert_eq!(shown["open"][0]["state"], "OPEN");
    let settle = ["settle", "-K", "e2", &uid, "--provider", "bank", "--committed"];
    assert_eq!(shell.reason(6, &settle).await, "EFFECT_MISMATCH");
    let settle =
        [&settle[..], &["--provider-key", "pay-2", "--evidence", "tx_2", "--principal", "ada"]]
            .concat();
    let answer = shell.json(0, &settle).await;
    assert_eq!((&answer["verdict"], &answer["repeated"]), (&"committed".into(), &false.into()));
    assert_eq!(shell.json(0, &settle).await["repeated"], true);
    shell.ok(&["unresolved", "show", "-K", "e2"]).await;
    // The next claim has the evidence in hand.
    let takeover = shell.json(0, &["claim", "-K", "e2", "--request", "e2"]).await;
    assert_eq!(takeover["acquired"], "TAKEOVER");
    assert_eq!(effect(&takeover, &uid)["settlement"]["principal"], "ada");
}

async fn too_early_a_look_up_proves_nothing(shell: &Shell) {
    let (epoch, attempt) = shell.claim("e3").await;
    let holder = ["-K", "e3", "--epoch", &epoch, "--attempt", &attempt];
    shell.ok(&[&["release"][..], &holder, &["--unknown"]].concat()).await;
    let shown = shell.json(12, &["unresolved", "show", "-K", "e3"]).await;
    let (uid, as_of) = (text(&shown["open"][0]["uid"]), text(&shown["storeTime"]));
    assert!(uid.contains('@'), "{shown}");
    let settle = ["settle", "-K", "e3", &uid, "--not-found", "--as-of", &as_of];
    assert_eq!(shell.reason(11, &settle).await, "NOT_YET_PROVABLE");
}

async fn an_operator_ends_what_nobody_else_can(shell: &Shell) {
    let (epoch, attempt) = shell.claim("e4").await;
    let holder = ["-K", "e4", "--epoch", &epoch, "--attempt", &attempt];
    let resolve = ["resolve", "-K", "e4", "--epoch", &epoch, "--reason", "statement 12"];
    let done = [&resolve[..], &["--succeeded", "--result", "tx_4", "--attempt", "r1"]].concat();
    assert_eq!(shell.reason(11, &done).await, "STILL_LIVE");
    shell.ok(&[&["release"][..], &holder, &["--unknown"]].concat()).await;
    assert_eq!(shell.reason(12, &done).await, "UNSETTLED_EFFECTS");
    let shown = shell.json(12, &["unresolved", "show", "-K", "e4"]).await;
    let verdict = format!("{}=committed", text(&shown["open"][0]["uid"]));
    let done = [&done[..], &["--verdict", &verdict]].concat();
    let answer = shell.json(0, &done).await;
    assert_eq!(answer["state"], "COMPLETED");
    assert_eq!(shell.json(0, &done).await["repeated"], true);
    let record = shell.json(0, &["record", "show", "-K", "e4"]).await;
    assert_eq!(record["resolution"]["reason"], "statement 12");
}

async fn a_revoked_holder_cannot_go_on(shell: &Shell) {
    let (epoch, attempt) = shell.claim("e5").await;
    let holder = ["-K", "e5", "--epoch", &epoch, "--attempt", &attempt];
    shell.ok(&[&["renew"][..], &holder].concat()).await;
    shell.ok(&["revoke", "-K", "e5", "--epoch", &epoch, "--reason", "it hangs"]).await;
    let reason = shell.reason(14, &[&["renew"][..], &holder].concat()).await;
    assert!(["REVOKED", "LEASE_EXPIRED"].contains(&reason.as_str()), "{reason}");
}
