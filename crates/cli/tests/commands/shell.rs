//! A cluster, and a shell that calls the binary at it.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use firstclaim_server::dev::{DevCluster, DevOptions, Ports};
use serde_json::Value;

/// The tenant and the namespace of all calls that name no other.
const TENANT: &str = "acme";
const NAMESPACE: &str = "payouts";

/// Three regions, with a tenant of our own.
pub(crate) struct Shell {
    cluster: DevCluster,
    endpoints: String,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Shell {
    pub(crate) async fn start() -> Self {
        let options = DevOptions { ports: Ports::Free, ..DevOptions::default() };
        let cluster = DevCluster::start(&options).await.unwrap();
        let _ = cluster.wait_ready().await.unwrap();
        let shell = Self { endpoints: cluster.endpoints().join(","), cluster };
        shell.ok(&["tenant", "create"]).await;
        shell.ok(&["namespace", "create"]).await;
        shell
    }

    pub(crate) async fn end(self) {
        self.cluster.shutdown().await;
    }

    /// The binary, about to be called at the cluster.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstclaim"));
        for name in ["CONFIG", "OUTPUT", "PRINCIPAL"] {
            command.env_remove(format!("FIRSTCLAIM_{name}"));
        }
        command
            .args(args)
            .env("FIRSTCLAIM_ENDPOINT", &self.endpoints)
            .env("FIRSTCLAIM_TENANT", TENANT)
            .env("FIRSTCLAIM_NAMESPACE", NAMESPACE)
            .env("FIRSTCLAIM_TIMEOUT", "20s")
            .stdin(Stdio::null());
        command
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        // The cluster lives in this process and must go on meanwhile.
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        ran(output)
    }

    /// What a command prints that succeeds.
    pub(crate) async fn ok(&self, args: &[&str]) -> String {
        self.code(0, args).await
    }

    /// What a command prints that ends with that code.
    pub(crate) async fn code(&self, code: i32, args: &[&str]) -> String {
        let ran = self.run(args).await;
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        ran.stdout
    }

    /// The data of a command that ends with that code.
    pub(crate) async fn json(&self, code: i32, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        // Before a command that the binary is to run.
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        args.splice(at..at, ["-o", "json"]);
        serde_json::from_str(&self.code(code, &args).await).unwrap()
    }

    /// The reason of a command that fails with that code.
    pub(crate) async fn reason(&self, code: i32, args: &[&str]) -> String {
        let mut args = args.to_vec();
        args.extend(["-o", "json"]);
        let ran = self.run(&args).await;
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        let json: Value = serde_json::from_str(&ran.stderr).unwrap();
        json["error"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Claims a key and returns epoch and attempt.
    pub(crate) async fn claim(&self, key: &str) -> (String, String) {
        let json = self.json(0, &["claim", "-K", key, "--request", key]).await;
        (text(&json["epoch"]), text(&json["attempt"]))
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Asks again until it is so, for a bounded time.
pub(crate) async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let mut came = false;
    for _ in 0..100 {
        came = so().await;
        if came {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(came, "never came: {what}");
}
