//! The nodes that a client knows, and which of them to ask next.
//!
//! They are asked in the order in which the configuration names them, nearest region first. One that
//! failed is left alone for a while that doubles with every further failure; a hint to the leader
//! goes first. When all are left alone, the one that is due first is asked anyway: a client never
//! refuses to try.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint as Address};

use crate::config::{ClientConfig, ConfigError};

/// How long an endpoint is left alone after its first failure, and at most.
const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(5);
/// Endpoints that hints may add to the configured ones.
const LEARNED_MAX: usize = 16;
/// Windows that let a few large results be under way at once.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// One node.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Its address, as it was given.
    pub(crate) name: String,
    /// Connects when it is first used, and again when the connection broke.
    pub(crate) channel: Channel,
    rest: Mutex<Rest>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    failures: u32,
    until: Option<Instant>,
}

impl Endpoint {
    fn new(name: &str, connect_timeout: Duration) -> Result<Self, ConfigError> {
        let wrong = |problem: String| ConfigError::Endpoint { endpoint: name.to_owned(), problem };
        let text = name.trim();
        let uri = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let address = Address::from_shared(uri).map_err(|error| wrong(error.to_string()))?;
        match (address.uri().scheme_str(), address.uri().host(), address.uri().port_u16()) {
            (Some("http"), Some(host), Some(_)) if !host.is_empty() => {}
            (Some("http"), _, None) => return Err(wrong("has no port".to_owned())),
            (Some("http"), _, _) => return Err(wrong("has no host".to_owned())),
            (_, _, _) => return Err(wrong("only http is served".to_owned())),
        }
        let address = address
            .connect_timeout(connect_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let channel = address.connect_lazy();
        Ok(Self { name: text.to_owned(), channel, rest: Mutex::default() })
    }

    /// Notes that it answered.
    pub(crate) fn answered(&self) {
        *lock(&self.rest) = Rest::default();
    }

    /// Notes that it failed; it is left alone for a while.
    pub(crate) fn failed(&self) {
        let mut rest = lock(&self.rest);
        let pause = REST_MIN.saturating_mul(1 << rest.failures.min(10)).min(REST_MAX);
        rest.failures = rest.failures.saturating_add(1);
        rest.until = Some(Instant::now() + pause);
    }

    fn rests_until(&self) -> Option<Instant> {
        lock(&self.rest).until.filter(|until| *until > Instant::now())
    }
}

/// All nodes that a client knows.
#[derive(Debug)]
pub(crate) struct Pool {
    endpoints: RwLock<Vec<Arc<Endpoint>>>,
    hint: Mutex<Option<String>>,
    configured: usize,
    connect_timeout: Duration,
}

impl Pool {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ConfigError> {
        let endpoints = config
            .endpoints
            .iter()
            .map(|name| Endpoint::new(name, config.connect_timeout).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err(ConfigError::NoEndpoint);
        }
        Ok(Self {
            configured: endpoints.len(),
            endpoints: RwLock::new(endpoints),
            hint: Mutex::default(),
            connect_timeout: config.connect_timeout,
        })
    }

    /// The addresses, configured ones first.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().iter().map(|endpoint| endpoint.name.clone()).collect()
    }

    /// The endpoint of that name, if it is known.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Endpoint>> {
        self.all().into_iter().find(|endpoint| endpoint.name == name)
    }

    /// The endpoint of that name, known or not. One that is not known is not remembered either.
    pub(crate) fn endpoint(&self, name: &str) -> Result<Arc<Endpoint>, ConfigError> {
        match self.named(name) {
            Some(endpoint) => Ok(endpoint),
            None => Endpoint::new(name, self.connect_timeout).map(Arc::new),
        }
    }

    /// Whom to ask next, those in `tried` excepted; none when all of them were tried.
    pub(crate) fn next(&self, tried: &[String]) -> Option<Arc<Endpoint>> {
        let hint = lock(&self.hint).clone();
        let mut open: Vec<Arc<Endpoint>> =
            self.all().into_iter().filter(|endpoint| !tried.contains(&endpoint.name)).collect();
        // Stable: within one class the order of the configuration holds.
        open.sort_by_key(|endpoint| {
            (endpoint.rests_until(), hint.as_deref() != Some(endpoint.name.as_str()))
        });
        open.into_iter().next()
    }

    /// Notes where the leader is said to be. The next call goes there first.
    pub(crate) fn hint(&self, name: &str) {
        if self.named(name).is_none() {
            let mut endpoints = write(&self.endpoints);
            if endpoints.len() >= self.configured + LEARNED_MAX {
                return;
            }
            match Endpoint::new(name, self.connect_timeout) {
                Ok(endpoint) => endpoints.push(Arc::new(endpoint)),
                Err(error) => {
                    tracing::debug!(%error, "ignore a hint to the leader");
                    return;
                }
            }
        }
        *lock(&self.hint) = Some(name.to_owned());
    }

    /// Forgets a hint that led to an endpoint that failed.
    pub(crate) fn forget_hint(&self, name: &str) {
        let mut hint = lock(&self.hint);
        if hint.as_deref() == Some(name) {
            *hint = None;
        }
    }

    fn all(&self) -> Vec<Arc<Endpoint>> {
        self.endpoints.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Nothing panics while it holds one of these locks, and none of the values can be half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(endpoints: &[&str]) -> Result<Pool, ConfigError> {
        Pool::new(&ClientConfig::new(endpoints.iter().copied()))
    }

    fn next(pool: &Pool, tried: &[&str]) -> Option<String> {
        let tried: Vec<String> = tried.iter().map(|name| (*name).to_owned()).collect();
        pool.next(&tried).map(|endpoint| endpoint.name.clone())
    }

    #[tokio::test]
    async fn the_order_is_hint_then_configured_then_those_that_rest() {
        let pool = pool(&["a:1", "b:2", "c:3"]).unwrap();
        assert_eq!(next(&pool, &[]).as_deref(), Some("a:1"));
        pool.hint("c:3");
        assert_eq!(next(&pool, &[]).as_deref(), Some("c:3"));
        pool.named("c:3").unwrap().failed();
        pool.named("a:1").unwrap().failed();
        assert_eq!(next(&pool, &[]).as_deref(), Some("b:2"));
        assert_eq!(next(&pool, &["b:2"]).as_deref(), Some("c:3"));
        assert_eq!(next(&pool, &["a:1", "b:2", "c:3"]), None);
        tokio::time::sleep(REST_MIN).await;
        pool.forget_hint("c:3");
        assert_eq!(next(&pool, &[]).as_deref(), Some("a:1"));
    }

    #[tokio::test]
    async fn hints_add_endpoints_up_to_a_bound() {
        let pool = pool(&["a:1"]).unwrap();
        for port in 1..100 {
            pool.hint(&format!("h:{port}"));
        }
        pool.hint("not an address");
        assert_eq!(pool.names().len(), 1 + LEARNED_MAX);
    }

    #[tokio::test]
    async fn a_wrong_endpoint_is_named() {
        assert_eq!(pool(&[]).unwrap_err(), ConfigError::NoEndpoint);
        for wrong in ["localhost", "https://a:1", "a b:1", ":1", ""] {
            let error = pool(&[wrong]).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
