//! Speakers over time: what models hear of speakers to stretches of speech, and words to utterances.
//!
//! - [`listener`]: samples to windows of speech with their mel rows.
//! - [`windows`]: where windows lie inside detected speech, and what each decides.
//! - [`spectrum`]: the leading eigenvectors of a symmetric matrix.
//! - [`linkage`]: groups of directions that are alike.
//! - [`clustering`]: the windows of a block to speakers, and the speakers of all blocks to those of the recording.
//! - [`resegmentation`]: the windows of a clustering to its speakers once more, each beside those around it.
//! - [`directions`]: vectors of which the direction counts.
//! - [`naming`]: the known people whose voices are heard.
//! - [`activity`]: the activity of speakers, frame by frame, to stretches of speech.
//! - [`words`]: a speaker for each word, and utterances.
//! - [`sentences`]: changes of speaker at the ends of sentences.

pub mod activity;
pub mod clustering;
pub mod directions;
pub mod linkage;
pub mod listener;
pub mod naming;
pub mod resegmentation;
pub mod sentences;
pub mod spectrum;
pub mod windows;
pub mod words;
