//! `firstclaim diagnose` names the cause of an incident: five incidents, one per cause, each made by a
//! fault that is played live with seeded keys and labels, and a clean run that has no cause.

use std::time::Duration;

use firstclaim_client::{ClaimOutcome, ClaimRequest, Client, fingerprint, v1};
use firstclaim_tests::cli::Cli;
use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::{Outcome, say, seed};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::{Instant, sleep};

const TENANT: &str = "shop";
/// The history may lag that much.
const TOLD_WITHIN: Duration = Duration::from_secs(20);
const CALL: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_incident_is_put_down_to_its_cause() {
    let seed = seed::take("diagnose").expect("take a seed");
    let cluster = Cluster::start("diagnose").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = story(&cluster, seed).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn story(cluster: &Cluster, seed: u64) -> Outcome<()> {
    let endpoints = cluster.endpoints();
    let cli = Cli::new(cluster.binary(), &endpoints);
    let client = cluster.client()?;
    set_up(&client).await?;
    let mut chance = seed::chance(seed, 0);
    let mut shop = Shop { client: &client, namespace: "", chance: &mut chance };

    let handled = shop.retry_in_handler("retry").await?;
    expect(&cli, "retry", "RETRY_IN_HANDLER", handled).await?;
    let redelivered = shop.redelivery("visibility").await?;
    let found = expect(&cli, "visibility", "REDELIVERY", redelivered).await?;
    let details = found["details"].to_string();
    if !details.contains("still at work") {
        return Err(format!("the short visibility window is not told: {details}").into());
    }
    let published = shop.published_twice("producer").await?;
    expect(&cli, "producer", "PUBLISHED_TWICE", published).await?;
    let minted = shop.key_per_attempt("minted").await?;
    let found = expect(&cli, "minted", "KEY_PER_ATTEMPT", minted).await?;
    one_key(&cli, &found).await?;
    let skipped = shop.check_skipped("skipped").await?;
    expect(&cli, "skipped", "CHECK_SKIPPED", skipped).await?;

    let clean = shop.clean("clean").await?;
    let (code, told) = cli.json(&["diagnose", "-t", TENANT, "-n", "clean"], CALL).await?;
    let none = told["causes"].as_array().is_some_and(Vec::is_empty);
    if code != 0 || !none || told["keys"] != clean {
        return Err(format!("a clean run of {clean} keys has a cause: {told:#}").into());
    }
    say(&format!("diagnose: 5 causes named, none for {clean} clean keys"));
    Ok(())
}

/// Waits until the one cause that is named is the right one, as often as it was made.
async fn expect(cli: &Cli<'_>, namespace: &str, cause: &str, count: u64) -> Outcome<Value> {
    let start = Instant::now();
    loop {
        let (code, told) = cli.json(&["diagnose", "-t", TENANT, "-n", namespace], CALL).await?;
        let causes = told["causes"].as_array().cloned().unwrap_or_default();
        if let [only] = causes.as_slice()
            && code == 0
            && only["cause"] == cause
            && only["count"] == count
        {
            let evidence = only["evidence"].as_array().map_or(0, Vec::len);
            if evidence == 0 {
                return Err(format!("{cause} is named without evidence: {told:#}").into());
            }
            say(&format!("diagnose: {namespace}: {cause}, {count} times, {evidence} lines"));
            return Ok(only.clone());
        }
        if start.elapsed() > TOLD_WITHIN {
            return Err(format!("{namespace}: {count} {cause} were made, told: {told:#}").into());
        }
        sleep(Duration::from_millis(300)).await;
    }
}

/// Asked about one key, it finds the others of the same request.
async fn one_key(cli: &Cli<'_>, found: &Value) -> Outcome<()> {
    let key = found["keys"][0].as_str().ok_or("a key")?;
    let asked = ["diagnose", "-t", TENANT, "-n", "minted", "-K", key];
    let (_, told) = cli.json(&asked, CALL).await?;
    if told["causes"][0]["cause"] != "KEY_PER_ATTEMPT" || told["keys"] != 2 {
        return Err(format!("{key} and its twin are not told apart: {told:#}").into());
    }
    Ok(())
}

async fn set_up(client: &Client) -> Outcome<()> {
    let tenant = v1::Tenant { name: TENANT.to_owned(), ..v1::Tenant::default() };
    let request = v1::CreateTenantRequest { tenant: Some(tenant), validate_only: false };
    client.create_tenant(request).await?;
    for name in ["retry", "visibility", "producer", "minted", "skipped", "clean"] {
        let namespace = v1::Namespace {
            tenant: TENANT.to_owned(),
            name: name.to_owned(),
            ..v1::Namespace::default()
        };
        let request =
            v1::CreateNamespaceRequest { namespace: Some(namespace), validate_only: false };
        client.create_namespace(request).await?;
    }
    Ok(())
}

/// The workers of a shop, each with its own fault.
struct Shop<'a> {
    client: &'a Client,
    namespace: &'static str,
    chance: &'a mut StdRng,
}

/// Who handles which delivery of which message.
#[derive(Clone, Copy)]
struct Handled<'a> {
    instance: &'a str,
    message: &'a str,
    delivery: u32,
}

impl Shop<'_> {
    fn orders(&mut self, namespace: &'static str) -> Vec<String> {
        self.namespace = namespace;
        let count = self.chance.random_range(3..7);
        (0..count)
            .map(|at| format!("order:{:06}-{at}", self.chance.random_range(0..1_000_000)))
            .collect()
    }

    async fn claim(&self, key: &str, request: &str, by: Handled<'_>) -> Outcome<ClaimOutcome> {
        let claim = ClaimRequest::new(TENANT, self.namespace, key)
            .owner(by.instance)
            .fingerprint(fingerprint::raw(request.as_bytes()))
            .label("message_id", by.message)
            .label("delivery", by.delivery.to_string());
        Ok(self.client.claim(claim).await?)
    }

    /// Claims and completes, as any worker would.
    async fn work(&self, key: &str, request: &str, by: Handled<'_>) -> Outcome<()> {
        let answer = self.claim(key, request, by).await?;
        let ClaimOutcome::Acquired(claim) = answer else {
            return Err(format!("{key} was to be acquired: {answer:?}").into());
        };
        claim.complete("text/plain", b"done").await?;
        Ok(())
    }

    async fn replayed(&self, key: &str, by: Handled<'_>) -> Outcome<()> {
        let answer = self.claim(key, key, by).await?;
        if matches!(answer, ClaimOutcome::Replay(_)) {
            return Ok(());
        }
        Err(format!("{key} was to be replayed: {answer:?}").into())
    }

    /// The handler loses the answer of its own last step and runs from the top again.
    async fn retry_in_handler(&mut self, namespace: &'static str) -> Outcome<u64> {
        let orders = self.orders(namespace);
        for order in &orders {
            let message = format!("m-{order}");
            let by = Handled { instance: "worker-1", message: &message, delivery: 1 };
            self.work(order, order, by).await?;
            self.replayed(order, by).await?;
        }
        Ok(orders.len() as u64)
    }

    /// The queue shows the message to another worker while the first one is still at work.
    async fn redelivery(&mut self, namespace: &'static str) -> Outcome<u64> {
        let orders = self.orders(namespace);
        for order in &orders {
            let message = format!("m-{order}");
            let first = Handled { instance: "worker-1", message: &message, delivery: 1 };
            let ClaimOutcome::Acquired(claim) = self.claim(order, order, first).await? else {
                return Err(format!("{order} was to be acquired").into());
            };
            sleep(Duration::from_millis(60)).await;
            let second = Handled { instance: "worker-2", message: &message, delivery: 2 };
            let ClaimOutcome::Pending(_) = self.claim(order, order, second).await? else {
                return Err(format!("{order} was to be pending").into());
            };
            sleep(Duration::from_millis(60)).await;
            claim.complete("text/plain", b"done").await?;
            self.replayed(order, second).await?;
        }
        Ok(orders.len() as u64)
    }

    /// The producer's call timed out, and it published again.
    async fn published_twice(&mut self, namespace: &'static str) -> Outcome<u64> {
        let orders = self.orders(namespace);
        for order in &orders {
            let (one, two) = (format!("m1-{order}"), format!("m2-{order}"));
            self.work(order, order, Handled { instance: "worker-1", message: &one, delivery: 1 })
                .await?;
            let again = Handled { instance: "worker-2", message: &two, delivery: 1 };
            self.replayed(order, again).await?;
        }
        Ok(orders.len() as u64)
    }

    /// The worker names the intent anew for each delivery.
    async fn key_per_attempt(&mut self, namespace: &'static str) -> Outcome<u64> {
        let orders = self.orders(namespace);
        for order in &orders {
            let message = format!("m-{order}");
            for delivery in 1..=2 {
                let key = format!("{order}/{:08x}", self.chance.random::<u32>());
                let instance = if delivery == 1 { "worker-1" } else { "worker-2" };
                let by = Handled { instance, message: &message, delivery };
                self.work(&key, order, by).await?;
            }
        }
        Ok(orders.len() as u64)
    }

    /// One path of the worker acts without asking; only the last delivery takes the path that asks.
    async fn check_skipped(&mut self, namespace: &'static str) -> Outcome<u64> {
        let orders = self.orders(namespace);
        for order in &orders {
            let message = format!("m-{order}");
            let delivery = self.chance.random_range(2..5);
            let by = Handled { instance: "worker-1", message: &message, delivery };
            self.work(order, order, by).await?;
        }
        Ok(orders.len() as u64)
    }

    /// Nothing goes wrong: one delivery each, by several workers.
    async fn clean(&mut self, namespace: &'static str) -> Outcome<u64> {
        let orders = self.orders(namespace);
        for (at, order) in orders.iter().enumerate() {
            let instance = format!("worker-{at}");
            let message = format!("m-{order}");
            let by = Handled { instance: &instance, message: &message, delivery: 1 };
            self.work(order, order, by).await?;
        }
        Ok(orders.len() as u64)
    }
}
