//! The demo in small.

use crate::support::{Place, slackwater, text};

#[test]
fn a_demo_with_two_kills_is_exact() {
    let place = Place::new(&text(768 << 10));
    let input = place.input();
    for emit in ["final", "updates"] {
        let input = input.to_str().unwrap();
        let told =
            slackwater(["demo", "--kills", "2", "--json", "--seed", "7", "--emit", emit, "--input", input]);
        let report = told.fine().json();
        assert_eq!(report["exact"], true, "{report}");
        assert_eq!(report["kills"], 2, "{report}");
        assert_eq!(report["resumes"], 2, "{report}");
        assert!(report["kills_during_checkpoint"].is_u64());
        let words = place.text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        assert_eq!(report["words"], words);
        assert!(report["distinct"].as_u64().unwrap() > 1000);
        assert!(report["checkpoints_completed"].as_u64().unwrap() >= 1);
        assert!(report["bytes_replayed"].is_u64());
    }
}

#[test]
fn a_demo_goes_on_with_another_parallelism_each_time() {
    let place = Place::new(&text(768 << 10));
    let input = place.input();
    let args = ["demo", "--rescale", "--kills", "3", "--json", "--seed", "5", "--input"];
    let told = slackwater([&args[..], &[input.to_str().unwrap()]].concat());
    let report = told.fine().json();
    assert_eq!(report["exact"], true, "{report}");
    assert_eq!((&report["resumes"], &report["rescales"]), (&3.into(), &3.into()), "{report}");
}

#[test]
fn a_demo_over_a_missing_text_is_refused() {
    slackwater(["demo", "--input", "/no/such/text"]).refused(3, &["/no/such/text"]);
    slackwater(["demo", "--parallelism", "0", "--kills", "1", "--input", "/dev/null"])
        .refused(3, &["/dev/null"]);
}
