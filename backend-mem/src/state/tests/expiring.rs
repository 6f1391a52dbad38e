use slackwater_core::time::{Millis, Now};

use super::*;

const TTL: TimeToLive = TimeToLive::new(100);

fn at(wall_ms: u64) -> Now {
    Now { monotonic: Millis(0), wall: Millis(wall_ms) }
}

fn values(heap: &mut Heap, ttl: TimeToLive) -> Expiring<ValueState<Utf8, Plain<u32>>> {
    ValueState::register_expiring(heap, "op", "s", groups(), ttl, at(0)).unwrap()
}

#[test]
fn an_entry_expires_at_its_time_and_not_before() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TTL);
    state.at(at(1_000)).put(&mut heap, "k", &7).unwrap();
    assert_eq!(state.at(at(1_099)).get(&mut heap, "k"), Ok(Some(7)));
    assert_eq!(state.at(at(1_100)).get(&mut heap, "k"), Ok(None));
    assert_eq!(heap.freeze().unwrap().states().next().unwrap().value, CodecId::fixed("ttl(u32.1)", 1, 12));
}

#[test]
fn a_life_longer_than_time_does_not_end() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TimeToLive::new(u64::MAX));
    state.at(at(1_000)).put(&mut heap, "k", &7).unwrap();
    assert_eq!(state.at(at(u64::MAX - 1)).get(&mut heap, "k"), Ok(Some(7)));
}

#[test]
fn writing_prolongs_a_life_and_reading_only_if_asked_for() {
    for (update, seen) in [(TtlUpdate::OnCreateAndWrite, None), (TtlUpdate::OnReadAndWrite, Some(8))] {
        let mut heap = heap(groups());
        let mut state = values(&mut heap, TimeToLive { update, ..TTL });
        state.at(at(0)).put(&mut heap, "k", &7).unwrap();
        state.at(at(90)).update(&mut heap, "k", |old| old.unwrap() + 1).unwrap();
        assert_eq!(state.at(at(180)).get(&mut heap, "k"), Ok(Some(8)));
        assert_eq!(state.at(at(270)).get(&mut heap, "k"), Ok(seen), "{update:?}");
    }
}

#[test]
fn an_expired_value_is_none_to_an_update() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TTL);
    state.at(at(0)).put(&mut heap, "k", &7).unwrap();
    state.at(at(100)).update(&mut heap, "k", |old| old.map_or(1, |_| 99)).unwrap();
    assert_eq!(state.at(at(199)).get(&mut heap, "k"), Ok(Some(1)));
}

#[test]
fn what_has_expired_may_be_seen_until_it_is_cleaned_up() {
    let mut heap = heap(groups());
    let visibility = TtlVisibility::ReturnExpiredIfNotCleanedUp;
    let mut state = values(&mut heap, TimeToLive { visibility, update: TtlUpdate::OnReadAndWrite, ..TTL });
    state.at(at(0)).put(&mut heap, "k", &7).unwrap();
    assert_eq!(state.at(at(500)).get(&mut heap, "k"), Ok(Some(7)));
    let cleaned = state.clean(&mut heap, at(500), 10).unwrap();
    assert_eq!(cleaned, Cleaned { visited: 1, removed: 1, at_end: true });
    assert_eq!(state.at(at(500)).get(&mut heap, "k"), Ok(None));
}

#[test]
fn a_clock_set_back_neither_revives_nor_shortens() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TTL);
    state.at(at(1_000)).put(&mut heap, "old", &1).unwrap();
    assert_eq!(state.at(at(1_100)).get(&mut heap, "old"), Ok(None));
    assert_eq!(state.at(at(500)).get(&mut heap, "old"), Ok(None));
    state.at(at(500)).put(&mut heap, "new", &2).unwrap();
    // Were it taken as written at 500, it would be gone by now.
    assert_eq!(state.at(at(1_199)).get(&mut heap, "new"), Ok(Some(2)));
    assert_eq!(state.at(at(1_200)).get(&mut heap, "new"), Ok(None));
}

#[test]
fn time_counts_while_no_program_runs() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TTL);
    state.at(at(1_000)).put(&mut heap, "k", &7).unwrap();
    // Another handle, as after a restore.
    let mut state = values(&mut heap, TTL);
    assert_eq!(state.at(at(1_050)).get(&mut heap, "k"), Ok(Some(7)));
    let mut state = values(&mut heap, TTL);
    assert_eq!(state.at(at(9_000)).get(&mut heap, "k"), Ok(None));
}

#[test]
fn a_checkpoints_time_keeps_what_had_expired_from_coming_back() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TTL);
    state.at(at(1_000)).put(&mut heap, "k", &7).unwrap();
    let mut restored = values(&mut heap, TTL);
    assert_eq!(restored.at(at(500)).get(&mut heap, "k"), Ok(Some(7)));
    let mut restored = values(&mut heap, TTL);
    restored.at(at(1_100));
    assert_eq!(restored.at(at(500)).get(&mut heap, "k"), Ok(None));
}

#[test]
fn cleaning_removes_what_has_expired_in_bounded_steps() {
    let mut heap = heap(groups());
    let mut state = values(&mut heap, TimeToLive::new(1_100));
    for number in 0..2_000_u32 {
        let key = number.to_string();
        state.at(at(u64::from(number))).put(&mut heap, &key, &number).unwrap();
    }
    let mut removed = 0;
    for step in 0.. {
        let cleaned = state.clean(&mut heap, at(2_099), 50).unwrap();
        // A page of 256 bytes has fewer than twenty such entries.
        assert!((50..70).contains(&cleaned.visited) || cleaned.at_end, "{cleaned:?}");
        removed += cleaned.removed;
        if cleaned.at_end {
            assert!(step > 20);
            break;
        }
    }
    assert_eq!((removed, heap.len(state.at(at(0)).id())), (1_000, 1_000));
    assert_eq!(state.at(at(2_099)).get(&mut heap, "1000"), Ok(Some(1_000)));
    let again = state.clean(&mut heap, at(2_100), u64::MAX).unwrap();
    assert_eq!(again, Cleaned { visited: 1_000, removed: 1, at_end: true });
}

#[test]
fn elements_of_a_list_expire_one_by_one() {
    let mut heap = heap(groups());
    let mut list =
        ListState::<Utf8, Utf8>::register_expiring(&mut heap, "op", "s", groups(), TTL, at(0)).unwrap();
    let seen = |list: &mut Expiring<ListState<Utf8, Utf8>>, heap: &mut Heap, now| {
        list.at(at(now)).get(heap, "k").unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    for now in [0, 50, 90] {
        list.at(at(now)).add(&mut heap, "k", &now.to_string()).unwrap();
    }
    assert_eq!(seen(&mut list, &mut heap, 99), ["0", "50", "90"]);
    assert_eq!(seen(&mut list, &mut heap, 100), ["50", "90"]);
    assert_eq!(list.clean(&mut heap, at(150), 9).unwrap(), Cleaned { visited: 1, removed: 2, at_end: true });
    assert_eq!(seen(&mut list, &mut heap, 150), ["90"]);
    assert_eq!(list.clean(&mut heap, at(190), 9).unwrap().removed, 1);
    assert!(heap.is_empty(list.at(at(190)).id()));
}

#[test]
fn reading_a_list_may_prolong_the_lives_of_its_elements() {
    let mut heap = heap(groups());
    let ttl = TimeToLive { update: TtlUpdate::OnReadAndWrite, ..TTL };
    let mut list =
        ListState::<Utf8, Bytes>::register_expiring(&mut heap, "op", "s", groups(), ttl, at(0)).unwrap();
    for (now, len) in [(0, 3), (50, 700), (90, 0)] {
        list.at(at(now)).add(&mut heap, "k", &vec![1; len]).unwrap();
    }
    let mut lens = |now| {
        let state = list.at(at(now));
        state.get(&mut heap, "k").unwrap().map(|item| item.unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(lens(100), [700, 0]);
    assert_eq!(lens(199), [700, 0]);
    assert_eq!(lens(299), []);
}

#[test]
fn folded_values_expire_and_begin_anew() {
    let mut heap = heap(groups());
    let mut sums = ReducingState::<Utf8, Plain<u32>>::register_expiring(
        &mut heap,
        "op",
        "s",
        groups(),
        TTL,
        at(0),
        |a, b| a + b,
    )
    .unwrap();
    sums.at(at(0)).add(&mut heap, "k", 1).unwrap();
    sums.at(at(99)).add(&mut heap, "k", 2).unwrap();
    assert_eq!(sums.at(at(198)).get(&mut heap, "k"), Ok(Some(3)));
    sums.at(at(199)).add(&mut heap, "k", 5).unwrap();
    assert_eq!(sums.at(at(199)).get(&mut heap, "k"), Ok(Some(5)));
    assert_eq!(sums.clean(&mut heap, at(299), 1).unwrap().removed, 1);
}

#[test]
fn bytes_without_a_time_are_malformed() {
    let mut heap = heap(groups());
    let mut state =
        ValueState::<Utf8, Utf8>::register_expiring(&mut heap, "op", "s", groups(), TTL, at(0)).unwrap();
    let id = state.at(at(0)).id();
    heap.put(id, key_group_of_hash(Utf8::key_group_hash("k"), groups()), b"k", &[1; 7]).unwrap();
    let malformed = state.at(at(0)).get(&mut heap, "k").unwrap_err();
    assert_eq!(malformed, StateError::Malformed(Malformed { codec: CodecId::fixed("ttl", 1, 8), len: 7 }));
    assert_eq!(state.clean(&mut heap, at(0), 9), Err(malformed));
}
