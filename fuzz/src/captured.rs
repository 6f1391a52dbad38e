use slackwater_core::format::in_flight::InFlightView;
use slackwater_mem::in_flight::{InFlight, InFlightRef, MEMORY_FIXED, MEMORY_PER_BYTE, StoredInFlight, read};

use crate::archive::disk_with;
use crate::{memory, repair};

/// Records in flight: as a view, as values, and as a file that a manifest lists.
pub fn in_flight(data: &[u8]) {
    let mut data = data.to_vec();
    // What has not their shape stays as it is.
    let _is_repaired = repair::in_flight(&mut data).is_some();
    let memory_max = data.len() * MEMORY_PER_BYTE;
    let view = memory::within("a view of records in flight", 0, || InFlightView::parse(&data));
    let decoded = memory::within("records in flight", memory_max, || InFlight::decode(&data));
    let (view, decoded) = match (view, decoded) {
        (Ok(view), Ok(decoded)) => (view, decoded),
        (view, decoded) => return assert_eq!(view.err(), decoded.err()),
    };
    let listed = listed("a", &view, data.len());
    let again = decoded.clone().encode(&view.header());
    assert_eq!(again.as_deref(), Ok(data.as_slice()));
    let mut disk = disk_with(&[(String::from("a"), data)]);
    let stored = StoredInFlight::File(listed);
    let read = || read(&mut disk, "a", &stored);
    assert_eq!(memory::within("a file of records in flight", memory_max + MEMORY_FIXED, read), Ok(decoded));
}

/// The file of these records, as a manifest lists it.
pub(crate) fn listed(file_name: &str, view: &InFlightView<'_>, len: usize) -> InFlightRef {
    InFlightRef {
        file_name: file_name.to_owned(),
        file_id: view.header().file_id,
        len: len as u64,
        checksum: view.checksum(),
    }
}
