//! The finders, one kind of thing each.

pub mod codes;
pub mod contact;
pub mod dates;
mod mentions;
mod name_words;
pub mod names;
mod occupations;
mod persons;
pub mod places;
mod postal;
pub mod secrets;
pub mod terms;
mod towns;

pub use mentions::widen;
pub use name_words::is_stop;
