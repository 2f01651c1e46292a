//! Runs seeds.

#![expect(clippy::print_stdout, reason = "this is a command")]

use std::process::ExitCode;
use std::time::Instant;

use firstclaim_cluster_sim::run;

#[expect(clippy::disallowed_methods, reason = "measures how long the seeds really take")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let from: u64 = args.get(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let seeds: u64 = args.get(2).and_then(|text| text.parse().ok()).unwrap_or(1);
    let tell = args.get(3).is_some();
    run::listen_to_panics();
    for seed in from..from + seeds {
        let started = Instant::now();
        let report = run::run(seed, tell);
        let took = started.elapsed().as_secs_f64();
        println!(
            "seed {seed} {:.1} s in {took:.2} s ({:.0}/s) events {} messages {} calls {} trace {:016x} restarts {} {:?}",
            report.simulated as f64 / 1e6,
            report.simulated as f64 / 1e6 / took,
            report.events,
            report.messages,
            report.calls,
            report.trace,
            report.restarts,
            report.faults
        );
    }
    ExitCode::SUCCESS
}
