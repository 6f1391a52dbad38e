use core::ops::Bound;

use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_core::time::{Millis, Now};
use slackwater_mem::{
    Arena, ArenaHandle, Broadcast, CodecId, Entries, GroupMinimum, Heap, HeapOptions, ListState, MapState,
    Plain, RawKeyedState, RawOperatorState, ScanCursor, StateError, StateId, TimeToLive, Timers, UnionList,
    ValueState,
};

use crate::data::{Data, used};

/// A heap in 16 KiB.
pub(crate) fn small(data: &mut Data) -> u32 {
    let mut memory = [0_u8; 16 * 1024];
    let arena = Arena::new(&mut memory);
    let key_groups = KeyGroupRange { first: KeyGroup(data.short()), last: KeyGroup(data.short()) };
    let hash_seed = u64::from(data.word());
    let options = HeapOptions { frame_size: data.word(), memory_limit_bytes: 0, key_groups, hash_seed };
    let Ok(mut heap) = Heap::in_arena(&arena, options) else { return 0 };
    let codec = CodecId::variable("bytes", data.short());
    let Ok(state) = heap.register("operator", "state", codec, codec) else { return 1 };
    let Ok(ordered) = heap.register_ordered("operator", "ordered", codec, codec) else { return 1 };
    let mut sum = 0_u32;
    let mut snapshot = None;
    let mut cursor = ScanCursor::default();
    for _ in 0..64 {
        let (group, key, value) =
            (KeyGroup(data.short()), data.word().to_le_bytes(), [data.word().to_le_bytes(); 40]);
        let value = value.as_flattened().get(..usize::from(data.short())).unwrap_or(&[]);
        sum ^= match data.word() & 7 {
            0 => used(&heap.remove(state, group, &key)),
            1 => used(&heap.get(state, group, &key).map(|value| value.map(|value| value.len()))),
            2 => used(&heap.get_mut(state, group, &key).map(|value| value.map(|value| value.len()))),
            3 => {
                let mut bytes = 0;
                let more = heap.scan(state, &mut cursor, &mut |key, value| bytes += key.len() + value.len());
                used(&more) ^ used(&bytes)
            }
            4 => {
                snapshot = heap.freeze().ok();
                used(&heap.memory_use())
            }
            5 => snapshot.as_ref().map_or(0, |snapshot| {
                let mut pages = 0;
                for page in snapshot.pages(state, group) {
                    pages ^= page.lpn() ^ used(&page.guard().len());
                }
                snapshot.entries(state, &mut |group, key, _| pages ^= used(&group) ^ used(&key.len()));
                pages ^ used(&snapshot.states().count())
            }),
            _ => used(&heap.put(state, group, &key, value)),
        };
        sum ^= in_order(&mut heap, ordered, data, value);
    }
    sum ^ typed(&mut heap, data).map_or(2, |sum| sum)
}

/// One of the things that can be done to an ordered state.
fn in_order<A: ArenaHandle>(heap: &mut Heap<A>, state: StateId, data: &mut Data, value: &[u8]) -> u32 {
    let (group, key) = (KeyGroup(data.short()), data.word().to_le_bytes());
    match data.word() & 7 {
        0 => used(&heap.ordered_remove(state, group, &key)),
        1 => used(&heap.ordered_get(state, group, &key).map(|value| value.map(|value| value.len()))),
        2 => heap.ordered_from(state, group, Bound::Excluded(&key)).map_or(0, sum_of),
        3 => heap.ordered_within(state, group, &key).map_or(0, sum_of),
        4 => used(&heap.ordered_take_first(state, group, &key, |key, _| Some(key.len()))),
        _ => used(&heap.ordered_put(state, group, value, &key)),
    }
}

fn sum_of(entries: Entries<'_>) -> u32 {
    entries.fold(0, |sum, (key, value)| sum ^ used(&key.len()) ^ used(&value.len()))
}

/// Maps and timers.
fn typed<A: ArenaHandle>(heap: &mut Heap<A>, data: &mut Data) -> Result<u32, StateError> {
    let Ok(max_parallelism) = MaxParallelism::new(data.short().into()) else { return Ok(3) };
    let map =
        MapState::<Plain<u32>, Plain<u16>, Plain<u64>>::register(heap, "operator", "map", max_parallelism)?;
    let mut slots = [GroupMinimum::default(); 64];
    let slots = slots.get_mut(..usize::from(data.short())).unwrap_or_default();
    let mut timers =
        Timers::<Plain<u32>, (), _>::register_in(heap, "operator", "timers", max_parallelism, slots)?;
    let mut sum = 0;
    for _ in 0..16 {
        let (key, user_key) = (data.word(), data.short());
        sum ^= used(&map.put(heap, &key, &user_key, &u64::from(data.word()))?);
        sum ^= used(&map.get(heap, &key, &user_key)?) ^ used(&map.remove(heap, &key, &user_key)?);
        sum ^= map.iter(heap, &key)?.fold(0, |sum, entry| sum ^ used(&entry));
        sum ^= used(&map.clear(heap, &key)?);
        sum ^= used(&timers.add(heap, i64::from(data.word()), &key)?);
        sum ^= used(&timers.pop_due(heap, i64::from(data.word()))?);
        sum ^= used(&timers.remove(heap, i64::from(data.word()), &key)?);
    }
    Ok(sum)
}

/// State that is not kept by key, and raw state, in 16 KiB.
pub(crate) fn operator_state(data: &mut Data) -> u32 {
    let mut memory = [0_u8; 16 * 1024];
    let arena = Arena::new(&mut memory);
    let key_groups = KeyGroupRange { first: KeyGroup(data.short()), last: KeyGroup(data.short()) };
    let options = HeapOptions { frame_size: 256, memory_limit_bytes: 0, key_groups, hash_seed: data.long() };
    let Ok(mut heap) = Heap::in_arena(&arena, options) else { return 0 };
    let Ok(list) = UnionList::<Plain<u32>>::register(&mut heap, "operator", "list") else { return 1 };
    let Ok(map) = Broadcast::<Plain<u16>, Plain<u64>>::register(&mut heap, "operator", "map") else {
        return 2;
    };
    let Ok(partitions) = RawOperatorState::register(&mut heap, "operator", "partitions") else { return 3 };
    let Ok(raw) = RawKeyedState::register(&mut heap, "operator", "raw") else { return 4 };
    let mut sum = 0;
    for _ in 0..64 {
        let (group, key) = (KeyGroup(data.short()), data.short());
        sum ^= match data.word() & 15 {
            0 => used(&list.clear(&mut heap)),
            1 => used(&list.update(&mut heap, &[1, 2])) ^ used(&list.set(&mut heap, data.long(), &3)),
            2 => used(&list.get(&heap, data.long())) ^ used(&list.iter(&heap).next()),
            3 => used(&map.put(&mut heap, &key, &data.long())),
            4 => used(&map.get(&heap, &key)) ^ used(&map.remove(&mut heap, &key)),
            5 => used(&map.for_each(&heap, |key, value| sum ^= used(&(key, value)))),
            6 => used(&raw.write(&mut heap, group, &key.to_le_bytes())),
            7 => used(&raw.read(&heap, group).map(|mut parts| parts.next().map(|part| part.len()))),
            8 => used(&raw.clear(&mut heap, group)),
            9 => used(&partitions.push(&mut heap, &[7; 90])),
            10 => used(&heap.freeze().map(|snapshot| snapshot.epoch())),
            _ => used(&list.push(&mut heap, &data.word())),
        };
    }
    sum
}

/// States by key with codecs, namespaces and a time to live, in 16 KiB.
pub(crate) fn keyed_states(data: &mut Data) -> u32 {
    type Pairs = (Plain<u16>, Plain<u32>);
    let mut memory = [0_u8; 16 * 1024];
    let arena = Arena::new(&mut memory);
    let Ok(groups) = MaxParallelism::new(data.word()) else { return 0 };
    let key_groups = groups.all_key_groups();
    let options = HeapOptions { frame_size: 256, memory_limit_bytes: 0, key_groups, hash_seed: data.long() };
    let Ok(mut heap) = Heap::in_arena(&arena, options) else { return 1 };
    let Ok(list) = ListState::<Plain<u32>, Pairs, Plain<u8>>::register(&mut heap, "operator", "list", groups)
    else {
        return 2;
    };
    let (ttl, now) = (TimeToLive::new(data.long()), Now::default());
    let values =
        ValueState::<Pairs, Plain<u64>>::register_expiring(&mut heap, "operator", "values", groups, ttl, now);
    let Ok(mut values) = values else { return 3 };
    let mut sum = 0;
    for _ in 0..64 {
        let (key, namespace, now) =
            (data.word(), data.short().to_le_bytes()[0], Now { wall: Millis(data.long()), ..now });
        let pair = (data.short(), data.word());
        sum ^= match data.word() & 7 {
            0 => used(&list.add_all(&mut heap, (&key, &namespace), [&pair, &pair]).is_ok()),
            1 => used(&list.update(&mut heap, (&key, &namespace), [&pair]).is_ok()),
            2 => list
                .get(&heap, (&key, &namespace))
                .map_or(0, |items| items.fold(0, |sum, item| sum ^ used(&item.is_ok()))),
            3 => used(&list.clear(&mut heap, (&key, &namespace)).is_ok()),
            4 => used(&values.at(now).put(&mut heap, &pair, &7).is_ok()),
            5 => used(&values.clean(&mut heap, now, 9).is_ok()),
            6 => used(&heap.freeze().map(|snapshot| snapshot.epoch())),
            _ => used(&values.at(now).remove(&mut heap, &pair).is_ok()),
        };
    }
    sum
}
