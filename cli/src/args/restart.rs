//! How a restart strategy is written.

use std::time::Duration;

use slackwater::restart::{ExponentialDelay, RestartStrategy};
use slackwater::time::Millis;

use super::duration;

/// Reads `none`, `fixed:3,1s`, `exponential:1s,1min` or `rate:3,5min,10s`; parts from the right may be left out.
pub(super) fn restart(text: &str) -> Result<RestartStrategy, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let parts: Vec<&str> = rest.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let span = |index: usize, otherwise: Millis| parts.get(index).map_or(Ok(otherwise), |part| millis(part));
    let delays = ExponentialDelay::default();
    match (kind, parts.len()) {
        ("none", 0) => Ok(RestartStrategy::None),
        ("fixed", ..=2) => {
            let attempts = parts.first().map_or(Ok(u32::MAX), |part| number(part))?;
            Ok(RestartStrategy::FixedDelay { attempts, delay: span(1, delays.initial)? })
        }
        ("exponential", ..=2) => {
            let initial = span(0, delays.initial)?;
            let max = span(1, delays.max.max(initial))?;
            Ok(RestartStrategy::ExponentialDelay(ExponentialDelay { initial, max, ..delays }))
        }
        ("rate", 2..=3) => Ok(RestartStrategy::FailureRate {
            failures_max: number(parts[0])?,
            interval: millis(parts[1])?,
            delay: span(2, delays.initial)?,
        }),
        _ => Err(format!(
            "\"{text}\" is no restart strategy: write none, fixed:TIMES,DELAY, exponential:FIRST,LONGEST or \
             rate:FAILURES,INTERVAL,DELAY"
        )),
    }
}

fn millis(text: &str) -> Result<Millis, String> {
    duration(text).map(|span: Duration| Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number of times: write it like 3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Millis = Millis(1_000);

    #[test]
    fn strategies_are_written_with_their_numbers_or_without() {
        let fixed = |attempts, delay| Ok(RestartStrategy::FixedDelay { attempts, delay });
        assert_eq!(restart("none"), Ok(RestartStrategy::None));
        assert_eq!(restart("fixed"), fixed(u32::MAX, SECOND));
        assert_eq!(restart("fixed:3"), fixed(3, SECOND));
        assert_eq!(restart("fixed:3,200ms"), fixed(3, Millis(200)));
        assert_eq!(restart("exponential"), Ok(RestartStrategy::for_job(true)));
        let delays =
            ExponentialDelay { initial: Millis(50), max: Millis(900), ..ExponentialDelay::default() };
        assert_eq!(restart("exponential:50ms,900ms"), Ok(RestartStrategy::ExponentialDelay(delays)));
        let rate = RestartStrategy::FailureRate { failures_max: 3, interval: Millis(60_000), delay: SECOND };
        assert_eq!(restart("rate:3,1min"), Ok(rate));
    }

    #[test]
    fn anything_else_is_told_how_to_write_it() {
        for (wrong, says) in [
            ("", "write none, fixed"),
            ("never", "write none, fixed"),
            ("none:1", "write none, fixed"),
            ("fixed:3,1s,1s", "write none, fixed"),
            ("rate", "write none, fixed"),
            ("fixed:often", "a number of times"),
            ("fixed:-1", "a number of times"),
            ("fixed:3,5", "200ms, 1s or 2min"),
            ("exponential:1", "200ms, 1s or 2min"),
        ] {
            let error = restart(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
