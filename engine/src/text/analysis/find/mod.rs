//! The finders, one kind of thing each.

pub mod codes;
pub mod contact;
pub mod dates;
mod mentions;
pub mod names;
mod occupations;
pub mod places;
pub mod secrets;
pub mod terms;
