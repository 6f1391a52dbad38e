//! The same with a thread for each subtask and bounded channels of the standard library, one record a message; without
//! checkpoints.

use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread;

use super::{Arrivals, Delays, Event, Pace, Plan, REST, Total};
use crate::Failed;
use crate::hash_map;
use crate::stopwatch::Stopwatch;

/// Messages that a channel holds.
const BOUND: usize = 1024;

/// Runs it.
///
/// # Errors
/// A thread ended before its time.
pub fn run(plan: &Plan) -> Result<Delays, Failed> {
    let (clock, total) = (Stopwatch::start(), Total::default());
    thread::scope(|scope| {
        let (to_counts, counts) = channels(plan.subtasks.counts);
        let (to_sinks, sinks) = channels(plan.subtasks.sinks);
        for input in sinks {
            let mut arrivals = Arrivals::new(plan, clock, &total);
            scope.spawn(move || input.iter().for_each(|event| arrivals.arrived(&event)));
        }
        let counting = counts.into_iter().map(|input| (input, to_sinks.clone()));
        let counting: Vec<_> =
            counting.map(|(input, outputs)| scope.spawn(move || count(&input, &outputs))).collect();
        drop(to_sinks);
        let making =
            (0..plan.subtasks.sources).map(|index| (Pace::new(*plan, clock, index), to_counts.clone()));
        let making: Vec<_> =
            making.map(|(pace, outputs)| scope.spawn(move || make(pace, &outputs))).collect();
        drop(to_counts);
        let all = making.into_iter().chain(counting);
        all.map(|thread| thread.join().map_err(|_| "a thread panicked")).try_for_each(|end| Ok(end??))
    })
    .map_err(|error: Failed| format!("channels of the standard library: {error}"))?;
    Ok(plan.delays(&total))
}

type Sent = Result<(), SendError<Event>>;

fn channels(count: u16) -> (Vec<SyncSender<Event>>, Vec<Receiver<Event>>) {
    (0..count).map(|_| sync_channel(BOUND)).unzip()
}

fn make(mut pace: Pace, outputs: &[SyncSender<Event>]) -> Sent {
    while pace.look() {
        while let Some(event) = pace.next() {
            // Keys are spread over all numbers.
            let owner = (u128::from(event.key) * outputs.len() as u128) >> 64;
            send(outputs, usize::try_from(owner).unwrap_or_default(), event)?;
        }
        if pace.rests() {
            thread::park_timeout(REST);
        }
    }
    Ok(())
}

fn count(input: &Receiver<Event>, outputs: &[SyncSender<Event>]) -> Sent {
    let (mut counts, mut turn) = (hash_map::empty(false), 0);
    for event in input {
        *counts.entry(event.key).or_default() += 1;
        turn = if turn + 1 < outputs.len() { turn + 1 } else { 0 };
        send(outputs, turn, event)?;
    }
    Ok(())
}

fn send(outputs: &[SyncSender<Event>], index: usize, event: Event) -> Sent {
    outputs.get(index).map_or(Err(SendError(event)), |output| output.send(event))
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::super::tests::plan;
    use super::run;

    #[test]
    fn all_records_come_through() {
        let delays = run(&plan(Load::PerSecond(10_000))).unwrap();
        // Of 180 ms; a source that starts late makes fewer.
        assert!((500..=1_800).contains(&delays.histogram.count()), "{}", delays.histogram.count());
    }
}
