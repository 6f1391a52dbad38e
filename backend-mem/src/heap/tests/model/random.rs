use super::*;

pub(in super::super) struct Random(pub(in super::super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(in super::super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    fn len(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// One of the plan's keys: the empty one, short ones, and long ones on both sides of what a page takes.
    pub(super) fn key(&mut self, plan: &Plan) -> Vec<u8> {
        let number = self.below(plan.keys);
        let mut key = number.to_le_bytes().to_vec();
        match number % 12 {
            0 if number == 0 => key.clear(),
            1..=3 => key.truncate(2),
            4 => key.resize(inline_len_max(plan.frame_size as usize) - 20 + number as usize % 40, 7),
            5 => key.resize(plan.frame_size as usize / 4 + number as usize * 40, 5),
            _ => {}
        }
        if let Some((width, _)) = plan.widths {
            key = number.to_le_bytes().to_vec();
            key.resize(width.into(), 3);
        }
        key
    }

    /// A value from nothing over what a page takes to many frames.
    pub(super) fn value(&mut self, plan: &Plan) -> Vec<u8> {
        let frame_size = plan.frame_size as usize;
        let len = match self.below(400) {
            _ if plan.widths.is_some() => plan.widths.map_or(0, |(_, width)| width.into()),
            0 => self.len(plan.value_len_max),
            1..=12 => self.len(frame_size * 3),
            13..=32 => frame_size - 40 + self.len(60),
            33..=52 => inline_len_max(frame_size) - 24 + self.len(32),
            53..=92 => self.len(frame_size / 2),
            93..=112 => 0,
            _ => self.len(24),
        };
        let mut seed = self.next();
        let mut value = Vec::with_capacity(len + 8);
        while value.len() < len {
            value.extend_from_slice(&seed.to_le_bytes());
            seed = seed.rotate_left(7).wrapping_add(1);
        }
        value.truncate(len);
        value
    }
}
