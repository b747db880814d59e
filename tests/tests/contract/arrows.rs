//! Modules use the modules below them, and no others.

use auricle_tests::arrows::{Fault, ORDERS, Order, Sources, arrows, check, check_layout, read_sources};
use auricle_tests::repository;

fn sources(files: &[(&str, &str)]) -> Sources {
    files.iter().map(|(module, source)| ((*module).to_owned(), (*source).to_owned())).collect()
}

fn faults(files: &[(&str, &str)], ranks: &[&[&str]]) -> Vec<String> {
    check(&sources(files), ranks).iter().map(Fault::to_string).collect()
}

#[test]
fn the_arrows_of_every_crate_point_down() {
    let workspace = repository();
    let mut all = Vec::new();
    for Order { name, sources, ranks, has_layout } in ORDERS {
        let sources = read_sources(&workspace.join(sources)).unwrap();
        assert!(arrows(&sources).len() > 20, "too few arrows of {name} were found");
        let mut faults = check(&sources, ranks);
        faults.extend(check_layout(&sources[""], ranks).filter(|_| has_layout));
        all.extend(faults.iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn an_arrow_that_points_up_is_a_fault() {
    let ranks: &[&[&str]] = &[&["top"], &["bottom"]];
    let down = [("", "mod top; mod bottom;"), ("top", "use crate::bottom::Thing;"), ("bottom", "")];
    assert!(faults(&down, ranks).is_empty());
    for source in [
        "use crate::top;",
        "use crate::top::Thing;",
        "use crate::{top::{self, Thing}};",
        "fn f() { crate::top::g(); }",
        "fn f() -> super::top::Thing { loop {} }",
        "mod inner { use super::super::top::Thing; }",
        "mod inner { mod deeper { fn f() { super::super::super::top::g() } } }",
        "use super::top as other;",
    ] {
        let faults = faults(&[("", ""), ("top", ""), ("bottom", source)], ranks);
        let up = |fault: &String| fault.starts_with("bottom uses top above it, line 1");
        assert!(!faults.is_empty() && faults.iter().all(up), "{source}: {faults:?}");
    }
}

#[test]
fn comments_strings_and_scopes_are_no_arrows() {
    let ranks: &[&[&str]] = &[&["top"], &["bottom"]];
    for source in [
        "// use crate::top;",
        "/* use crate::top; /* nested */ use crate::top; */",
        "/// [`crate::top::Thing`]\nfn f() {}",
        "const A: &str = \"use crate::top;\";",
        "const A: &str = r#\"\" use crate::top; \"#;",
        "const A: (&str, char) = (\"\\\\\", '\"'); const B: char = '\\''; // use crate::top;",
        "pub(in crate::top) fn f() {}",
        "pub(crate) fn f<'a>(x: &'a str) -> &'a str { x }",
        "use top::Thing;",
        "use std::crate_like::top;",
    ] {
        assert_eq!(faults(&[("", ""), ("top", ""), ("bottom", source)], ranks), [""; 0], "{source}");
    }
}

#[test]
fn items_of_the_root_lie_above_everything_unless_it_re_exports_them() {
    let ranks: &[&[&str]] = &[&["top"], &["bottom"]];
    let root = "pub use bottom::{Error, Result as Outcome}; pub use top::Thing; pub struct Own;";
    let files = |source| [("", root), ("top", source), ("bottom", "")];
    assert!(faults(&files("use crate::Error;"), ranks).is_empty());
    assert_eq!(faults(&files("use crate::Own;"), ranks), ["top uses the root above it, line 1: Own"]);
    let up = faults(&[("", root), ("top", ""), ("bottom", "\nuse crate::Thing;")], ranks);
    assert_eq!(up, ["bottom uses top above it, line 2: Thing"]);
}

#[test]
fn modules_of_a_folder_that_use_each_other_are_a_fault() {
    let ranks: &[&[&str]] = &[&["a", "b", "c"]];
    let circle = [
        ("", ""),
        ("a", "use crate::b::x::X;"),
        ("b", "mod x; use x::X;"),
        ("b::x", "use super::Y; use crate::c::Z;"),
        ("c", "use crate::a::A;"),
    ];
    assert_eq!(faults(&circle, ranks), ["a cycle: a -> b -> c"]);
    let siblings = [("", ""), ("a", "mod x; mod y;"), ("a::x", "use super::y::Y;"), ("a::y", "use super::x::X;")];
    assert_eq!(faults(&siblings, &[&["a"]]), ["a cycle: a::x -> a::y"]);
}

#[test]
fn every_module_has_one_place() {
    let files = [("", ""), ("a", ""), ("a::x", ""), ("b", "")];
    assert_eq!(
        faults(&files, &[&["a"], &["c"]]),
        ["b has no rank in the table", "the table names c, which does not exist"]
    );
    // A part of a module may have a rank of its own.
    let files = [("", ""), ("a", ""), ("a::x", "use crate::b::B;"), ("b", "use crate::a::A;")];
    let faults = faults(&files, &[&["a::x"], &["b"], &["a"]]);
    assert_eq!(faults, ["a cycle: a -> b"]);
}

#[test]
fn the_layout_list_is_that_of_the_table() {
    let ranks: &[&[&str]] = &[&["a", "b"], &["c"]];
    let list = |lines: &str| format!("//! Crate.\n//!\n//! # Layout\n//!\n{lines}\n\nmod a;\n");
    for good in ["//! - [`a`], [`b`]: one\n//! - [`c`]: two", "//! - [`b`]: one\n//! - [`a`]: two\n//! - [`c`]: three"]
    {
        assert_eq!(check_layout(&list(good), ranks), None);
    }
    for bad in ["//! - [`c`], [`b`], [`a`]", "//! - [`a`], [`b`]", "//! - [`a`], [`b`], [`c`], [`d`]", ""] {
        assert!(check_layout(&list(bad), ranks).is_some(), "{bad}");
    }
}
