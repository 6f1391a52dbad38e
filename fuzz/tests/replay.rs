//! Replays the committed corpus without a fuzzer.

use slackwater_fuzz::{TARGETS, corpus};

/// With `SLACKWATER_WRITE_SEEDS` set, the seeds are written anew first.
#[test]
fn no_input_of_the_corpus_fails() {
    if std::env::var_os("SLACKWATER_WRITE_SEEDS").is_some() {
        corpus::write_seeds().unwrap();
    }
    for (target, _) in TARGETS {
        assert!(corpus::replay(target) > 0, "{target} has a corpus");
    }
}

/// A stand-in for the fuzzer that needs none: each input, with single bytes changed, cut, and doubled.
#[test]
fn no_small_change_of_an_input_fails() {
    for (target, body) in TARGETS {
        for input in corpus::inputs(target) {
            let step = (input.len() / 12).max(1) | 1;
            for at in (0..input.len()).step_by(step) {
                for change in [0x01, 0x80, 0xff] {
                    let mut changed = input.clone();
                    changed[at] ^= change;
                    body(&changed);
                }
                body(&input[..at]);
            }
            body(&input.repeat(2));
        }
    }
}

#[test]
fn sound_segments_verify_and_forged_ones_do_not() {
    let input =
        |name: &str| std::fs::read(format!("{}/corpus/segment/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(slackwater_fuzz::verify(&input("no-entries")).unwrap().entries, 0);
    for name in ["every-kind", "every-kind-lz4", "every-kind-zstd"] {
        assert_eq!(slackwater_fuzz::verify(&input(name)).unwrap().entries, 85, "{name}");
    }
    let error = slackwater_fuzz::verify(&input("chain-in-a-circle")).unwrap_err().to_string();
    assert!(error.contains("page that two others refer to"), "{error}");
    let error = slackwater_fuzz::verify(&input("tiny-records-linked")).unwrap_err().to_string();
    assert!(error.contains("records of one key"), "{error}");
}
