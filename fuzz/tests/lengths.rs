//! Case J-01: every number of a file replaced by one that lies. The bodies put the checksums right, so what is behind
//! them has to notice; they hold the memory it takes to what FORMAT.md allows.

use slackwater_fuzz::{TARGETS, corpus};

/// What a length, a count or a size is made to say; and one more, one less than is true.
const LIES: [u64; 5] = [0, u64::MAX, 1 << 61, 0x6159_8000, 0xffff];

/// No larger inputs: every place of them is tried with every lie.
const INPUT_LEN_MAX: usize = 6_000;

#[test]
fn j01_no_number_that_lies_is_believed_at_the_cost_of_memory() {
    let mut tried = 0;
    for (target, body) in TARGETS {
        if !matches!(*target, "header" | "footer" | "index" | "manifest" | "chunk" | "segment" | "in_flight")
        {
            continue;
        }
        let inputs = corpus::inputs(target);
        let smallest = inputs.iter().filter(|input| input.len() <= INPUT_LEN_MAX);
        let Some(input) = smallest.max_by_key(|input| input.iter().filter(|byte| **byte != 0).count()) else {
            continue;
        };
        for width in [2, 4, 8] {
            for at in (0..input.len().saturating_sub(width)).step_by(2) {
                let field = &input[at..at + width];
                // What is zero all over is padding; a few bytes behind numbers are tried with their neighbours.
                if field.iter().all(|byte| *byte == 0) {
                    continue;
                }
                let mut wide = [0; 8];
                wide[..width].copy_from_slice(field);
                let truth = u64::from_le_bytes(wide);
                for lie in LIES.into_iter().chain([truth.wrapping_add(1), truth.wrapping_sub(1)]) {
                    let mut lying = input.clone();
                    lying[at..at + width].copy_from_slice(&lie.to_le_bytes()[..width]);
                    body(&lying);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 10_000, "only {tried} lies");
}
