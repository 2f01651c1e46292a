//! What the binary prints where, and with which code it exits, as far as no node is needed.

#![expect(clippy::unwrap_used, reason = "what the tests call may fail only as a test does")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

/// A port of the discard protocol, at which nobody listens on a test machine.
const NOBODY: &str = "127.0.0.1:9";

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstclaim"));
    for name in ["ENDPOINT", "TENANT", "NAMESPACE", "TIMEOUT", "OUTPUT", "CONFIG"] {
        command.env_remove(format!("FIRSTCLAIM_{name}"));
    }
    command
}

fn run(line: &str) -> Output {
    command().args(line.split_whitespace()).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_is_data_and_faults_are_talk() {
    for line in ["--help", "help", "help tenant set", "help exit-codes", "claim --help"] {
        let output = run(line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        assert!(!stdout(&output).is_empty() && output.stderr.is_empty(), "{line}");
    }
    for line in ["get", "gett -K k", "help me", "get -K k --timeout 1mo", "get -K k"] {
        let output = run(line);
        assert_eq!(code(&output), 2, "{line}: {}", stdout(&output));
        assert!(!stderr(&output).is_empty() && output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn the_exit_codes_are_listed() {
    let text = stdout(&run("help exit-codes"));
    for code in
        ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "10 ", "11 ", "12 ", "13 ", "14 ", "124 "]
    {
        assert!(text.lines().any(|line| line.starts_with(code)), "{code}: {text}");
    }
    let json = stdout(&run("help exit-codes -o json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["apiVersion"], "firstclaim/v1");
    assert_eq!(json["exitCodes"].as_array().unwrap().len(), 13);
}

#[test]
fn a_missing_name_is_asked_for() {
    let output = run(&format!("get -K k -n payouts -E {NOBODY}"));
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("FIRSTCLAIM_TENANT"), "{}", stderr(&output));
}

#[test]
fn a_key_that_is_no_text_is_named() {
    let output = command()
        .args(["get", "-t", "a", "-n", "b", "-K"])
        .arg(OsStr::from_bytes(b"\xff"))
        .output();
    let output = output.unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("key: is not UTF-8"), "{}", stderr(&output));
}

#[test]
fn nobody_reached_is_unavailable_and_names_the_endpoints() {
    let line = format!("claim -t acme -n payouts -K k --request x -E {NOBODY} --timeout 1s");
    let output = run(&line);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let text = stderr(&output);
    for part in ["UNREACHABLE", "not reached", NOBODY, "what to do", "attempt "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = run(&format!("{line} -o json"));
    assert!(output.stdout.is_empty());
    let json: serde_json::Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(json["error"]["reason"], "UNREACHABLE");
    assert_eq!(json["error"]["applied"], "no");
    assert_eq!(json["error"]["exitCode"], 3);
    assert_eq!(json["error"]["endpoints"][0]["reached"], false);
}

#[test]
fn an_endpoint_that_is_no_address_says_how_to_write_one() {
    let output = run("cluster status -E localhost");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("127.0.0.1:4360"), "{}", stderr(&output));
}

#[test]
fn reasons_are_explained_however_they_are_spelled() {
    let text = stdout(&run("error explain stale-epoch"));
    assert!(text.starts_with("STALE_EPOCH\n") && text.contains("What to do: "), "{text}");
    let output = run("error explain NONSENSE");
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("firstclaim error list"), "{}", stderr(&output));
}

#[test]
fn the_build_id_stands_alone() {
    let id = stdout(&run("version --build-id"));
    let digits = id.trim_end();
    assert_eq!(digits.len(), 16, "{id:?}");
    assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id:?}");
}

#[test]
fn completions_are_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&format!("completions {shell}"));
        assert_eq!(code(&output), 0, "{shell}");
        assert!(stdout(&output).contains("firstclaim"), "{shell}");
    }
}
