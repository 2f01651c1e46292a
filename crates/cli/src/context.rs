//! What every command needs: the client, the names that the flags give, and the output.

use std::time::Duration;

use firstclaim_client::{Client, ClientConfig};

use crate::args::Global;
use crate::failure::Failure;
use crate::output::Output;

/// How long a command tries while no endpoint can be connected to.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The global flags at work.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    global: Global,
    /// Where data goes.
    pub(crate) out: Output,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        let out = Output { format: global.output };
        Self { global, out }
    }

    /// A client of the endpoints that the flags name. Call it inside the runtime.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let mut config = ClientConfig::new(self.endpoints()).with_timeout(self.global.timeout);
        // A person at a terminal wants to hear soon that nobody is there.
        config.unreachable_timeout = config.unreachable_timeout.min(UNREACHABLE_TIMEOUT);
        Client::lazy(config).map_err(|error| Failure::usage(error.to_string()))
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        let named = self.global.endpoint.iter().map(|endpoint| endpoint.trim().to_owned());
        named.filter(|endpoint| !endpoint.is_empty()).collect()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.global.timeout
    }

    /// The tenant: `named` if it is given, else what the flags say.
    pub(crate) fn tenant(&self, named: Option<&str>) -> Result<String, Failure> {
        let missing = "no tenant is given; name it with --tenant (-t) or FIRSTCLAIM_TENANT";
        pick(named, self.global.tenant.as_deref(), missing)
    }

    /// The namespace: `named` if it is given, else what the flags say.
    pub(crate) fn namespace(&self, named: Option<&str>) -> Result<String, Failure> {
        let missing =
            "no namespace is given; name it with --namespace (-n) or FIRSTCLAIM_NAMESPACE";
        pick(named, self.global.namespace.as_deref(), missing)
    }

    /// The flags that repeat a call at the same cluster, tenant and namespace.
    pub(crate) fn flags(&self, tenant: &str, namespace: &str) -> String {
        let endpoints = self.endpoints();
        let mut flags = format!("-t {} -n {}", quote(tenant), quote(namespace));
        if endpoints != ["127.0.0.1:4360"] && std::env::var_os("FIRSTCLAIM_ENDPOINT").is_none() {
            flags = format!("-E {} {flags}", quote(&endpoints.join(",")));
        }
        flags
    }
}

fn pick(named: Option<&str>, flag: Option<&str>, missing: &str) -> Result<String, Failure> {
    let picked = named.or(flag);
    picked.map(str::to_owned).ok_or_else(|| Failure::usage(missing))
}

/// A word as a shell reads it back.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more() {
        assert_eq!(quote("payout:847/a"), "payout:847/a");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
