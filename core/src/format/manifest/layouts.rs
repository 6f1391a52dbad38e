use super::*;

layout! {
    /// The start of a manifest; the job's name follows, then the elements.
    pub struct ManifestHeaderLayout {
        /// [`MANIFEST_MAGIC`].
        pub magic: [u8; 8],
        /// [`VERSION`].
        pub version: U16,
        /// [`FLAG_FINISHED`].
        pub flags: U16,
        /// Length of the job's name.
        pub job_name_len: U16,
        /// 0.
        pub reserved: U16,
        /// The job.
        pub job_id: [u8; 16],
        /// The checkpoint's number.
        pub checkpoint: U64,
        /// When it was triggered, in milliseconds since the Unix epoch.
        pub wall_time_ms: U64,
        /// Seed of the hash that places keys in pages.
        pub hash_seed: U64,
        /// The number of key groups.
        pub max_parallelism: U32,
        /// 0.
        pub reserved2: U32,
    }
}

layout! {
    /// The last bytes of a manifest.
    pub struct ManifestTail {
        /// Length of the manifest.
        pub len: U64,
        /// Of all bytes before it.
        pub checksum: U32,
        /// [`MANIFEST_TAIL_MAGIC`].
        pub magic: [u8; 4],
    }
}

layout! {
    /// Begins an element; `len` bytes follow.
    pub struct ElementHead {
        /// One of the `TAG_` numbers.
        pub tag: u8,
        /// 0.
        pub reserved: [u8; 3],
        /// Bytes that follow.
        pub len: U32,
    }
}

/// Ends the elements.
pub(super) const TAG_END: u8 = 0;
pub(super) const TAG_VERTEX: u8 = 1;
pub(super) const TAG_SUBTASK: u8 = 2;
pub(super) const TAG_SEGMENT: u8 = 3;
pub(super) const TAG_STATE: u8 = 4;
pub(super) const TAG_PARTITION: u8 = 5;
pub(super) const TAG_IN_FLIGHT: u8 = 6;
pub(super) const TAG_IN_FLIGHT_FILE: u8 = 7;
pub(super) const TAG_PARTICIPANT: u8 = 8;

layout! {
    /// Element 1. The uid follows.
    pub struct VertexElement {
        /// Its subtasks.
        pub parallelism: U32,
    }
}

layout! {
    /// Element 2.
    pub struct SubtaskElement {
        /// Its index.
        pub index: U32,
        /// [`SUBTASK_FLAG_FINISHED`].
        pub flags: U16,
        /// 0.
        pub reserved: U16,
    }
}

layout! {
    /// Element 3. The file's name follows.
    pub struct SegmentElement {
        /// The file's id.
        pub file_id: [u8; 16],
        /// The file's length.
        pub len: U64,
        /// Bytes of it that the checkpoint needs.
        pub used_len: U64,
        /// Checksum of its footer.
        pub footer_checksum: U32,
        /// The first key group it may hold.
        pub first_key_group: U16,
        /// The last one.
        pub last_key_group: U16,
    }
}

layout! {
    /// Element 7. The file's name follows.
    pub struct InFlightElement {
        /// The file's id.
        pub file_id: [u8; 16],
        /// The file's length.
        pub len: U64,
        /// The checksum of all of it.
        pub checksum: U32,
    }
}

layout! {
    /// Element 4. The operator's name follows, then the state's.
    pub struct StateElement {
        /// 1 split, 2 union, 3 broadcast, 4 plain.
        pub mode: u8,
        /// 0.
        pub reserved: u8,
        /// Length of the operator's name.
        pub operator_len: U16,
    }
}

layout! {
    /// Element 8. The name follows, then the state.
    pub struct ParticipantElement {
        /// 1 coordinator of an operator, 2 hook.
        pub kind: u8,
        /// 0.
        pub reserved: u8,
        /// Length of the name.
        pub name_len: U16,
    }
}

impl ManifestHeaderLayout {
    pub(super) fn new(header: &ManifestHeader<'_>, job_name_len: u16) -> Self {
        Self {
            magic: MANIFEST_MAGIC,
            version: U16::new(VERSION),
            flags: U16::new(if header.is_finished { FLAG_FINISHED } else { 0 }),
            job_name_len: U16::new(job_name_len),
            reserved: U16::new(0),
            job_id: header.job_id.to_le_bytes(),
            checkpoint: U64::new(header.checkpoint),
            wall_time_ms: U64::new(header.wall_time_ms),
            hash_seed: U64::new(header.hash_seed),
            max_parallelism: U32::new(header.max_parallelism),
            reserved2: U32::new(0),
        }
    }

    pub(super) const fn identity(&self) -> Identity {
        Identity::new(PART_MANIFEST, u128::from_le_bytes(self.job_id), self.checkpoint.get())
    }

    /// The version comes first: what a newer one means by the rest is not known. Unless all else `is_of_ours`: then the
    /// number is what is damaged.
    pub(super) fn check_kind(&self, is_of_ours: impl FnOnce(&Self) -> bool) -> Result<(), FormatError> {
        expect_magic("magic of a manifest", 0, MANIFEST_MAGIC, self.magic)?;
        let version = self.version.get();
        if version > VERSION && !is_of_ours(&Self { version: U16::new(VERSION), ..*self }) {
            return Err(FormatError::Unsupported { what: "version of a manifest", value: version.into() });
        }
        expect_within("version of a manifest", 8, (VERSION_MIN.into(), VERSION.into()), version.into())
    }

    /// Checks the fields and splits the job's name off `rest`.
    pub(super) fn check_and_split<'a>(&self, rest: &'a [u8]) -> Result<(&'a str, &'a [u8]), FormatError> {
        expect_within("flags of a manifest", 10, (0, FLAG_FINISHED.into()), self.flags.get().into())?;
        expect_eq("reserved field of the manifest", 14, 0, self.reserved.get().into())?;
        expect_eq("reserved field of the manifest", 60, 0, self.reserved2.get().into())?;
        let groups = u64::from(self.max_parallelism.get());
        expect_within("max parallelism", 56, (1, PARALLELISM_MAX.into()), groups)?;
        split_name("job name", rest, usize::from(self.job_name_len.get()), Self::LEN)
    }

    pub(super) const fn header<'a>(&self, job_name: &'a str) -> ManifestHeader<'a> {
        ManifestHeader {
            is_finished: self.flags.get() & FLAG_FINISHED != 0,
            checkpoint: self.checkpoint.get(),
            job_id: u128::from_le_bytes(self.job_id),
            job_name,
            wall_time_ms: self.wall_time_ms.get(),
            max_parallelism: self.max_parallelism.get(),
            hash_seed: self.hash_seed.get(),
        }
    }
}

/// Takes a name off the front of `bytes`, which lie at `at`.
pub(super) fn split_name<'a>(
    what: &'static str,
    bytes: &'a [u8],
    len: usize,
    at: usize,
) -> Result<(&'a str, &'a [u8]), FormatError> {
    let Some((name, rest)) = bytes.split_at_checked(len) else {
        return Err(corrupt(what, at, bytes.len() as u64, len as u64));
    };
    match str::from_utf8(name) {
        Ok(name) => Ok((name, rest)),
        Err(error) => Err(corrupt(what, at, len as u64, error.valid_up_to() as u64)),
    }
}
