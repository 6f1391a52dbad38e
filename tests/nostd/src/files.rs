use heapless::{Deque, Vec, VecView};

use slackwater_core::durable::{
    Birth, Completion, Disk, DiskError, Entry, FileAction, FileEvent, FileId, FileOrder, Names, Operation,
    OperationKind, Outcome, Step, Token, Tokens, Wait, Work, WriteFile,
};

use crate::data::{Data, used};

const STEPS: [Step; 7] = [
    Step::Create,
    Step::SetLength,
    Step::SyncFile,
    Step::Close,
    Step::Rename,
    Step::SyncFolder,
    Step::Remove,
];

fn error(data: &mut Data) -> DiskError {
    DiskError { operation: OperationKind::Write, errno: data.word().cast_signed() }
}

pub(crate) fn order(data: &mut Data) -> u32 {
    let birth = if data.bit() { Birth::FinalName } else { Birth::TemporaryName };
    let mut order = FileOrder::new(birth);
    let mut actions = Vec::<FileAction, 8>::new();
    let mut sum = 0u32;
    for _ in 0..32 {
        let step = STEPS.get(usize::from(data.short()) % STEPS.len()).copied().unwrap_or(Step::Create);
        let event = match data.word() & 7 {
            0 => FileEvent::Started,
            1 => FileEvent::WriteSubmitted,
            2 => FileEvent::WriteDone,
            3 => FileEvent::WriteFailed(error(data)),
            4 => FileEvent::Sealed { set_length: data.bit() },
            5 => FileEvent::StepFailed(step, error(data)),
            6 => FileEvent::Abandoned,
            _ => FileEvent::StepDone(step),
        };
        sum ^=
            used(&order.on_event(data.now(), event, &mut actions)) ^ used(&actions) ^ used(&order.failure());
        actions.clear();
    }
    sum
}

/// A flash that answers as it likes.
struct Flash<'d> {
    data: &'d mut Data,
    ended: Deque<Completion<Page>, 4>,
    pages_out: usize,
}

#[derive(Debug)]
struct Page([u8; 512]);

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Page {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Disk for Flash<'_> {
    type Block = Page;
    type Frozen = &'static [u8];

    const ALIGNMENT: usize = 256;

    fn block(&mut self) -> Option<Page> {
        (self.pages_out < 2).then(|| {
            self.pages_out = self.pages_out.saturating_add(1);
            Page([0; 512])
        })
    }

    fn recycle(&mut self, _: Page) {
        self.pages_out = self.pages_out.saturating_sub(1);
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, Page, &'static [u8]>,
    ) -> Result<(), Operation<'p, Page, &'static [u8]>> {
        if self.ended.is_full() {
            return Err(operation);
        }
        used(&operation);
        let outcome = match self.data.word() & 7 {
            0 => Outcome::Failed(error(self.data)),
            1 | 2 => Outcome::Opened { file: FileId(self.data.word()), len: self.data.long() },
            _ => Outcome::Done,
        };
        self.pages_out = self.pages_out.saturating_sub(1);
        used(&self.ended.push_back(Completion { token, outcome }));
        Ok(())
    }

    fn reap(&mut self, _: Wait, out: &mut VecView<Completion<Page>>) -> usize {
        let before = out.len();
        while !out.is_full() {
            let Some(completion) = self.ended.pop_front() else { break };
            used(&out.push(completion));
        }
        out.len().saturating_sub(before)
    }

    fn in_flight(&self) -> usize {
        self.ended.len()
    }

    fn list(&mut self, _: &str, _: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        Err(error(self.data))
    }
}

pub(crate) fn writer(data: &mut Data) -> u32 {
    let mut bytes = [0; 2000];
    data.fill(&mut bytes);
    let names = if data.bit() {
        Names::Final { path: "job/segment" }
    } else {
        Names::Renamed { temporary: "job/.manifest", path: "job/manifest" }
    };
    let mut work = WriteFile::new(names, bytes);
    let mut tokens = Tokens::new(data.word());
    let mut flash = Flash { data, ended: Deque::new(), pages_out: 0 };
    let mut ended = Vec::<Completion<Page>, 4>::new();
    for _ in 0..64 {
        work.advance(&mut flash, &mut tokens);
        flash.reap(Wait::No, &mut ended);
        while let Some(completion) = ended.pop() {
            work.on_completion(completion, &mut flash);
        }
        if work.is_done() {
            break;
        }
    }
    used(&work.result())
}
