//! Goes through the moments of a log and what the power could leave at each.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::env;
use std::string::{String, ToString};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::vec::Vec;

use slackwater_core::durable::OperationKind;

use super::file_system::{Chances, Lost};
use super::image::{Image, When, changes_files};
use super::log::{Log, Moment};
use super::rng::Rng;
use super::tally::Tally;

/// How many images are tried unless somebody says otherwise.
const IMAGES: u64 = 1000;

/// What a crash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The power: what no sync covers may be lost.
    Power,
    /// The process alone: all that took effect is there, but not yet safe from a loss of power.
    Process,
}

/// Every moment at which the power can go on a disk whose [`Log`] was kept, and a check of what is left.
#[derive(Clone, Debug)]
pub struct PowerCuts {
    /// Moments and sides, each once.
    all: Vec<(Arc<Moment>, When)>,
    /// Those at which what is left is not always the same.
    drawn: Vec<(Arc<Moment>, When)>,
    seed: u64,
    images: u64,
    first_number: u64,
    only: Option<u64>,
    crash: Crash,
}

/// An image on which a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedImage {
    /// Its number.
    pub number: u64,
    /// Where the power went.
    pub place: String,
    /// What the check said.
    pub message: String,
}

impl PowerCuts {
    /// The variable that says how many images are tried.
    pub const IMAGES_VARIABLE: &str = "SLACKWATER_POWER_CUTS";
    /// The variable that names the one image to try.
    pub const ONLY_VARIABLE: &str = "SLACKWATER_POWER_CUT";

    /// Of everything that a log has kept so far.
    #[must_use]
    pub fn of(log: &Log) -> Self {
        let (moments, end) = log.moments();
        let sides = |moment: &Arc<Moment>| {
            let sides = if changes_files(moment.submitted.kind) {
                &[When::Before, When::During, When::After][..]
            } else {
                &[When::During]
            };
            let moment = Arc::clone(moment);
            sides.iter().map(move |when| (Arc::clone(&moment), *when))
        };
        let mut all: Vec<_> = moments.iter().flat_map(sides).collect();
        all.push((end, When::AtTheEnd));
        Self {
            drawn: drawn(&all),
            all,
            seed: 0,
            images: IMAGES,
            first_number: 0,
            only: None,
            crash: Crash::Power,
        }
    }

    /// Only these operations, by their numbers.
    #[must_use]
    pub fn operations(mut self, range: Range<u64>) -> Self {
        self.all.retain(|(moment, when)| *when != When::AtTheEnd && range.contains(&moment.number));
        self.drawn = drawn(&self.all);
        self
    }

    /// Other choices of what is lost.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many images; at least one for each side of each operation is taken.
    #[must_use]
    pub const fn images(mut self, images: u64) -> Self {
        self.images = images;
        self
    }

    /// The number of the first image: several logs can share one row of numbers.
    #[must_use]
    pub const fn first_number(mut self, number: u64) -> Self {
        self.first_number = number;
        self
    }

    /// What crashes.
    #[must_use]
    pub const fn crash(mut self, crash: Crash) -> Self {
        self.crash = crash;
        self
    }

    /// Only one image.
    #[must_use]
    pub const fn only(mut self, number: u64) -> Self {
        self.only = Some(number);
        self
    }

    /// Takes the number of images from `SLACKWATER_POWER_CUTS`, or the number of the only one from
    /// `SLACKWATER_POWER_CUT`, if these are set.
    #[must_use]
    pub fn from_env(mut self) -> Self {
        let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
        self.images = number(Self::IMAGES_VARIABLE).unwrap_or(self.images);
        self.only = number(Self::ONLY_VARIABLE).or(self.only);
        self
    }

    /// How many sides of operations there are at which the power can go.
    #[must_use]
    pub const fn places(&self) -> u64 {
        self.all.len() as u64
    }

    /// Whether only one image was asked for.
    #[must_use]
    pub const fn is_one(&self) -> bool {
        self.only.is_some()
    }

    /// How many images there will be.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.images.max(self.places())
    }

    /// Whether there is no operation at which the power could go.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One of the images, numbered from [`first_number`](Self::first_number): first one for each side of each operation, then again and again those that differ.
    #[must_use]
    pub fn image(&self, number: u64) -> Option<Image> {
        let (moment, when) = self.place(number)?;
        let mut rng = Rng::new(self.seed ^ number.wrapping_mul(0x9E37_79B9));
        let is_sync = matches!(moment.submitted.kind, OperationKind::SyncFile | OperationKind::SyncFolder);
        let (left, chances) = match when {
            When::Before => (&moment.before, Chances::Any),
            // In the middle of a sync some of what it covers is durable: as if it had not begun, and even chances.
            When::During if is_sync => (&moment.before, Chances::Even),
            When::During => (&moment.after, Chances::Even),
            When::After | When::AtTheEnd => (&moment.after, Chances::Any),
        };
        let mut left = left.clone();
        for other in moment.in_flight.iter().filter(|_| rng.chance(50)) {
            if let Some(effect) = &other.effect {
                // What can no longer be done has no effect.
                left.carry_out(other.number, effect, &other.unknown).unwrap_or_default();
            }
        }
        let (files, lost) = match self.crash {
            Crash::Power => left.after_power_cut(&mut rng, chances),
            Crash::Process => (left.after_kill(), Lost::default()),
        };
        let (operation, submitted) = (moment.number, moment.submitted.clone());
        Some(Image { number, when, operation, submitted, promised: moment.promised, lost, files })
    }

    fn place(&self, number: u64) -> Option<(&Moment, When)> {
        let index = usize::try_from(number.checked_sub(self.first_number)?).ok()?;
        let place = match index.checked_sub(self.all.len()) {
            None => self.all.get(index)?,
            Some(beyond) => self.drawn.get(beyond.checked_rem(self.drawn.len())?)?,
        };
        Some((&place.0, place.1))
    }

    /// Tries the images on every processor. What a check does must depend on its image alone.
    ///
    /// # Errors
    /// The image with the lowest number of those whose check failed.
    pub fn check<E: fmt::Display>(
        &self,
        check: impl Fn(&Image) -> Result<(), E> + Sync,
    ) -> Result<Tally, FailedImage> {
        if let Some(number) = self.only {
            // The others of the same row are not here.
            return self.try_one(number, &check).map(|tried| tried.unwrap_or_default());
        }
        let next = AtomicU64::new(self.first_number);
        let end = AtomicU64::new(self.first_number.saturating_add(self.len()));
        let (tally, failed) = (Mutex::new(Tally::default()), Mutex::new(None));
        let work = || {
            let mut own = Tally::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end.load(Ordering::Relaxed) {
                    break;
                }
                match self.try_one(number, &check) {
                    Ok(one) => own += one.unwrap_or_default(),
                    Err(failure) => {
                        end.fetch_min(number, Ordering::Relaxed);
                        keep_first(&failed, failure);
                    }
                }
            }
            *tally.lock().unwrap_or_else(PoisonError::into_inner) += own;
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure),
            None => Ok(tally.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn try_one<E: fmt::Display>(
        &self,
        number: u64,
        check: impl Fn(&Image) -> Result<(), E>,
    ) -> Result<Option<Tally>, FailedImage> {
        let Some(image) = self.image(number) else { return Ok(None) };
        match check(&image) {
            Ok(()) => Ok(Some(Tally::of(&image))),
            Err(error) => Err(FailedImage { number, place: image.to_string(), message: error.to_string() }),
        }
    }
}

fn drawn(all: &[(Arc<Moment>, When)]) -> Vec<(Arc<Moment>, When)> {
    all.iter().filter(|(moment, _)| changes_files(moment.submitted.kind)).cloned().collect()
}

fn keep_first(failed: &Mutex<Option<FailedImage>>, failure: FailedImage) {
    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.as_ref().is_none_or(|first| failure.number < first.number) {
        *failed = Some(failure);
    }
}

impl fmt::Display for FailedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, place, message } = self;
        write!(f, "{place}: {message}\nthis image alone: {}={number}", PowerCuts::ONLY_VARIABLE)
    }
}

impl core::error::Error for FailedImage {}
