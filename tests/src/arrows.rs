//! Reads which modules of a crate use which, and compares the arrows with the allowed order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::{fs, io};

/// The order of one crate's modules, from top to bottom.
///
/// A rank names modules by their paths, and a module belongs to its longest named prefix. A module may use its own rank and
/// the ranks below it. The crate's root may use everything; it re-exports items, and nothing else is used from it.
pub struct Order {
    pub name: &'static str,
    /// The folder of its sources, below the workspace.
    pub sources: &'static str,
    pub ranks: &'static [&'static [&'static str]],
    /// True if the root's documentation has a layout list, which must equal the ranks.
    pub has_layout: bool,
}

/// The orders of the crates: the one table of what may use what.
pub const ORDERS: [Order; 3] = [
    Order {
        name: "kernels",
        sources: "kernels/src",
        ranks: &[
            &["attention", "convolution", "recurrent", "sampling", "spectral"],
            &["product"],
            &["activation", "norm", "cache"],
            &["channels", "pooling"],
            &["thread_pool", "reference", "elementwise", "reduce", "vector_math", "flex", "neon"],
            &["adapters", "cube", "launches", "recording", "vulkan_layers"],
        ],
        has_layout: true,
    },
    Order {
        name: "engine",
        sources: "engine/src",
        ranks: &[
            &["engine"],
            &["blocking"],
            &["pipeline"],
            &["chat", "options", "speech", "transcript"],
            &["converse"],
            &["scheduler"],
            &["speakers"],
            &["vad"],
            &["models"],
            &["decoding"],
            &["text"],
            &["layers", "weights"],
            &["audio"],
            &["catalog", "device", "load_once"],
            &["error", "language", "memory"],
        ],
        has_layout: true,
    },
    Order {
        name: "server",
        sources: "server/src",
        ranks: &[
            &["cli", "fuzz"],
            &["serve"],
            &["dispatch"],
            &["openapi"],
            &["routes"],
            &["state"],
            &["compat"],
            &["api", "live", "dashboard"],
            &["context"],
            &["auth"],
            &["jobs", "webhook_outbox", "mail", "usage_reports", "metering"],
            &["http"],
            &["billing", "language", "checkpoints", "speakers", "cloned_voices", "webhook_secrets"],
            &["storage", "outbound", "model_hub"],
            &["store"],
            &["config", "languages"],
            &["starter_models"],
            &["notify", "backoff", "sharing", "sound_format", "sealing", "visible", "prometheus"],
            &["ids"],
            &["clock"],
        ],
        has_layout: true,
    },
];

/// A use of one module by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// Module paths without `crate`; empty for the root.
    pub from: String,
    pub to: String,
    /// The path as the source has it, with its line.
    pub path: String,
    pub line: usize,
}

/// A fault of a crate's arrows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An arrow from a lower rank to a higher one.
    Up(Arrow),
    /// Modules of one folder that use each other in a circle.
    Cycle(Vec<String>),
    /// A module that the table does not name.
    Unranked(String),
    /// A rank that names no module.
    Missing(String),
    /// The layout list at the head of the root differs from the table.
    Layout { listed: Vec<String>, expected: Vec<String> },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(arrow) => {
                let to = if arrow.to.is_empty() { "the root" } else { &arrow.to };
                write!(f, "{} uses {to} above it, line {}: {}", arrow.from, arrow.line, arrow.path)
            }
            Self::Cycle(modules) => write!(f, "a cycle: {}", modules.join(" -> ")),
            Self::Unranked(module) => write!(f, "{module} has no rank in the table"),
            Self::Missing(module) => write!(f, "the table names {module}, which does not exist"),
            Self::Layout { listed, expected } => {
                write!(f, "the layout list has [{}], the table [{}]", listed.join(" "), expected.join(" "))
            }
        }
    }
}

/// The sources of a crate, by module path. The root is the module with the empty path.
pub type Sources = BTreeMap<String, String>;

/// Reads the sources below a folder. `lib.rs` is the root; `main.rs` is left out.
///
/// # Errors
/// If a file cannot be read.
pub fn read_sources(folder: &Path) -> io::Result<Sources> {
    let mut sources = Sources::new();
    read_folder(folder, "", &mut sources)?;
    Ok(sources)
}

fn read_folder(folder: &Path, module: &str, into: &mut Sources) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            read_folder(&path, &join(module, &stem), into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !(module.is_empty() && stem == "main")
        {
            let own = stem == "mod" || (module.is_empty() && stem == "lib");
            let name = if own { module.to_owned() } else { join(module, &stem) };
            into.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Checks the sources of a crate against its order.
pub fn check(sources: &Sources, ranks: &[&[&str]]) -> Vec<Fault> {
    let mut faults = BTreeSet::new();
    for module in ranks.iter().flat_map(|rank| rank.iter()).filter(|module| !sources.contains_key(**module)) {
        faults.insert(Fault::Missing((*module).to_owned()));
    }
    for module in sources.keys().filter(|module| !module.is_empty() && rank(ranks, module).is_none()) {
        faults.insert(Fault::Unranked(module.clone()));
    }
    let arrows = arrows(sources);
    for arrow in arrows.iter().filter(|arrow| !arrow.from.is_empty()) {
        let up = match (rank(ranks, &arrow.from), rank(ranks, &arrow.to)) {
            (Some(from), Some(to)) => to < from,
            // An item of the root itself lies above everything.
            (_, None) => arrow.to.is_empty(),
            (None, _) => false,
        };
        if up {
            faults.insert(Fault::Up(arrow.clone()));
        }
    }
    faults.extend(cycles(&arrows).into_iter().map(Fault::Cycle));
    faults.into_iter().collect()
}

/// Compares the list below `# Layout` in a root's documentation with the ranks: the same modules, in the same order of ranks.
pub fn check_layout(root: &str, ranks: &[&[&str]]) -> Option<Fault> {
    let list = root.lines().skip_while(|line| line.trim() != "//! # Layout").take_while(|line| line.starts_with("//!"));
    let text: String = list.filter(|line| !line.contains("# Layout")).collect::<Vec<_>>().join("\n");
    let is_module = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:".contains(&byte))
    };
    let listed: Vec<String> = text.split('`').skip(1).step_by(2).filter(is_module).map(str::to_owned).collect();
    let expected: Vec<String> = ranks.iter().flat_map(|rank| rank.iter().map(|module| (*module).to_owned())).collect();
    let ordered = listed.iter().map(|module| rank(ranks, module)).is_sorted();
    let same = listed.iter().collect::<BTreeSet<_>>() == expected.iter().collect::<BTreeSet<_>>();
    (!ordered || !same || listed.len() != expected.len()).then_some(Fault::Layout { listed, expected })
}

/// The rank of a module: that of its longest named prefix.
fn rank(ranks: &[&[&str]], module: &str) -> Option<usize> {
    let mut prefix = module;
    loop {
        if let Some(found) = ranks.iter().position(|rank| rank.contains(&prefix)) {
            return Some(found);
        }
        prefix = prefix.rsplit_once("::")?.0;
    }
}

/// Every arrow between different modules.
pub fn arrows(sources: &Sources) -> BTreeSet<Arrow> {
    let exports = root_exports(sources);
    let mut arrows = BTreeSet::new();
    for (module, source) in sources {
        for (path, line) in paths(module, source) {
            let Some(to) = resolve(&path, sources, &exports) else { continue };
            if to != *module {
                arrows.insert(Arrow { from: module.clone(), to, path: path.join("::"), line });
            }
        }
    }
    arrows
}

/// The module that the root re-exports each name from.
fn root_exports(sources: &Sources) -> BTreeMap<String, String> {
    let Some(root) = sources.get("") else { return BTreeMap::new() };
    let mut exports = BTreeMap::new();
    for (path, _) in paths("", root) {
        if let (Some(module), Some(name)) = (longest_module(&path, sources), path.last())
            && !module.is_empty()
        {
            exports.insert(name.clone(), module);
        }
    }
    exports
}

fn longest_module(path: &[String], sources: &Sources) -> Option<String> {
    (0..=path.len()).rev().map(|length| path[..length].join("::")).find(|module| sources.contains_key(module))
}

fn resolve(path: &[String], sources: &Sources, exports: &BTreeMap<String, String>) -> Option<String> {
    let module = longest_module(path, sources)?;
    match path.first() {
        Some(name) if module.is_empty() => Some(exports.get(name).cloned().unwrap_or_default()),
        _ => Some(module),
    }
}

/// Cycles between the modules of one folder, for every folder. Arrows to a parent or to its children are no cycle.
fn cycles(arrows: &BTreeSet<Arrow>) -> Vec<Vec<String>> {
    let mut siblings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for arrow in arrows {
        let (from, to): (Vec<&str>, Vec<&str>) = (arrow.from.split("::").collect(), arrow.to.split("::").collect());
        let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
        if shared < from.len() && shared < to.len() && !arrow.from.is_empty() && !arrow.to.is_empty() {
            siblings.entry(from[..=shared].join("::")).or_default().insert(to[..=shared].join("::"));
        }
    }
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for start in siblings.keys() {
        if let Some(mut cycle) = path_back(start, &siblings) {
            // Every member of a cycle finds it: it is reported from its first name on.
            let first = (0..cycle.len()).min_by_key(|at| &cycle[*at]).unwrap_or(0);
            cycle.rotate_left(first);
            found.insert(cycle);
        }
    }
    found.into_iter().collect()
}

/// The shortest path from a module back to itself.
fn path_back(start: &str, arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut paths = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in path.last().and_then(|last| arrows.get(last)).into_iter().flatten() {
                if next == start {
                    return Some(path);
                }
                if seen.insert(next.clone()) {
                    longer.push([path.clone(), vec![next.clone()]].concat());
                }
            }
        }
        paths = longer;
    }
    None
}

/// The paths of a source that begin with `crate`, `super` or `self`, or that a `use` begins with a module beside it, as
/// absolute paths, with their lines.
fn paths(module: &str, source: &str) -> Vec<(Vec<String>, usize)> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    // The inline modules around the current token; none for other braces.
    let mut braces: Vec<Option<&str>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let text = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text);
        let here = || {
            let own = module.split("::").filter(|name| !name.is_empty());
            own.chain(braces.iter().copied().flatten()).map(str::to_owned).collect::<Vec<_>>()
        };
        match text(0) {
            "mod" if text(2) == "{" => {
                braces.push(Some(text(1)));
                at += 3;
            }
            "{" => {
                braces.push(None);
                at += 1;
            }
            "}" => {
                braces.pop();
                at += 1;
            }
            // The scope of a visibility is no use.
            "in" if at > 0 && tokens[at - 1].text == "(" => {
                while at < tokens.len() && tokens[at].text != ")" {
                    at += 1;
                }
            }
            "use" => {
                let here = here();
                at = use_tree(&tokens, at + 1, &here, &[], &mut found);
            }
            "crate" | "super" | "self" if text(1) == "::" && (at == 0 || tokens[at - 1].text != "::") => {
                let here = here();
                let line = tokens[at].line;
                let mut path = vec![text(0).to_owned()];
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text == "::")
                    && tokens.get(at + 1).is_some_and(|token| is_name(token.text))
                {
                    path.push(tokens[at + 1].text.to_owned());
                    at += 2;
                }
                found.extend(absolute(&here, &path).map(|path| (path, line)));
            }
            _ => at += 1,
        }
    }
    found
}

/// Reads a tree of `use` from a token on, and returns the first token behind it.
fn use_tree(
    tokens: &[Token<'_>],
    mut at: usize,
    here: &[String],
    prefix: &[String],
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let mut path = prefix.to_vec();
    let line = tokens.get(at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    at = use_tree(tokens, at, here, &path, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token.text == ","));
                }
                return at + 1;
            }
            "as" => at += 2,
            "*" => at += 1,
            name if is_name(name) => {
                if name != "self" || path.is_empty() {
                    path.push(name.to_owned());
                }
                at += 1;
            }
            _ => break,
        }
    }
    found.extend(absolute(here, &path).map(|path| (path, line)));
    at
}

/// A path from the crate's root. A path that begins with another name may lead to a module beside this one or outside.
fn absolute(here: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut from = here.to_vec();
    match first.as_str() {
        "crate" => from.clear(),
        "self" => {}
        "super" => drop(from.pop()),
        // A name of the extern prelude stays below this module, where no module has it.
        _ => from.push(first.clone()),
    }
    let supers = rest.iter().take_while(|name| *name == "super").count();
    from.truncate(from.len().saturating_sub(supers));
    from.extend_from_slice(&rest[supers..]);
    Some(from)
}

struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names, `::` and single characters; comments, strings, characters and numbers are left out.
fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line, mut counted) = (0, 1, 0);
    while at < bytes.len() {
        line += source[counted..at].matches('\n').count();
        counted = at;
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else { break };
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += block_comment(rest);
        } else if let Some(length) = string(rest).or_else(|| character(rest)) {
            at += length;
        } else if is_name(rest) {
            let length = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
            tokens.push(Token { text: &rest[..length], line });
            at += length;
        } else if first.is_ascii_digit() {
            at += rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
        } else if rest.starts_with("::") {
            tokens.push(Token { text: "::", line });
            at += 2;
        } else {
            if !first.is_whitespace() {
                tokens.push(Token { text: &rest[..first.len_utf8()], line });
            }
            at += first.len_utf8();
        }
    }
    tokens
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the string literal that the text begins with: plain, byte, C or raw.
fn string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|rest| {
            let quoted = if prefix.ends_with('r') { rest.trim_start_matches('#') } else { rest };
            quoted.starts_with('"')
        })
    })?;
    let body = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let length = body[hashes + 1..].find(&end).map_or(body.len(), |found| hashes + 1 + found + end.len());
        return Some(prefix.len() + length);
    }
    let mut escaped = false;
    for (at, next) in body.char_indices().skip(1) {
        match next {
            '"' if !escaped => return Some(prefix.len() + at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Some(rest.len())
}

/// The length of the character literal that the text begins with; none for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let prefix = usize::from(rest.starts_with("b'"));
    let body = rest[prefix..].strip_prefix('\'')?;
    let mut chars = body.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        let (_, _) = chars.next()?;
        let end = body[2..].find('\'')?;
        return Some(prefix + 1 + 2 + end + 1);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(prefix + 1 + at + 1)
}
