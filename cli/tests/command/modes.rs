//! How barriers pass records, as typed.

use crate::support::{Place, slackwater, text};

const UNALIGNED: [&[&str]; 2] = [&["--unaligned"], &["--unaligned", "--aligned-timeout", "2ms"]];

#[test]
fn unaligned_word_counts_are_exact_after_kills() {
    for modes in UNALIGNED {
        let args = [modes, &["--emit", "updates"]].concat();
        let place = Place::new(&text(768 << 10));
        let mut kills = 0;
        while kills < 3 && place.killed(1, &args) {
            kills += 1;
        }
        place.wordcount(&args).fine();
        place.assert_exact("updates");
    }
}

#[test]
fn a_demo_in_every_mode_is_what_it_promises() {
    let place = Place::new(&text(768 << 10));
    let input = place.input();
    for modes in UNALIGNED.iter().copied().chain([&["--mode", "at-least-once"] as &[&str]]) {
        let args = ["demo", "--kills", "2", "--json", "--seed", "7", "--emit", "updates", "--input"];
        let told =
            slackwater(args.iter().copied().chain([input.to_str().unwrap()]).chain(modes.iter().copied()));
        let report = told.fine().json();
        assert_eq!(report["complete"], true, "{report}");
        let is_exactly_once = report["mode"] == "exactly-once";
        assert!(!is_exactly_once || report["exact"] == true, "{report}");
        assert_eq!(is_exactly_once, modes[0] == "--unaligned");
    }
}

#[test]
fn modes_that_do_not_go_together_are_refused() {
    let place = Place::new(b"a b");
    place.wordcount(&["--unaligned", "--mode", "at-least-once"]).refused(2, &["at-least-once"]);
    assert!(!place.dir().exists(), "nothing is left for a later run to trip over");
    let lone = place.wordcount(&["--aligned-timeout", "5ms"]);
    assert!(lone.code == Some(2) && lone.stderr.contains("--unaligned"), "{lone:?}");
    let none = place.wordcount(&["--mode", "at-most-once"]);
    assert!(none.code == Some(2) && none.stderr.contains("exactly-once"), "{none:?}");
}
