//! On which of its channels a subtask has something to look at: so it does not look at hundreds for the one.

use std::array;
use std::sync::atomic::{AtomicU32, Ordering};

use slackwater_core::gate::ChannelSet;

use crate::head::CHANNEL_WORDS;

/// A bit for each channel.
///
/// Whoever has put something into a channel sets the bit, always: the receiver may be about to clear it, and looks afterwards.
#[derive(Debug, Default)]
pub(crate) struct News {
    words: [AtomicU32; CHANNEL_WORDS],
}

impl News {
    /// Something has come on a channel. One beyond the most that a subtask can have is not heard of.
    pub(crate) fn tell(&self, channel: u16) {
        if let Some(word) = self.words.get(usize::from(channel / 32)) {
            word.fetch_or(1 << (channel % 32), Ordering::Release);
        }
    }

    /// The channels on which something has come since they were last taken.
    pub(crate) fn seen(&self) -> ChannelSet<CHANNEL_WORDS> {
        ChannelSet::of_words(array::from_fn(|word| self.words[word].load(Ordering::Acquire)))
    }

    /// Takes them.
    pub(crate) fn take(&self) -> ChannelSet<CHANNEL_WORDS> {
        // What is set in this moment is found the next time, and whoever sets it wakes the receiver.
        let take = |word: &AtomicU32| match word.load(Ordering::Relaxed) {
            0 => 0,
            _ => word.swap(0, Ordering::Acquire),
        };
        ChannelSet::of_words(array::from_fn(|word| take(&self.words[word])))
    }
}

#[cfg(test)]
mod tests {
    use super::News;

    #[test]
    fn each_channel_that_has_something_is_taken_once_and_again_when_more_has_come() {
        let news = News::default();
        [1023, 0, 31, 32, 0, 1024].into_iter().for_each(|channel| news.tell(channel));
        let of = |channels: &[u16]| channels.iter().copied().collect();
        assert_eq!(news.seen(), of(&[0, 31, 32, 1023]), "there is no channel 1024");
        assert_eq!(news.take(), of(&[0, 31, 32, 1023]));
        assert_eq!((news.seen(), news.take()), (of(&[]), of(&[])));
        news.tell(31);
        assert_eq!((news.seen(), news.take()), (of(&[31]), of(&[31])));
    }
}
