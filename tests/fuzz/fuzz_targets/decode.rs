//! Arbitrary bytes are decoded, or refused, and do no harm.

#![no_main]

use std::io::Cursor;

use auricle_engine::audio::{AudioStream, Ffmpeg, LIMIT, OpenOptions};
use libfuzzer_sys::fuzz_target;

/// Blocks of half a second that are decoded at most: 10 s.
const BLOCKS: usize = 20;

fuzz_target!(
    // The fuzzer's own hook ends the process at a panic, even one that the engine catches, as it must some of symphonia's.
    init: drop(std::panic::take_hook()),
    |bytes: &[u8]| {
        let options = OpenOptions::default().name("input").ffmpeg(Ffmpeg::Never);
        match AudioStream::from_source(Cursor::new(bytes.to_vec()), &options) {
            Ok(stream) => {
                for block in stream.take(BLOCKS) {
                    let Ok(block) = block else { break };
                    assert!(block.iter().all(|sample| sample.abs() <= LIMIT), "a sample is no number or too loud");
                }
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("input") && !text.contains('\n'), "{text:?}");
            }
        }
    }
);
