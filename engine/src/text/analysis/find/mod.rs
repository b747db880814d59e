//! The finders, one kind of thing each.

pub mod codes;
pub mod contact;
pub mod dates;
pub mod names;
pub mod places;
pub mod secrets;
pub mod terms;
