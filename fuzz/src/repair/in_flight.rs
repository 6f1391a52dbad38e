use slackwater_core::format::checksum::{Checksum, Identity, PART_IN_FLIGHT};
use slackwater_core::format::in_flight::{
    BatchHead, ChannelRow, IN_FLIGHT_TAIL_MAGIC, InFlightHeaderLayout, InFlightTail,
};
use zerocopy::{FromBytes, IntoBytes};

/// The checksum of every batch of records in flight, as far as they lie one behind the other, then length and checksum of all.
pub(crate) fn in_flight(bytes: &mut [u8]) -> Option<()> {
    let len = bytes.len() as u64;
    let header = *InFlightHeaderLayout::ref_from_prefix(bytes).ok()?.0;
    batches(bytes.get_mut(InFlightHeaderLayout::LEN..)?, &header);
    let (before, tail) = InFlightTail::mut_from_suffix(bytes).ok()?;
    tail.len = len.into();
    let file_id = u128::from_le_bytes(header.file_id);
    let mut checksum = Checksum::new(&Identity::new(PART_IN_FLIGHT, file_id, header.checkpoint.get()));
    checksum.update(before);
    checksum.update(tail.len.as_bytes());
    tail.checksum = checksum.get().into();
    tail.magic = IN_FLIGHT_TAIL_MAGIC;
    Some(())
}

fn batches(bytes: &mut [u8], header: &InFlightHeaderLayout) -> Option<()> {
    let count = usize::try_from(header.channel_count.get()).ok()?;
    let (rows, mut rest) = <[ChannelRow]>::mut_from_prefix_with_elems(bytes, count).ok()?;
    for row in rows {
        for number in 0..row.batch_count.get() {
            let (head, behind) = BatchHead::mut_from_prefix(rest).ok()?;
            let (batch, behind) = behind.split_at_mut_checked(usize::try_from(head.len.get()).ok()?)?;
            head.checksum = head.sum(header, row, number, batch).into();
            rest = behind;
        }
    }
    Some(())
}
