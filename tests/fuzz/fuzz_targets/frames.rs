//! Arbitrary bytes on a connection that is a WebSocket already: messages within the limit, or a close with a code that a
//! server may send.

#![no_main]

use std::sync::LazyLock;

use auricle_server::fuzz::frames;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

/// What a message may have.
const LIMIT: usize = 1 << 20;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));

fuzz_target!(|bytes: &[u8]| {
    let (lengths, code) = frames(&RUNTIME, bytes);
    assert!(lengths.iter().all(|length| *length <= LIMIT), "{lengths:?}");
    assert!(lengths.iter().sum::<usize>() <= bytes.len(), "more came out than went in");
    assert!(code.is_none_or(|code| (1000..5000).contains(&code) && !matches!(code, 1005 | 1006 | 1015)), "{code:?}");
});
