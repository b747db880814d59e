//! The pages for people.

pub mod checkout;
