//! One corpus: its documents shuffled, cut into sequences, and these shuffled.

use std::ops::Range;

use crate::numpy::RandomState;

/// Share of the last epoch's sequences below which that epoch is shuffled by itself.
const FINAL_EPOCH_SHARE: f64 = 0.80;
/// Documents between two places whose tokens are counted.
const STRIDE: usize = 64;

/// How many sequences a corpus has, and from how many passes over its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorpusSize {
    /// Documents of one epoch.
    pub documents: u64,
    /// Tokens of one epoch.
    pub tokens: u64,
    /// Tokens of a sequence, without the extra one.
    pub sequence_length: u64,
    /// 1 if a sequence has the token that follows it, too, otherwise 0.
    pub extra: u64,
    /// Passes over the documents.
    pub epochs: u64,
    /// Sequences.
    pub samples: u64,
    /// Sequences before the last epoch, if that one is shuffled by itself.
    pub before_final: Option<u64>,
}

/// A part of a sequence: tokens of one document, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The document, counted from the first of the split.
    pub document: u32,
    /// Its first token that is wanted.
    pub offset: u64,
    /// Number of tokens; not 0.
    pub tokens: u64,
}

/// The sequences of a corpus in Megatron's order.
///
/// Memory: 4 bytes a document of the split, 4 more a document and epoch, 4 a sequence, or 8 of more than 2^32.
#[derive(Debug)]
pub struct CorpusOrder {
    size: CorpusSize,
    lengths: Vec<u32>,
    /// Documents of all epochs in the order in which they are read.
    documents: Vec<u32>,
    /// Tokens before every 64th of them.
    read_before: Vec<u64>,
    /// Tokens before every 64th document as they lie.
    lie_before: Vec<u64>,
    shuffled: Shuffled,
}

#[derive(Debug)]
enum Shuffled {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

// === impl CorpusSize ===

impl CorpusSize {
    /// For `wanted` sequences or more; `None` for those of one epoch. `tokens` is not 0. `None` where the tokens of all
    /// epochs cannot be counted.
    #[must_use]
    pub fn new(
        documents: u64,
        tokens: u64,
        sequence_length: u32,
        extra_token: bool,
        wanted: Option<u64>,
    ) -> Option<Self> {
        let (length, extra) = (u64::from(sequence_length), u64::from(extra_token));
        let epochs = match wanted {
            None => 1,
            Some(wanted) => wanted.checked_mul(length)?.checked_add(extra)?.div_ceil(tokens).max(1),
        };
        epochs.checked_mul(tokens)?;
        let samples_in = |epochs: u64| (epochs * tokens).saturating_sub(extra) / length;
        let before = samples_in(epochs - 1);
        let of_final = wanted.unwrap_or(0).saturating_sub(before);
        let few = (FINAL_EPOCH_SHARE * samples_in(1) as f64) as u64;
        Some(Self {
            documents,
            tokens,
            sequence_length: length,
            extra,
            epochs,
            samples: samples_in(epochs),
            before_final: (epochs > 1 && of_final < few).then_some(before),
        })
    }

    /// Bytes of memory that its order takes, nearly.
    #[must_use]
    pub fn order_bytes(&self) -> u64 {
        let documents = self.epochs.saturating_add(1).saturating_mul(self.documents);
        let sample = if self.samples > u32::MAX.into() { 8 } else { 4 };
        documents.saturating_mul(4).saturating_add(self.samples.saturating_mul(sample))
    }

    /// Tokens of a sequence with the extra one.
    #[must_use]
    pub fn sample_tokens(&self) -> u64 {
        self.sequence_length + self.extra
    }
}

// === impl CorpusOrder ===

impl CorpusOrder {
    /// `lengths` are the tokens of each document of the split; their sum is the size's.
    ///
    /// # Panics
    /// The lengths are not those that the size was made for.
    #[must_use]
    pub fn new(size: CorpusSize, lengths: Vec<u32>, seed: u32) -> Self {
        assert_eq!(lengths.len() as u64, size.documents, "documents of another corpus");
        let mut random = RandomState::new(seed);
        let last = u64::from(size.before_final.is_some());
        let mut documents = shuffled_epochs(size.documents, size.epochs - last, &mut random);
        if last > 0 {
            documents.extend(shuffled_epochs(size.documents, last, &mut random));
        }
        let (lie_before, tokens) = before(lengths.iter().copied());
        assert_eq!(tokens, size.tokens, "tokens of another corpus");
        let (read_before, _) = before(documents.iter().map(|&at| lengths[at as usize]));
        let cut = size.before_final.unwrap_or(size.samples);
        let shuffled = match u32::try_from(size.samples) {
            Ok(samples) => Shuffled::Narrow(shuffled_ranges(0..samples, cut as usize, &mut random)),
            Err(_) => Shuffled::Wide(shuffled_ranges(0..size.samples, cut as usize, &mut random)),
        };
        Self { size, lengths, documents, read_before, lie_before, shuffled }
    }

    /// How many sequences there are.
    #[must_use]
    pub fn size(&self) -> &CorpusSize {
        &self.size
    }

    /// The document index: the documents of all epochs as they are read.
    #[must_use]
    pub fn documents(&self) -> &[u32] {
        &self.documents
    }

    /// The shuffle index: which of the sequences, as they are cut, is the `sample`th.
    ///
    /// # Panics
    /// There is no such sample.
    #[must_use]
    pub fn cut(&self, sample: u64) -> u64 {
        match &self.shuffled {
            Shuffled::Narrow(numbers) => numbers[sample as usize].into(),
            Shuffled::Wide(numbers) => numbers[sample as usize],
        }
    }

    /// The tokens of a sample, document by document.
    ///
    /// # Panics
    /// There is no such sample.
    #[must_use]
    pub fn pieces(&self, sample: u64) -> Vec<Piece> {
        let begin = self.cut(sample) * self.size.sequence_length;
        let mut left = self.size.sample_tokens();
        let (mut at, mut offset) = self.document_of(begin);
        let mut pieces = Vec::new();
        while left > 0 {
            let document = self.documents[at];
            let tokens = left.min(u64::from(self.lengths[document as usize]) - offset);
            if tokens > 0 {
                pieces.push(Piece { document, offset, tokens });
            }
            left -= tokens;
            (at, offset) = (at + 1, 0);
        }
        pieces
    }

    /// Tokens of the split before a document, as they lie in their file.
    #[must_use]
    pub fn tokens_before(&self, document: u32) -> u64 {
        let document = document as usize;
        let from = document / STRIDE;
        let between = &self.lengths[from * STRIDE..document];
        self.lie_before[from] + between.iter().map(|&tokens| u64::from(tokens)).sum::<u64>()
    }

    /// Where a token is, of all that are read: the number of its document in the order, and its offset there.
    fn document_of(&self, token: u64) -> (usize, u64) {
        let from = self.read_before.partition_point(|&before| before <= token) - 1;
        let (mut at, mut left) = (from * STRIDE, token - self.read_before[from]);
        loop {
            let tokens = u64::from(self.lengths[self.documents[at] as usize]);
            if left < tokens {
                return (at, left);
            }
            left -= tokens;
            at += 1;
        }
    }
}

/// All documents, `epochs` times, shuffled together.
fn shuffled_epochs(documents: u64, epochs: u64, random: &mut RandomState) -> Vec<u32> {
    let mut all: Vec<u32> = (0..epochs).flat_map(|_| 0..documents as u32).collect();
    random.shuffle(&mut all);
    all
}

/// Numbers, those before `cut` shuffled and then the others.
fn shuffled_ranges<T>(range: Range<T>, cut: usize, random: &mut RandomState) -> Vec<T>
where
    Range<T>: Iterator<Item = T>,
{
    let mut numbers: Vec<T> = range.collect();
    let (first, last) = numbers.split_at_mut(cut);
    random.shuffle(first);
    random.shuffle(last);
    numbers
}

/// Tokens before every 64th document, and of all.
fn before(lengths: impl Iterator<Item = u32>) -> (Vec<u64>, u64) {
    let (mut counted, mut sum) = (Vec::new(), 0);
    for (at, length) in lengths.enumerate() {
        if at % STRIDE == 0 {
            counted.push(sum);
        }
        sum += u64::from(length);
    }
    (counted, sum)
}
