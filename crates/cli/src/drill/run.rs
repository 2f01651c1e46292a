//! The course of a drill: a tenant of its own, all scenarios at once, the audit, the end of the tenant.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstclaim_client::{Client, Error, Reason, RecordRef, time, v1};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::audit;
use super::queue::{Delivery, End};
use super::report::{Report, Row};
use super::scenario::{Producer, Scenario, TABLE};
use super::scene::Scene;
use super::worker::{self, Fate};

/// How often the director looks.
const LOOK: Duration = Duration::from_millis(20);
/// How often the director asks whether a key has been forgotten.
const ASK: Duration = Duration::from_millis(200);
/// What the set-up and the audit are given of the time.
const AROUND: Duration = Duration::from_secs(8);
/// How often a call of the set-up is repeated whose answer was lost.
const SET_UP_TRIES: u32 = 5;

/// What the drill is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct DrillOptions {
    /// Intents of each scenario.
    pub(crate) intents: usize,
    /// Only these scenarios; all if there are none.
    pub(crate) only: Vec<String>,
    /// What has not ended by then counts as stuck.
    pub(crate) limit: Duration,
    /// Whether the tenant stays.
    pub(crate) keep: bool,
}

/// Runs the failure table and returns the verdict.
///
/// # Errors
///
/// When the cluster cannot be asked; then there is no verdict.
pub(crate) async fn run_drill(clients: &[Client], options: &DrillOptions) -> Result<Report, Error> {
    let start = Instant::now();
    let client = &clients[0];
    let tenant = format!("drill-{:08x}", rand::random::<u32>());
    let now = create_tenant(client, &tenant).await?;
    let scenarios = TABLE
        .iter()
        .filter(|row| options.only.is_empty() || options.only.iter().any(|name| name == row.name));
    let scenes: Vec<Arc<Scene>> = scenarios
        .map(|row: &'static Scenario| {
            Arc::new(Scene::new(row, (&tenant, clients), options.intents, now))
        })
        .collect();
    for scene in &scenes {
        create_namespaces(client, scene).await?;
    }
    let until = start + options.limit.saturating_sub(AROUND).max(AROUND);
    let mut plays = JoinSet::new();
    for scene in &scenes {
        plays.spawn(play(Arc::clone(scene), until));
    }
    while plays.join_next().await.is_some() {}
    let listed = audit::unresolved(client, &tenant).await?;
    let mut rows = Vec::new();
    for scene in &scenes {
        let verdicts = audit::judge(scene, client, &listed).await?;
        rows.push(Row::new(scene, &verdicts));
    }
    let report = Report { tenant, rows, elapsed: start.elapsed() };
    if report.passed() && !options.keep {
        let tenant = report.tenant.clone();
        // What is unresolved there is of no meaning to anybody.
        let request = v1::DeleteTenantRequest { tenant, force: true, ..Default::default() };
        client.delete_tenant(request).await?;
    }
    Ok(report)
}

/// Creates the tenant. Returns the store's time: that of this machine may be another one.
async fn create_tenant(client: &Client, name: &str) -> Result<SystemTime, Error> {
    let tenant = v1::Tenant { name: name.to_owned(), ..v1::Tenant::default() };
    let request = v1::CreateTenantRequest { tenant: Some(tenant), validate_only: false };
    for tries in 1.. {
        match client.create_tenant(request.clone()).await {
            Ok(_created) => break,
            Err(error) if made_before(&error, tries) => break,
            Err(error) if !unknown(&error, tries) => return Err(error),
            Err(_unknown) => {}
        }
    }
    let now = client.as_of(name).await?.time();
    Ok(time::system_time(&now).unwrap_or(SystemTime::UNIX_EPOCH))
}

async fn create_namespaces(client: &Client, scene: &Scene) -> Result<(), Error> {
    for (name, policy) in scene.namespaces() {
        let namespace = v1::Namespace {
            tenant: scene.tenant.clone(),
            name,
            policy: Some(policy),
            ..v1::Namespace::default()
        };
        let namespace = Some(namespace);
        let request = v1::CreateNamespaceRequest { namespace, validate_only: false };
        for tries in 1.. {
            match client.create_namespace(request.clone()).await {
                Ok(_created) => break,
                Err(error) if made_before(&error, tries) => break,
                Err(error) if !unknown(&error, tries) => return Err(error),
                Err(_unknown) => {}
            }
        }
    }
    Ok(())
}

/// The call before, whose answer was lost, has taken effect.
fn made_before(error: &Error, tries: u32) -> bool {
    tries > 1 && error.reason() == Reason::AlreadyExists
}

fn unknown(error: &Error, tries: u32) -> bool {
    error.reason() == Reason::OutcomeUnknown && tries < SET_UP_TRIES
}

/// Delivers the messages of a scenario until all of them have left the queue and every worker is done,
/// also those that come back late.
async fn play(scene: Arc<Scene>, until: Instant) {
    let mut workers = JoinSet::new();
    let mut redriven = !redrives(&scene);
    while Instant::now() < until {
        while let Some(delivery) = scene.queue.next() {
            workers.spawn(deliver(Arc::clone(&scene), delivery));
        }
        while workers.try_join_next().is_some() {}
        if scene.queue.is_empty() && workers.is_empty() {
            if redriven {
                break;
            }
            redriven = true;
            redrive(&scene, until).await;
        }
        sleep(LOOK).await;
    }
    workers.shutdown().await;
}

async fn deliver(scene: Arc<Scene>, delivery: Delivery) {
    match worker::handle(&scene, delivery).await {
        Fate::Acknowledge => scene.queue.end(delivery, End::Acknowledged),
        Fate::PutBack(after) => scene.queue.put_back(delivery, after),
        Fate::Park(why) => scene.queue.end(delivery, End::Parked(why)),
        // Nobody tells the queue anything.
        Fate::Dead => {}
    }
}

fn redrives(scene: &Scene) -> bool {
    match scene.scenario.producer {
        Producer::RedrivesKept | Producer::RedrivesForgotten => true,
        Producer::Plain
        | Producer::MintsKeysWarned
        | Producer::MintsKeysBlocked
        | Producer::ReusesKey => false,
    }
}

/// Somebody redrives the messages of an old incident.
async fn redrive(scene: &Scene, until: Instant) {
    for (at, message) in scene.messages.iter().enumerate() {
        let key = RecordRef::new(&scene.tenant, &message.intent.namespace, message.key());
        if scene.scenario.producer == Producer::RedrivesForgotten {
            while Instant::now() < until && !forgotten(scene.client(at), &key).await {
                sleep(ASK).await;
            }
        }
        scene.queue.redrive(at);
    }
}

async fn forgotten(client: &Client, key: &RecordRef) -> bool {
    let named = (key.tenant.as_str(), key.namespace.as_str(), key.key.as_str());
    let read = client.get(named, v1::Consistency::Linearizable).await;
    read.is_err_and(|error| error.reason() == Reason::RecordNotFound)
}
