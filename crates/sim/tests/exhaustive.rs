//! Every sequence of a few calls up to length 5. `FIRSTCLAIM_LENGTH` tries longer ones.

use std::env;

use firstclaim_sim::{Alphabet, exhaust};

#[test]
fn no_short_sequence_breaks_anything() {
    let length = env::var("FIRSTCLAIM_LENGTH").ok().and_then(|it| it.parse().ok()).unwrap_or(5);
    for alphabet in Alphabet::ALL {
        let exhausted = exhaust(alphabet, length);
        println!("{:>12}  sequences up to {length}: {alphabet:?}", exhausted.sequences);
        if let Some((lines, broken)) = exhausted.broken {
            panic!("{}\n{broken}", lines.join("\n"));
        }
    }
}
