//! Restarts as tables of failures and what follows, and in all short rows.

use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::test_rng::Rng;

use RestartAction::{GiveUp, Restart};
use RestartEvent::{JobFailed, JobStarted};

const fn at(millis: u64) -> Now {
    Now { monotonic: Millis(millis), wall: Millis(0) }
}

fn send(machine: &mut Restarts, now: u64, event: RestartEvent) -> Result<Option<RestartAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Restarts::ACTIONS_MAX }>::new();
    machine.on_event(at(now), event, &mut out)?;
    machine.check();
    Ok(out.pop())
}

fn machine(strategy: RestartStrategy) -> Restarts {
    Restarts::new(strategy, 1).unwrap()
}

/// Starts when due and fails after having run for each of these; how long it then waits, until it is left.
fn delays(strategy: RestartStrategy, runs: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let (mut machine, mut now, mut delays) = (machine(strategy), 0, Vec::new());
    for ran_for in runs {
        assert_eq!(send(&mut machine, now, JobStarted), Ok(None));
        now += ran_for;
        match send(&mut machine, now, JobFailed) {
            Ok(Some(Restart { at, restarts })) => {
                delays.push(at.since(Millis(now)).0);
                assert_eq!(restarts, delays.len() as u64);
                assert_eq!(machine.next_deadline(Now::default()), Some(at));
                now = at.0;
            }
            Ok(Some(GiveUp)) => {
                assert_eq!(machine.next_deadline(Now::default()), None);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    delays
}

const fn exponential() -> ExponentialDelay {
    ExponentialDelay {
        initial: Millis(100),
        max: Millis(1_000),
        multiplier_percent: 200,
        reset_after: Millis(5_000),
        jitter_percent: 0,
        attempts: u32::MAX,
    }
}

#[test]
fn l1_a_job_with_checkpoints_restarts_without_limit_and_one_without_them_never() {
    let with = RestartStrategy::for_job(true);
    assert_eq!(delays(with, [0; 2_000]).len(), 2_000);
    assert_eq!(delays(RestartStrategy::for_job(false), [0; 3]), Vec::<u64>::new());
}

#[test]
fn l1_the_delays_where_nothing_is_said_go_from_a_second_to_a_minute() {
    let waits = delays(RestartStrategy::for_job(true), [0; 40]);
    assert!((1_000..=1_100).contains(&waits[0]), "{waits:?}");
    assert!(waits.iter().all(|wait| (1_000..=60_000).contains(wait)), "{waits:?}");
    assert!(waits[20..].iter().all(|wait| *wait >= 54_000), "{waits:?}");
}

#[test]
fn a_fixed_delay_is_the_same_each_time_and_counts_over_the_whole_life() {
    let strategy = RestartStrategy::FixedDelay { attempts: 3, delay: Millis(70) };
    assert_eq!(delays(strategy, [0, 1_000_000, 5, 7, 9]), [70, 70, 70]);
    let unlimited = RestartStrategy::FixedDelay { attempts: u32::MAX, delay: Millis(0) };
    assert_eq!(delays(unlimited, [0; 5_000]).len(), 5_000);
}

#[test]
fn an_exponential_delay_grows_to_its_longest_and_begins_again_after_a_long_run() {
    let strategy = RestartStrategy::ExponentialDelay(exponential());
    let runs = [0, 1, 2, 0, 4_999, 5_000, 0];
    assert_eq!(delays(strategy, runs), [100, 200, 400, 800, 1_000, 100, 200]);
}

#[test]
fn an_exponential_delay_with_few_attempts_counts_those_in_a_row() {
    let strategy = RestartStrategy::ExponentialDelay(ExponentialDelay { attempts: 2, ..exponential() });
    assert_eq!(delays(strategy, [0, 0, 5_000, 0, 0, 0]), [100, 200, 100, 200]);
}

#[test]
fn the_shortest_delay_grows_too() {
    let slow = ExponentialDelay { initial: Millis(1), multiplier_percent: 101, ..exponential() };
    assert_eq!(delays(RestartStrategy::ExponentialDelay(slow), [0; 4]), [1, 2, 3, 4]);
    let huge = ExponentialDelay { initial: Millis(1 << 62), max: Millis::MAX, ..exponential() };
    let mut machine = machine(RestartStrategy::ExponentialDelay(huge));
    for expected in [1 << 62, 1 << 63, u64::MAX, u64::MAX] {
        assert_eq!(machine.delay(at(0), Millis(0)), Some(Millis(expected)));
    }
}

#[test]
fn jitter_spreads_delays_by_its_share_and_stays_within_their_bounds() {
    let jittery = ExponentialDelay { jitter_percent: 50, ..exponential() };
    let (mut seen, mut waits) = (std::collections::BTreeSet::new(), Vec::new());
    for seed in 0..200 {
        let mut machine = Restarts::new(RestartStrategy::ExponentialDelay(jittery), seed).unwrap();
        let mut next = || machine.delay(at(0), Millis(0)).unwrap().0;
        waits = (0..6).map(|_| next()).collect();
        for (wait, base) in waits.iter().zip([100, 200, 400, 800, 1_000, 1_000]) {
            assert!((100.max(base / 2)..=1_000.min(base * 3 / 2)).contains(wait), "{waits:?}");
        }
        seen.insert(waits[2]);
    }
    assert!(seen.len() > 100, "{seen:?}");
    let mut again = Restarts::new(RestartStrategy::ExponentialDelay(jittery), 199).unwrap();
    assert!(waits.iter().all(|wait| again.delay(at(0), Millis(0)) == Some(Millis(*wait))), "{waits:?}");
}

#[test]
fn a_failure_rate_survives_so_many_within_its_interval_and_no_more() {
    let strategy = RestartStrategy::FailureRate { failures_max: 2, interval: Millis(100), delay: Millis(10) };
    // Failures at 0, 10, and 20: three within 100 ms.
    assert_eq!(delays(strategy, [0, 0, 0, 0]), [10, 10]);
    // At 50, 110, 160 (110 after the first), 220 (110 after the second), 230.
    assert_eq!(delays(strategy, [50, 50, 40, 50, 0]), [10, 10, 10, 10]);
}

#[test]
fn a_start_that_fails_has_run_for_no_time() {
    let mut machine = machine(RestartStrategy::ExponentialDelay(exponential()));
    assert_eq!(send(&mut machine, 0, JobFailed), Ok(Some(Restart { at: Millis(100), restarts: 1 })));
    assert_eq!(send(&mut machine, 9_000, JobFailed), Ok(Some(Restart { at: Millis(9_200), restarts: 2 })));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let strategy = RestartStrategy::FixedDelay { attempts: 1, delay: Millis(10) };
    let mut machine = machine(strategy);
    send(&mut machine, 0, JobStarted).unwrap();
    assert!(matches!(send(&mut machine, 0, JobStarted), Err(Rejected::Unexpected { .. })));
    send(&mut machine, 1, JobFailed).unwrap();
    for early in [JobStarted, JobFailed] {
        assert!(matches!(send(&mut machine, 10, early), Err(Rejected::Unexpected { .. })));
    }
    assert!(matches!(send(&mut machine, 9, JobStarted), Err(Rejected::TimeWentBack { .. })));
    send(&mut machine, 11, JobStarted).unwrap();
    assert_eq!(send(&mut machine, 12, JobFailed), Ok(Some(GiveUp)));
    for late in [JobStarted, JobFailed] {
        assert!(matches!(send(&mut machine, 99, late), Err(Rejected::Unexpected { .. })));
    }
    assert_eq!(machine.restarts(), 1);
}

#[test]
fn strategies_that_make_no_sense_are_refused_and_say_what_to_do() {
    let exponential = |change: fn(&mut ExponentialDelay)| {
        let mut delays = exponential();
        change(&mut delays);
        RestartStrategy::ExponentialDelay(delays)
    };
    let rate =
        |failures_max| RestartStrategy::FailureRate { failures_max, interval: Millis(1), delay: Millis(1) };
    for (strategy, says) in [
        (exponential(|delays| delays.initial = Millis(0)), "at least 1 ms"),
        (exponential(|delays| delays.max = Millis(99)), "at most the longest"),
        (exponential(|delays| delays.multiplier_percent = 100), "more than 100"),
        (exponential(|delays| delays.jitter_percent = 101), "at most 100"),
        (rate(0), "allow 1 to 32"),
        (rate(33), "allow 1 to 32"),
    ] {
        let refused = Restarts::new(strategy, 0).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

/// What the rules say of a row of runs, counted anew each time.
fn is_left(strategy: RestartStrategy, failed_at: &[u64]) -> bool {
    match strategy {
        RestartStrategy::None => !failed_at.is_empty(),
        RestartStrategy::FixedDelay { attempts, .. } => failed_at.len() as u64 > u64::from(attempts),
        RestartStrategy::ExponentialDelay(_) => false,
        RestartStrategy::FailureRate { failures_max, interval, .. } => {
            let within = |newest: &u64| {
                failed_at.iter().filter(|at| *at <= newest && newest - **at <= interval.0).count()
            };
            failed_at.iter().any(|newest| within(newest) > usize::from(failures_max))
        }
    }
}

#[test]
fn all_short_rows_of_runs_end_when_the_strategy_says_so() {
    let strategies = [
        RestartStrategy::None,
        RestartStrategy::FixedDelay { attempts: 2, delay: Millis(3) },
        RestartStrategy::ExponentialDelay(ExponentialDelay { jitter_percent: 30, ..exponential() }),
        RestartStrategy::FailureRate { failures_max: 2, interval: Millis(40), delay: Millis(3) },
    ];
    let (mut left, mut rows) = (0, 0);
    for (strategy, row) in strategies.into_iter().flat_map(|it| (0..4_u32.pow(5)).map(move |row| (it, row))) {
        let (mut machine, mut now, mut failed_at) = (machine(strategy), 0, Vec::new());
        for step in 0..5 {
            // Runs of several lengths, and starts that fail.
            let ran_for = [0, 1, 20, 50][(row >> (2 * step)) as usize % 4];
            if ran_for > 0 {
                send(&mut machine, now, JobStarted).unwrap();
            }
            // A time of its own for each failure.
            now += ran_for + 1;
            failed_at.push(now);
            match send(&mut machine, now, JobFailed).unwrap().unwrap() {
                Restart { at, .. } => {
                    assert!(!is_left(strategy, &failed_at), "{strategy:?} {failed_at:?}");
                    now = at.0;
                }
                GiveUp => {
                    assert!(is_left(strategy, &failed_at), "{strategy:?} {failed_at:?}");
                    left += 1;
                    break;
                }
            }
        }
        rows += 1;
    }
    assert!(rows == 4_096 && left > 2_048, "{left} of {rows}");
}

#[test]
fn no_row_of_events_breaks_an_invariant() {
    let mut rng = Rng(7);
    for _ in 0..200 {
        let strategy = match rng.below(3) {
            0 => RestartStrategy::ExponentialDelay(ExponentialDelay {
                initial: Millis(1 + rng.below(50) as u64),
                jitter_percent: u32::try_from(rng.below(101)).unwrap(),
                ..exponential()
            }),
            1 => RestartStrategy::FailureRate {
                failures_max: 1 + u16::try_from(rng.below(32)).unwrap(),
                interval: Millis(rng.below(400) as u64),
                delay: Millis(rng.below(20) as u64),
            },
            _ => RestartStrategy::FixedDelay { attempts: 9, delay: Millis(rng.below(20) as u64) },
        };
        let (mut machine, mut now) = (machine(strategy), 0);
        for _ in 0..100 {
            now += rng.below(60) as u64;
            let event = if rng.below(2) == 0 { JobStarted } else { JobFailed };
            let before = machine.restarts();
            if send(&mut machine, now, event).is_err() {
                assert_eq!(machine.restarts(), before);
            }
        }
    }
}
