//! The files of checkpoints: on a disk whose power can fail, made durable by the machine that does so in a job.

use slackwater_core::durable::{
    Completion, Disk, DiskError, Failure, Names, Operation, Outcome, Token, Tokens, Wait, Work, WriteFile,
};
use slackwater_core::ids::CheckpointId;
use slackwater_core::subtask::Part;
use slackwater_mem::sim::{Fault, SimDisk, SimOptions};

use crate::storage::FileName;

type Sim = SimDisk<&'static [u8]>;

/// Of the operations that the disk is waited for.
const CALL: u32 = 0;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Part(FileName, Part),
    Manifest(CheckpointId),
}

#[derive(Debug)]
struct Writing {
    role: Role,
    tokens: Tokens,
    work: WriteFile<Sim, String, Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct Files {
    disk: Sim,
    last_job: u32,
    writing: Vec<Writing>,
}

impl Files {
    pub(crate) fn new(seed: u64) -> Self {
        let options = SimOptions { seed, ..SimOptions::default() };
        Self { disk: Sim::new(options), last_job: CALL, writing: Vec::new() }
    }

    /// Whether a file is on its way.
    pub(crate) const fn is_busy(&self) -> bool {
        !self.writing.is_empty()
    }

    pub(crate) fn is_writing_manifest(&self) -> bool {
        self.writing.iter().any(|writing| matches!(writing.role, Role::Manifest(_)))
    }

    pub(crate) fn write(&mut self, role: Role, names: Names<String>, bytes: Vec<u8>) {
        self.last_job += 1;
        let tokens = Tokens::new(self.last_job);
        self.writing.push(Writing { role, tokens, work: WriteFile::new(names, bytes) });
    }

    /// Lets the disk do something; gives the files whose fate is known.
    pub(crate) fn advance(&mut self) -> Vec<(Role, Result<u64, Failure>)> {
        self.reap(Wait::No);
        for Writing { tokens, work, .. } in &mut self.writing {
            work.advance(&mut self.disk, tokens);
        }
        let ended = self.writing.extract_if(.., |writing| writing.work.is_done());
        ended.filter_map(|writing| Some((writing.role, writing.work.result()?))).collect()
    }

    fn reap(&mut self, wait: Wait) -> Option<Outcome<<Sim as Disk>::Block>> {
        let mut ended = heapless::Vec::<Completion<_>, 8>::new();
        self.disk.reap(wait, &mut ended);
        let mut called = None;
        for completion in ended {
            let job = completion.token.job();
            match self.writing.iter_mut().find(|writing| writing.tokens.job() == job) {
                Some(writing) => writing.work.on_completion(completion, &mut self.disk),
                None => called = Some(completion.outcome),
            }
        }
        called
    }

    /// Does one operation at once.
    pub(crate) fn call(
        &mut self,
        operation: Operation<'_, <Sim as Disk>::Block, &'static [u8]>,
    ) -> Result<(), DiskError> {
        let mut operation = Some(operation);
        loop {
            if let Some(due) = operation.take() {
                operation = self.disk.submit(Token(u64::from(CALL)), due).err();
            }
            match self.reap(Wait::ForOne) {
                Some(Outcome::Failed(error)) => return Err(error),
                Some(_) => return Ok(()),
                None => {}
            }
        }
    }

    pub(crate) fn make_folder(&mut self, path: &str) -> Result<(), DiskError> {
        self.call(Operation::CreateFolder { path })?;
        self.call(Operation::SyncFolder { path: "" })
    }

    /// Removes a folder and all in it, `first` before anything else. Whether `first` is gone for good.
    pub(crate) fn remove_folder(&mut self, folder: &str, first: &str) -> bool {
        let first = format!("{folder}/{first}");
        let removed = self.call(Operation::Remove { path: &first });
        let is_absent = |error: &DiskError| error.errno == DiskError::NOT_FOUND;
        let is_gone = match removed {
            Ok(()) => self.call(Operation::SyncFolder { path: folder }).is_ok(),
            Err(error) => is_absent(&error),
        };
        if is_gone {
            let names = self.disk.names(folder);
            let paths = names.iter().map(|name| format!("{folder}/{name}")).chain([folder.to_owned()]);
            let all = paths.into_iter().try_for_each(|path| self.call(Operation::Remove { path: &path }));
            // What stays is no checkpoint, and the next start removes it.
            let _left = all.and_then(|()| self.call(Operation::SyncFolder { path: "" }));
        }
        is_gone
    }

    /// One of the next operations fails.
    pub(crate) fn fail(&self, in_operations: u64) {
        self.disk.inject(self.disk.operations() + 1 + in_operations, Fault::Error(DiskError::IO));
    }

    /// The process dies, and the power with it or not. Nobody goes on with what it was writing.
    pub(crate) fn restart(&mut self, with_power: bool, seed: u64) {
        let image = if with_power { Sim::image_after_power_cut } else { Sim::image_after_kill };
        *self = Self { disk: image(&self.disk, seed), last_job: CALL, writing: Vec::new() };
    }

    pub(crate) fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.disk.read_file(path)
    }

    /// The names in the root.
    pub(crate) fn folders(&self) -> Vec<String> {
        self.disk.names("")
    }
}
