//! A job as a graph: sources, functions, keyed processes and sinks, each with a parallelism.

mod participants;
mod transform;

use std::fmt;

use slackwater_core::edge::Partitioner;
use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash, subtask_of_key_group};
use slackwater_mem::{Codec, Decode};

use crate::actor::Signal;
use crate::chain::{FlatMapStage, KeyedStage, SinkStage, Stage};
use crate::channel::{Destination, Receiver, Sender, channel};
use crate::checkpoint::Previous;
use crate::error::JobError;
use crate::exchange::{Edge, Exchange, Partition, RoundRobin};
use crate::head::{Head, InputHead, SourceHead};
use crate::hook::NamedHook;
use crate::keyed::KeyedProcess;
use crate::operator::{Guarantee, Sink, Source, SubtaskInfo};
use crate::operator_coordinator::OperatorCoordinator;
use crate::output::Output;
use crate::record::{Record, RecordCodec};

/// Makes the head of one subtask.
type BuildHead = Box<dyn FnMut(&SubtaskInfo) -> Box<dyn Head> + Send>;

/// Makes the head of one subtask, given the rest of its chain.
type Build<R> = Box<dyn FnMut(&SubtaskInfo, Box<dyn Stage<R>>) -> Box<dyn Head> + Send>;

/// Describes a job: operators and how records flow between them.
///
/// Operators that follow each other without a change of key run chained in the same subtasks. The name of an
/// operator ties its state in a checkpoint to it; a later run finds it by that name.
pub struct JobBuilder {
    pub(crate) name: String,
    pub(crate) max_parallelism: u32,
    pub(crate) vertices: Vec<Vertex>,
    /// The sinks by name, and what each promises.
    pub(crate) sinks: Vec<(String, Guarantee)>,
    /// In the order in which they were registered.
    pub(crate) hooks: Vec<NamedHook>,
    pub(crate) previous: Previous,
    /// Channels of the first exchange that has too many; they were not made.
    channels_wanted: Option<usize>,
}

/// The most channels of one exchange: 512 subtasks to 512, about 600 MB of queues.
const CHANNELS_MAX: usize = 1 << 18;

/// Operators that run chained, with their subtasks.
pub(crate) struct Vertex {
    /// Name of its first operator.
    pub(crate) name: String,
    /// Its operators, head to tail.
    pub(crate) operators: Vec<String>,
    pub(crate) signals: Vec<Signal>,
    /// It reads from no other.
    pub(crate) is_source: bool,
    /// Its operators have keyed state.
    pub(crate) is_keyed: bool,
    pub(crate) build: BuildHead,
    /// Who decides what its source reads, if somebody does.
    pub(crate) coordinator: Option<Box<dyn OperatorCoordinator>>,
}

impl JobBuilder {
    /// A job without operators. `max_parallelism` is how many key groups it has, 1 to 32768: the most
    /// subtasks that a keyed operator can ever have. It cannot change once there is a checkpoint.
    pub fn new(name: impl Into<String>, max_parallelism: u32) -> Self {
        Self {
            name: name.into(),
            max_parallelism,
            vertices: Vec::new(),
            sinks: Vec::new(),
            hooks: Vec::new(),
            previous: Previous::default(),
            channels_wanted: None,
        }
    }

    /// Says that an operator had another name when earlier checkpoints were taken: where they do not know it by `operator`, it
    /// takes over what they know by `previous`.
    pub fn previously(&mut self, operator: impl Into<String>, previous: impl Into<String>) {
        self.previous.insert(operator.into(), previous.into());
    }

    /// Adds a source with `parallelism` subtasks; `make` makes the instance of each.
    pub fn source<S: Source>(
        &mut self,
        name: impl Into<String>,
        parallelism: u16,
        mut make: impl FnMut(&SubtaskInfo) -> S + Send + 'static,
    ) -> Stream<'_, S::Out> {
        let vertex = OpenVertex { is_source: true, ..OpenVertex::new(name.into(), parallelism) };
        let name = vertex.name().to_owned();
        let signals = vertex.signals.clone();
        let build: Build<S::Out> = Box::new(move |info, next| {
            let mut source = make(info);
            source.set_waker(signals[usize::from(info.index)].waker());
            Box::new(SourceHead::new(name.clone(), source, next))
        });
        Stream::new(self, vertex, build)
    }

    /// The name of the job.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks what can be checked without a disk.
    pub(crate) fn validate(&self) -> Result<MaxParallelism, JobError> {
        let invalid = |what: String| Err(JobError::InvalidJob { what });
        let Ok(max) = MaxParallelism::new(self.max_parallelism) else {
            return invalid(format!("max parallelism {} is not within 1 and 32768", self.max_parallelism));
        };
        if self.name.is_empty() || self.name.contains(['/', '\0']) || self.name.starts_with('.') {
            return invalid(format!("\"{}\" cannot name a job: its folder has that name", self.name));
        }
        if self.vertices.is_empty() {
            return invalid("the job has no sink: end every stream in one".to_owned());
        }
        let mut names: Vec<&String> = self.vertices.iter().flat_map(|vertex| &vertex.operators).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return invalid(format!("two operators are named {}", twice[0]));
        }
        if let Some(what) = self.previous.contradiction(&names) {
            return invalid(what);
        }
        for vertex in &self.vertices {
            let parallelism = u16::try_from(vertex.signals.len()).unwrap_or(u16::MAX);
            if parallelism == 0 {
                return invalid(format!("the parallelism of {} is zero", vertex.name));
            }
            if parallelism > max.get() {
                let (operator, max_parallelism) = (vertex.name.clone(), max.get());
                return Err(JobError::ParallelismAboveMaximum { operator, parallelism, max_parallelism });
            }
        }
        match self.channels_wanted {
            Some(wanted) => {
                let what = "channels between two operators";
                Err(JobError::CapacityExceeded { what, wanted, limit: CHANNELS_MAX })
            }
            None => Ok(max),
        }
    }
}

impl fmt::Debug for JobBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vertices = self.vertices.iter().map(|vertex| (&vertex.operators, vertex.signals.len()));
        f.debug_struct("JobBuilder")
            .field("name", &self.name)
            .field("vertices", &vertices.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A vertex to which operators can still be chained.
struct OpenVertex {
    operators: Vec<String>,
    signals: Vec<Signal>,
    is_source: bool,
    is_keyed: bool,
    coordinator: Option<Box<dyn OperatorCoordinator>>,
}

impl OpenVertex {
    fn new(name: String, parallelism: u16) -> Self {
        let signals = (0..parallelism).map(|_| Signal::default()).collect();
        Self { operators: vec![name], signals, is_source: false, is_keyed: false, coordinator: None }
    }

    fn name(&self) -> &str {
        &self.operators[0]
    }

    fn close<R: Record + ?Sized>(
        self,
        mut build: Build<R>,
        mut tail: impl FnMut(&SubtaskInfo) -> Box<dyn Stage<R>> + Send + 'static,
    ) -> Vertex {
        Vertex {
            name: self.name().to_owned(),
            operators: self.operators,
            signals: self.signals,
            is_source: self.is_source,
            is_keyed: self.is_keyed,
            coordinator: self.coordinator,
            build: Box::new(move |info| {
                let tail = tail(info);
                build(info, tail)
            }),
        }
    }
}

/// Records on their way from the operators so far to the next one.
#[must_use = "a stream does nothing until it ends in a sink"]
pub struct Stream<'j, R: Record + ?Sized> {
    job: &'j mut JobBuilder,
    vertex: OpenVertex,
    build: Build<R>,
    codec: Option<RecordCodec<R>>,
}

impl<'j, R: Record + ?Sized> Stream<'j, R> {
    fn new(job: &'j mut JobBuilder, vertex: OpenVertex, build: Build<R>) -> Self {
        Self { job, vertex, build, codec: R::codec() }
    }

    /// Says how records that a barrier overtakes are written into an unaligned checkpoint. Byte strings need not say it.
    /// A stream of other records that does not keeps its barriers in their places, and with them checkpoints wait for a
    /// slow operator behind it.
    pub fn codec<C: Decode<Item = R>>(self) -> Self {
        Self { codec: Some(RecordCodec::of::<C>()), ..self }
    }

    /// Chains a function that makes any number of records of each.
    pub fn flat_map<O: Record + ?Sized>(
        mut self,
        name: impl Into<String>,
        function: impl FnMut(&R, &mut Output<'_, O>) + Clone + Send + 'static,
    ) -> Stream<'j, O> {
        self.vertex.operators.push(name.into());
        let mut before = self.build;
        let build: Build<O> = Box::new(move |info, next| {
            before(info, Box::new(FlatMapStage { function: function.clone(), next }))
        });
        Stream::new(self.job, self.vertex, build)
    }

    /// Says what the key of a record is, and by which codec keys are told apart.
    pub fn key_by<C: Codec + 'static, K>(self, key: K) -> KeyedStream<'j, R, C, K>
    where
        K: for<'r> Fn(&'r R) -> &'r C::Item + Clone + Send + 'static,
    {
        KeyedStream { stream: self, key, codec: std::marker::PhantomData }
    }

    /// Spreads the records evenly over `parallelism` subtasks, in which the following operators run.
    pub fn rebalance(self, name: impl Into<String>, parallelism: u16) -> Self {
        let vertex = OpenVertex::new(name.into(), parallelism);
        let codec = self.codec;
        let (job, mut inputs) = self.connect(&vertex, Partitioner::Rebalance, |_| RoundRobin::default());
        let build: Build<R> = Box::new(move |info, next| {
            Box::new(InputHead::new(std::mem::take(&mut inputs[usize::from(info.index)]), codec, next))
        });
        Self { codec, ..Stream::new(job, vertex, build) }
    }

    /// Ends the stream in a sink, chained; `make` makes the instance of each subtask.
    pub fn sink<S: Sink<In = R>>(
        mut self,
        name: impl Into<String>,
        mut make: impl FnMut(&SubtaskInfo) -> S + Send + 'static,
    ) {
        let name = name.into();
        self.vertex.operators.push(name.clone());
        self.job.sinks.push((name.clone(), S::GUARANTEE));
        let signals = self.vertex.signals.clone();
        let vertex = self.vertex.close(self.build, move |info| {
            let here = SubtaskInfo { operator: name.clone(), ..info.clone() };
            let mut sink = make(&here);
            sink.set_waker(signals[usize::from(info.index)].waker());
            Box::new(SinkStage::new(name.clone(), sink))
        });
        self.job.vertices.push(vertex);
    }

    /// Ends the vertex in an exchange with the next one. Returns the inputs of each of its subtasks.
    fn connect<P: Partition<R> + 'static>(
        self,
        next: &OpenVertex,
        partitioner: Partitioner,
        mut partition: impl FnMut(usize) -> P + Send + 'static,
    ) -> (&'j mut JobBuilder, Vec<Vec<Receiver<R>>>) {
        let mut inputs: Vec<Vec<Receiver<R>>> = next.signals.iter().map(|_| Vec::new()).collect();
        let mut outputs: Vec<Vec<Sender<R>>> = Vec::new();
        let wanted = self.vertex.signals.len() * next.signals.len();
        if wanted > CHANNELS_MAX {
            // The job will be refused before any head is built.
            self.job.channels_wanted.get_or_insert(wanted);
        }
        let destinations: Vec<_> = next.signals.iter().cloned().map(Destination::new).collect();
        let from = self.vertex.signals.iter().filter(|_| wanted <= CHANNELS_MAX);
        for (index, from) in (0u16..).zip(from) {
            let channels = destinations.iter().zip(&mut inputs).map(|(to, inputs)| {
                let (sender, receiver) = channel(from, to, index);
                inputs.push(receiver);
                sender
            });
            outputs.push(channels.collect());
        }
        let mapping = partitioner.receiver_mapping();
        let edge = Edge { receiver: next.name().to_owned(), mapping, codec: self.codec };
        let vertex = self.vertex.close(self.build, move |info| {
            let senders = std::mem::take(&mut outputs[usize::from(info.index)]);
            let partition = partition(senders.len());
            Box::new(Exchange::new(senders, partition, edge.clone()))
        });
        self.job.vertices.push(vertex);
        (self.job, inputs)
    }
}

impl<R: Record + ?Sized> fmt::Debug for Stream<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("operators", &self.vertex.operators).finish_non_exhaustive()
    }
}

/// Records and what their key is.
#[must_use = "a keyed stream does nothing until it is processed"]
pub struct KeyedStream<'j, R: Record + ?Sized, C, K> {
    stream: Stream<'j, R>,
    key: K,
    codec: std::marker::PhantomData<fn() -> C>,
}

impl<'j, R, C, K> KeyedStream<'j, R, C, K>
where
    R: Record + ?Sized,
    C: Codec + 'static,
    K: for<'r> Fn(&'r R) -> &'r C::Item + Clone + Send + 'static,
{
    /// Sends each record to the one of `parallelism` subtasks that owns its key, and processes it there.
    pub fn process<P: KeyedProcess<Key = C, In = R>>(
        self,
        name: impl Into<String>,
        parallelism: u16,
        mut make: impl FnMut(&SubtaskInfo) -> P + Send + 'static,
    ) -> Stream<'j, P::Out> {
        let mut vertex = OpenVertex::new(name.into(), parallelism);
        vertex.is_keyed = true;
        let key = self.key;
        let by_key = key.clone();
        let max = self.stream.job.max_parallelism;
        let partition = move |outputs| ByKey::<C, K>::new(by_key.clone(), max, outputs);
        let codec = self.stream.codec;
        let (job, mut inputs) = self.stream.connect(&vertex, Partitioner::KeyGroup, partition);
        let build: Build<P::Out> = Box::new(move |info, next| {
            let stage = KeyedStage::new(info, make(info), key.clone(), next);
            let inputs = std::mem::take(&mut inputs[usize::from(info.index)]);
            Box::new(InputHead::new(inputs, codec, Box::new(stage)))
        });
        Stream::new(job, vertex, build)
    }
}

impl<R: Record + ?Sized, C, K> fmt::Debug for KeyedStream<'_, R, C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

/// The subtask that owns the key group of the key (rules K1 and K7).
struct ByKey<C, K> {
    key: K,
    max_parallelism: MaxParallelism,
    /// The owner of each key group.
    owners: Vec<usize>,
    codec: std::marker::PhantomData<fn() -> C>,
}

impl<C, K> ByKey<C, K> {
    /// Of a job that has been validated.
    fn new(key: K, max_parallelism: u32, outputs: usize) -> Self {
        let max_parallelism = MaxParallelism::new(max_parallelism).expect("the job has been validated");
        let parallelism = u32::try_from(outputs).expect("the job has been validated");
        let owner = |group: KeyGroup| {
            let owner = subtask_of_key_group(max_parallelism, parallelism, group);
            owner.expect("the job has been validated") as usize
        };
        let owners = max_parallelism.all_key_groups().iter().map(owner).collect();
        Self { key, max_parallelism, owners, codec: std::marker::PhantomData }
    }
}

impl<R, C, K> Partition<R> for ByKey<C, K>
where
    R: Record + ?Sized,
    C: Codec,
    K: Fn(&R) -> &C::Item + Send,
{
    #[inline]
    fn choose(&mut self, record: &R, _outputs: usize) -> usize {
        let hash = C::key_group_hash((self.key)(record));
        self.owners[usize::from(key_group_of_hash(hash, self.max_parallelism).0)]
    }
}
