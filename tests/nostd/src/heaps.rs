use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use slackwater_mem::{Arena, CodecId, Heap, HeapOptions, ScanCursor};

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
    }
    sum
}
