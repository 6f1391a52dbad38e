use slackwater_core::format::in_flight::InFlightView;
use slackwater_core::format::manifest::ManifestView;
use slackwater_core::format::page::PageView;
use slackwater_core::format::segment::{FooterView, IndexView, SegmentHeader, SegmentTrailer};

use crate::data::{Data, used};

/// Bytes aligned as a file's blocks are.
fn block(data: &mut Data) -> [u64; 512] {
    core::array::from_fn(|_| data.long())
}

pub(crate) fn manifest(data: &mut Data) -> u32 {
    let words = block(data);
    let bytes = zerocopy::IntoBytes::as_bytes(&words);
    let Ok(view) = ManifestView::parse(bytes.get(..usize::from(data.short())).unwrap_or(bytes)) else {
        return 0;
    };
    let mut sum = used(view.header());
    for vertex in view.vertices() {
        sum ^= used(&*vertex);
        for subtask in vertex.subtasks() {
            sum ^= used(&*subtask);
            sum ^= subtask.segments().fold(used(&subtask.in_flight()), |sum, segment| sum ^ used(&segment));
            for state in subtask.states() {
                sum ^= state.partitions().fold(used(&*state), |sum, bytes| sum ^ used(&bytes));
            }
        }
    }
    sum
}

pub(crate) fn in_flight(data: &mut Data) -> u32 {
    let words = block(data);
    let bytes = zerocopy::IntoBytes::as_bytes(&words);
    let bytes = bytes.get(..usize::from(data.short())).unwrap_or(bytes);
    let Ok(view) = InFlightView::parse(bytes) else { return 0 };
    view.channels().fold(used(&view.header()), |sum, channel| {
        channel.batches().fold(sum ^ used(&channel.sender), |sum, batch| sum ^ used(&batch))
    })
}

pub(crate) fn page(data: &mut Data) -> u32 {
    let words = block(data);
    let Ok(view) = PageView::parse(zerocopy::IntoBytes::as_bytes(&words)) else { return 0 };
    let sum = used(view.header()) ^ used(&view.check());
    match &view {
        PageView::Hash(page) => page.records().fold(sum, |sum, record| sum ^ used(&record)),
        PageView::Tree(page) => page.entries().fold(sum, |sum, entry| sum ^ used(&entry)),
        PageView::Overflow(page) => sum ^ used(&page.next_lpn()) ^ used(&page.bytes()),
    }
}

pub(crate) fn segment(data: &mut Data) -> u32 {
    let words = block(data);
    let bytes = zerocopy::IntoBytes::as_bytes(&words);
    let Ok(header) = SegmentHeader::parse(bytes) else { return 0 };
    let Ok(trailer) = SegmentTrailer::parse(bytes, data.long()) else { return 1 };
    let Ok(footer) = FooterView::parse(bytes, &header, &trailer) else { return 2 };
    let mut sum = used(&footer.totals()) ^ footer.states().fold(0, |sum, state| sum ^ used(&state));
    for row in footer.key_groups() {
        let Ok(index) = IndexView::parse(bytes, &header, row) else { return 3 };
        sum ^= index.sections().fold(0, |sum, section| sum ^ used(&section));
    }
    sum
}
