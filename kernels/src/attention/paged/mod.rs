//! Causal attention over keys and values in pages: on GPUs tokens of several sequences in two launches, on the CPU those of a sequence
//! ([`cpu`]). [`store`] turns queries and keys by their positions and writes keys and values to pages; [`attend`] reads them.
//!
//! A page has 32 consecutive tokens of one layer: keys `[heads, head, 32]`, so that units with a token each read what lies side by side, then
//! values `[heads, 32, head]`. A cache `[pages, 2 * heads * head * 32]` has 32 or 16 bits. Where tokens see a window alone, the pages of a
//! sequence are a ring.

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};

use cpu::PAGE;

/// Heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Of queries: a multiple of those of keys and values.
    pub queries: usize,
    /// Of keys and values.
    pub keys: usize,
    /// Values of a head: a multiple of 4, and at most 256.
    pub width: usize,
}

impl Heads {
    /// True if a GPU computes with them.
    pub fn fit(self) -> bool {
        self.width.is_multiple_of(4) && (4..=256).contains(&self.width) && self.queries.is_multiple_of(self.keys.max(1))
    }

    /// Values of a page of one layer.
    pub fn page(self) -> usize {
        2 * self.keys * self.width * PAGE
    }

    /// Values of queries, keys and values of a token.
    fn inputs(self) -> usize {
        (self.queries + 2 * self.keys) * self.width
    }
}

/// A token of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepToken {
    /// Its sequence among those of the step.
    pub sequence: usize,
    /// Tokens of the sequence before it.
    pub position: usize,
}

/// The tokens of a step, and the pages of their sequences, on the device.
#[derive(Clone, Debug)]
pub struct PageTables {
    /// `[tokens, 2]`, flat: sequence and position.
    tokens: Tensor<1, Int>,
    /// `[sequences, width]`, flat: numbers of pages.
    pages: Tensor<1, Int>,
    /// Pages of a sequence's row.
    width: usize,
    count: usize,
    /// Tokens that one sees, itself among them; all before it without one.
    window: Option<usize>,
}

impl PageTables {
    /// The integers of [`PageTables::new`]: those of the tokens, and those of the pages in rows of `width`, the most of a sequence or more.
    ///
    /// # Panics
    /// When a sequence is unknown, has no page for a token, or has more than `width`.
    pub fn pack(tokens: &[StepToken], pages: &[&[usize]], width: usize) -> [Vec<i32>; 2] {
        let has_page = |token: &StepToken| pages[token.sequence].len() * PAGE > token.position;
        assert!(tokens.iter().all(has_page), "page tables: a page for each token");
        assert!(pages.iter().all(|pages| pages.len() <= width), "page tables: rows as long as the most pages");
        let row = |pages: &&[usize]| {
            let spare = width - pages.len();
            pages.iter().map(|page| *page as i32).chain(std::iter::repeat_n(0, spare)).collect::<Vec<i32>>()
        };
        [Self::pack_tokens(tokens), pages.iter().flat_map(row).collect()]
    }

    fn pack_tokens(tokens: &[StepToken]) -> Vec<i32> {
        tokens.iter().flat_map(|token| [token.sequence as i32, token.position as i32]).collect()
    }

    /// As [`PageTables::pack`] for sequences that each have a ring of [`PageTables::ring`] pages or more, equally many: token `n` of one is
    /// in its page `n / 32` modulo their number.
    ///
    /// # Panics
    /// When a sequence is unknown, or has fewer or more pages than the first.
    pub fn pack_rings(tokens: &[StepToken], pages: &[&[usize]]) -> [Vec<i32>; 2] {
        let width = pages.first().map_or(0, |pages| pages.len());
        assert!(pages.iter().all(|pages| pages.len() == width), "page tables: rings of equal length");
        assert!(tokens.iter().all(|token| token.sequence < pages.len()), "page tables: a ring for each token");
        [Self::pack_tokens(tokens), pages.iter().flat_map(|pages| pages.iter()).map(|page| *page as i32).collect()]
    }

    /// Pages of a ring for steps of `tokens` consecutive tokens that see a `window`: none of them is in the place of one that is seen.
    pub fn ring(window: usize, tokens: usize) -> usize {
        (window + tokens).div_ceil(PAGE) + 1
    }

    /// Tables of what [`PageTables::pack`] gives for `count` tokens, which a caller has on the device; both may be longer.
    pub fn with_packed([tokens, pages]: [Tensor<1, Int>; 2], count: usize, width: usize) -> Self {
        Self { tokens, pages, width, count, window: None }
    }

    /// Tables of what [`PageTables::pack_rings`] gives, whose tokens see the last `window` of their sequence, themselves among them.
    #[must_use]
    pub fn with_window(self, window: usize) -> Self {
        Self { window: Some(window), ..self }
    }

    /// Copies them to the device.
    ///
    /// # Panics
    /// As [`PageTables::pack`].
    pub fn new(tokens: &[StepToken], pages: &[&[usize]], device: &Device) -> Self {
        let width = pages.iter().map(|pages| pages.len()).max().unwrap_or(0);
        let packed = Self::pack(tokens, pages, width);
        let upload = |values: Vec<i32>| {
            let count = values.len();
            Tensor::from_data(TensorData::new(values, [count]), device)
        };
        Self::with_packed(packed.map(upload), tokens.len(), width)
    }
}

/// How queries and keys are made of a product's results.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Cosines and sines of each position's angles: `[positions, width]`, the cosines first. Value `i` of a head turns with value
    /// `i + width / 2`.
    pub rotations: Tensor<2>,
    /// Factors of the root-mean-square norm of each head's queries, and of its keys, before they turn: `[2, width]`.
    pub norms: Option<Tensor<2>>,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Queries are multiplied by it.
    pub scale: f32,
}

/// Turns the queries and keys of `inputs` `[tokens, (queries + 2 keys) * width]`, which holds queries, keys and values, writes keys and
/// values to their places in `cache`, and returns the queries `[tokens, queries * width]` and the cache. On GPUs the cache is changed in
/// place: nothing else may hold it.
///
/// # Panics
/// When the shapes do not match.
pub fn store(
    inputs: Tensor<2>,
    turn: &Turn,
    tables: &PageTables,
    cache: Tensor<2>,
    heads: Heads,
) -> (Tensor<2>, Tensor<2>) {
    assert!(
        inputs.dims() == [tables.count, heads.inputs()]
            && cache.dims()[1] == heads.page()
            && turn.rotations.dims()[1] == heads.width
            && turn.norms.as_ref().is_none_or(|norms| norms.dims() == [2, heads.width]),
        "pages: shapes of inputs, cache, rotations and norms"
    );
    let form = Form { heads, width: tables.width, has_norms: turn.norms.is_some(), window: tables.window };
    let rotations = turn.rotations.clone().into_dispatch();
    // A kernel has the same tensors in every case; without norms this one is never read.
    let norms = turn.norms.clone().map_or_else(|| rotations.clone(), Tensor::into_dispatch);
    let step = StoredStep {
        inputs: inputs.into_dispatch(),
        rotations,
        norms,
        tokens: tables.tokens.clone().into_dispatch(),
        pages: tables.pages.clone().into_dispatch(),
        cache: cache.into_dispatch(),
        epsilon: turn.epsilon,
        scale: turn.scale,
    };
    let (queries, cache) = Dispatch::store_in_pages(step, form);
    (Tensor::from_dispatch(queries), Tensor::from_dispatch(cache))
}

/// Attention of queries `[tokens, queries * width]`, already scaled, to the keys of their sequence up to their own, or to those of them in the
/// tables' window. Returns the same shape.
///
/// # Panics
/// When the shapes do not match.
pub fn attend(queries: Tensor<2>, tables: &PageTables, cache: &Tensor<2>, heads: Heads) -> Tensor<2> {
    assert!(
        queries.dims() == [tables.count, heads.queries * heads.width] && cache.dims()[1] == heads.page(),
        "pages: shapes of queries and cache"
    );
    let form = Form { heads, width: tables.width, has_norms: false, window: tables.window };
    Tensor::from_dispatch(Dispatch::attend_to_pages(
        queries.into_dispatch(),
        tables.tokens.clone().into_dispatch(),
        tables.pages.clone().into_dispatch(),
        cache.clone().into_dispatch(),
        form,
    ))
}

/// The form of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    heads: Heads,
    /// Pages of a row of the table.
    width: usize,
    has_norms: bool,
    window: Option<usize>,
}

impl Form {
    /// The place of a position's page in a row of the table.
    fn page_at(self, position: usize) -> usize {
        let page = position / PAGE;
        if self.window.is_some() { page % self.width } else { page }
    }

    /// The first position that one sees.
    fn first_seen(self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}

/// The tensors of [`store`], and the numbers of a [`Turn`].
#[derive(ExtensionType)]
pub(crate) struct StoredStep<B: Backend> {
    inputs: FloatTensor<B>,
    rotations: FloatTensor<B>,
    norms: FloatTensor<B>,
    tokens: IntTensor<B>,
    pages: IntTensor<B>,
    cache: FloatTensor<B>,
    epsilon: f32,
    scale: f32,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait PageCacheOps: Backend {
    fn store_in_pages(#[extension_type] step: StoredStep<Self>, form: Form) -> (FloatTensor<Self>, FloatTensor<Self>);

    fn attend_to_pages(
        queries: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
    ) -> FloatTensor<Self>;
}
