use slackwater_core::format::page::PageView;

use crate::data::{Data, used};

pub(crate) fn page(data: &mut Data) -> u32 {
    let mut words = [0u64; 512];
    for word in &mut words {
        *word = data.long();
    }
    let frame = zerocopy::IntoBytes::as_bytes(&words);
    let Ok(view) = PageView::parse(frame) else { return 0 };
    let mut sum = used(view.header()) ^ used(&view.check());
    if let PageView::Hash(page) = &view {
        for record in page.records() {
            sum ^= used(&record);
        }
    }
    sum
}
