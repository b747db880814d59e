//! Output: text, JSON and tables on standard output, and messages on standard error.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Failure, Result};

/// JSON on one line, line feed included.
///
/// # Errors
/// [`Failure::Write`] for values that JSON cannot represent.
pub fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map(|line| line + "\n")
        .map_err(|error| Failure::Write { what: "JSON".into(), source: error.into() })
}

/// Writes to standard output and flushes.
///
/// # Errors
/// [`Failure::Write`]. A closed pipe is one; `main` does not treat it as a failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|source| Failure::Write { what: "to standard output".into(), source })
}

/// True if every line on standard error is a JSON object.
static MESSAGES_ARE_JSON: AtomicBool = AtomicBool::new(false);

/// Makes every line on standard error a JSON object from now on.
pub fn say_in_json() {
    MESSAGES_ARE_JSON.store(true, Ordering::Release);
}

/// Prints one line on standard error, after the program's name.
pub fn say(message: &impl Display) {
    let message = one_line(&message.to_string());
    match MESSAGES_ARE_JSON.load(Ordering::Acquire) {
        true => event("message", &json!({ "message": message })),
        // A closed standard error cannot be reported.
        false => drop(writeln!(io::stderr(), "auricle: {message}")),
    }
}

/// Prints one line on standard error about an input.
pub fn note(file: &str, message: &impl Display) {
    match MESSAGES_ARE_JSON.load(Ordering::Acquire) {
        true => event("message", &json!({ "file": file, "message": one_line(&message.to_string()) })),
        false => say(&format_args!("{file}: {message}")),
    }
}

/// Prints one line on standard error about an input that fails.
pub fn fault(file: &str, reason: &str) {
    match MESSAGES_ARE_JSON.load(Ordering::Acquire) {
        true => event("failed", &json!({ "file": file, "message": one_line(reason) })),
        false => say(&format_args!("{file}: {reason}")),
    }
}

/// Prints a JSON object on standard error: the name of an event and its fields.
pub fn event(name: &str, fields: &Value) {
    let mut event = json!({ "event": name });
    if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
        event.extend(fields.clone());
    }
    // One write, so that lines of several threads stay whole.
    let _ = io::stderr().write_all(format!("{event}\n").as_bytes());
}

/// The text on one line, without control characters.
pub fn one_line(text: &str) -> String {
    text.trim().chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Prints a list: a table under its headings, if it has some, or as JSON an object on each line.
///
/// # Errors
/// As [`print`].
pub fn list(headings: &[&str], items: Vec<(Value, Vec<String>)>, form: ListForm) -> Result<()> {
    match form {
        ListForm::Table => {
            let heading: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
            let heading = Some(heading).filter(|heading| !heading.is_empty());
            let rows: Vec<_> = heading.into_iter().chain(items.into_iter().map(|(_, row)| row)).collect();
            print(&table(&rows))
        }
        ListForm::Json => items.iter().try_for_each(|(object, _)| print(&json(object)?)),
    }
}

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListForm {
    Table,
    Json,
}

/// The form of a list; the same flag for every list.
#[derive(Args)]
pub struct ListFormArgs {
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl ListFormArgs {
    pub fn form(&self) -> ListForm {
        if self.json { ListForm::Json } else { ListForm::Table }
    }
}

/// A table with aligned columns: the first row is the heading.
pub fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["id", "name"], ["vulkan:0", "x"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(table(&rows), "id        name\nvulkan:0  x\n");
    }
}
